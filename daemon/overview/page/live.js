"use strict";
// Whatever comes from the cluster becomes text, never markup.
const $ = (id) => document.getElementById(id);
const count = new Intl.NumberFormat("en");
const state = { token: "", seen: null, paused: false, resource: "", history: [], timer: 0, cells: [], heldPod: "" };

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== "") element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
const short = (n) => n >= 100 || Number.isInteger(n) ? count.format(Math.round(n)) : n.toFixed(1);
function ago(s) {
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
}
function bytes(n) {
  for (const [unit, size] of [["PiB", 2 ** 50], ["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20]]) {
    if (n >= size) { const part = n / size; return `${part >= 100 ? count.format(Math.round(part)) : part.toFixed(1)} ${unit}`; }
  }
  return `${count.format(n)} B`;
}
function amount(resource, n) {
  if (resource === "cpu") return `${short(n / 1000)} cores`;
  if (resource === "memory" || /^(ephemeral-storage|hugepages-)/.test(resource)) return bytes(n);
  return count.format(n);
}
function called(resource) {
  const name = resource.slice(resource.lastIndexOf("/") + 1);
  return { cpu: "CPU", memory: "Memory", pods: "Pods", gpu: "GPU", "ephemeral-storage": "Disk" }[name] || resource;
}

// Rows that are there are kept, so that what has the focus keeps it.
function fill(body, rows, write) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((row, index) => write(body.rows[index] || body.insertRow(), row));
}
function cells(row, width) {
  while (row.cells.length < width) row.insertCell();
  return row.cells;
}
function put(cell, ...children) { cell.replaceChildren(...children); }
function say(element, text) { if (element.textContent !== text) element.textContent = text; }
function podButton(cell, key, node = "") {
  let button = cell.querySelector("button");
  if (!button) { button = make("button", "", { type: "button", class: "link" }); cell.append(button);
    button.addEventListener("click", () => explain(button.dataset.pod, button.dataset.node)); }
  button.dataset.pod = key;
  button.dataset.node = node;
  say(button, key);
}

async function ask(path) {
  const headers = state.token ? { Authorization: `Bearer ${state.token}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) {
    const told = await answer.json().catch(() => ({}));
    throw Object.assign(new Error(told.message || "refused"), { refused: true });
  }
  if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).slice(0, 200)}`);
  return answer.json();
}

function rest() {
  clearTimeout(state.timer);
  state.timer = 0;
}
async function look() {
  rest();
  let pause = 2;
  try {
    const seen = await ask("/ui/overview");
    pause = seen.next_in_s;
    state.seen = seen;
    state.at = performance.now();
    $("token").hidden = true;
    $("main").hidden = false;
    show(seen);
  } catch (error) {
    if (error.refused) {
      $("main").hidden = true; $("token").hidden = false;
      say($("refusal"), state.token ? error.message : "");
      $("secret").focus();
      return;
    }
    problems([`no answer: ${error.message}`]);
    pause = 5;
  }
  rest();
  if (!state.paused && !document.hidden) state.timer = setTimeout(look, pause * 1000);
}

function show(seen) {
  const lead = seen.leading === null ? "" : seen.leading ? " · leads" : " · stands by";
  say($("state"), `${seen.state}${lead} · ${count.format(seen.nodes.node_count)} nodes · ${count.format(seen.pod_count)} pods · version ${seen.version}`);
  problems(seen.problems);
  figures(seen);
  pending(seen);
  decisions(seen);
  nodes(seen.nodes);
  gangs(seen.gangs);
  processes(seen.processes);
}
function problems(told) {
  $("problems").hidden = !told.length;
  const shown = told.map((one) => make("p", one));
  if ($("problems").textContent !== told.join("")) $("problems").replaceChildren(...shown);
}

function figures(seen) {
  const q = seen.queue, r = seen.rates;
  const waiting = q.active + q.backoff + q.unschedulable + q.gated;
  state.history.push({ scheduled: r.scheduled || 0, waiting });
  if (state.history.length > 150) state.history.shift();
  const rate = (name) => (r[name] === undefined ? "–" : short(r[name]));
  const age = seen.api_word_age_s;
  const lags = seen.processes.map((one) => one.lag).filter((lag) => lag !== null);
  const told = [
    ["Scheduled per second", rate("scheduled"), `${count.format(seen.counters.scheduled || 0)} so far`, "scheduled"],
    ["Pending", count.format(waiting), places(q), "waiting"],
    ["Unschedulable", count.format(q.unschedulable), "fit nowhere as it is"],
    ["Being scheduled", count.format(q.in_flight), `${count.format(seen.binds_in_flight)} bindings under way`],
    ["Generation", count.format(seen.generation), lags.length ? `scorers behind by ${count.format(Math.max(...lags))}` : "no scorer has spoken"],
    ["API server", age === null ? "–" : `${age.toFixed(1)} s`, "since its newest word"],
  ];
  const list = $("figures");
  told.forEach(([name, figure, note, series], index) => {
    let box = list.children[index];
    if (!box) {
      box = make("div"); box.append(make("dt"), make("dd")); list.append(box);
      box.lastChild.append(make("span"), make("small"));
    }
    say(box.children[0], name);
    say(box.querySelector("span"), figure);
    say(box.querySelector("small"), note);
    if (series) spark(box, state.history.map((one) => one[series]));
  });
}
function places(q) {
  const told = [["active", q.active], ["backing off", q.backoff], ["gated", q.gated]].filter(([, n]) => n);
  return told.map(([name, n]) => `${count.format(n)} ${name}`).join(", ") || (q.unschedulable ? "none has its turn" : "nobody waits");
}
function spark(box, values) {
  let svg = box.querySelector("svg");
  if (!svg) {
    svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("aria-hidden", "true");
    svg.append(document.createElementNS("http://www.w3.org/2000/svg", "polyline")); box.append(svg);
  }
  const most = Math.max(...values, 1);
  svg.toggleAttribute("hidden", values.length < 5);
  const slots = Math.max(40, values.length);
  svg.setAttribute("viewBox", `0 0 ${slots - 1} 24`);
  svg.firstChild.setAttribute("points", values.map((v, i) => `${slots - values.length + i},${(23 - 22 * v / most).toFixed(1)}`).join(" "));
}

function pending(seen) {
  const rows = seen.pending;
  const most = Math.max(...rows.map((one) => one.pod_count), 1);
  fill($("pending").querySelector("tbody"), rows, (row, one) => {
    const [what, number] = cells(row, 2);
    if (!what.firstChild) what.append(make("span"), make("span", "", { class: "note" }), make("i", "", { class: "part" }));
    say(what.children[0], one.detail ? `${one.text}: ${one.detail}` : one.text);
    const note = what.children[1];
    if (!note.firstChild) note.append(make("span", "as "), make("span"));
    podButton(note.children[1], one.example);
    const part = what.children[2];
    part.style.width = `${100 * one.pod_count / most}%`;
    part.classList.toggle("turn", one.place === "active" || one.place === "in_flight");
    say(number, count.format(one.pod_count));
  });
  if (!rows.length) fill($("pending").querySelector("tbody"), [0], (row) => { const [what, number] = cells(row, 2); put(what, make("span", "No pod waits.", { class: "quiet" })); put(number); });
}

function decisions(seen) {
  const section = $("decisions");
  const held = section.matches(":hover") || section.querySelector("tbody").contains(document.activeElement);
  $("held").hidden = !held || !seen.decisions.length;
  if (held && section.querySelector("tbody").rows.length > 1) return;
  fill(section.querySelector("tbody"), seen.decisions, (row, one) => {
    const [when, what] = cells(row, 2);
    if (!what.firstChild) what.append(make("span"), make("span"));
    const [pod, outcome] = what.children;
    what.className = "text";
    say(when, ago(one.ago_s));
    podButton(pod, one.pod, one.node);
    outcome.className = one.node ? "note node" : "note";
    say(outcome, one.node ? `\u2192 ${one.node}` : one.message);
    outcome.title = one.message;
  });
}

function gangs(rows) {
  $("gangs").hidden = !rows.length;
  fill($("gangs").querySelector("tbody"), rows, (row, one) => {
    const [name, ...numbers] = cells(row, 4);
    put(name, make("code", one.group));
    [one.pending_count, one.placed_count, one.wanted_count || "–"].forEach((n, i) => say(numbers[i], typeof n === "number" ? count.format(n) : n));
  });
}

function processes(rows) {
  fill($("processes").querySelector("tbody"), rows, (row, one) => {
    const told = one.is_alive
      ? [`${one.cpu_percent.toFixed(0)} %`, `${short(one.cpu_s)} s`, bytes(one.rss_bytes), bytes(one.rss_peak_bytes), one.lag === null ? "" : count.format(one.lag), ago(one.running_s)]
      : ["down", "", "", "", "", ""];
    const all = cells(row, 8);
    say(all[0], one.name);
    told.forEach((text, i) => say(all[i + 1], text));
    say(all[7], one.restart_count + (one.last_exit ? ` (${one.last_exit})` : ""));
    [2, 4, 6].forEach((i) => all[i].classList.add("spare"));
    all[1].classList.toggle("bad", !one.is_alive);
  });
}

// The heat map -----------------------------------------------------------------------------------------
function nodes(map) {
  $("nodes").hidden = !map.node_count;
  if (!map.resources.includes(state.resource)) state.resource = map.resources[0] || "";
  const choice = $("resources");
  if (choice.dataset.of !== map.resources.join()) {
    choice.dataset.of = map.resources.join();
    choice.replaceChildren(choice.firstElementChild, ...map.resources.map((name) => {
      const label = make("label", "", {}), input = make("input", "", { type: "radio", name: "resource", value: name });
      input.checked = name === state.resource;
      input.addEventListener("change", () => { state.resource = name; nodes(state.seen.nodes); });
      label.append(input, called(name));
      return label;
    }));
  }
  const at = map.resources.indexOf(state.resource);
  const holder = $("zones");
  while (holder.children.length > map.zones.length) holder.lastChild.remove();
  const cell = cellSize(map, holder.clientWidth);
  map.zones.forEach((zone, index) => {
    const box = holder.children[index] || zoneBox(holder);
    const total = zone.totals[at], name = zone.zone || (map.zones.length > 1 ? "no zone" : "all nodes");
    const [title, many, used] = box.firstChild.children;
    say(title, name); say(many, `${count.format(zone.node_count)} nodes`);
    const share = total.allocatable ? `${Math.round(100 * total.requested / total.allocatable)} %` : "none";
    say(used, `${share} of ${amount(state.resource, total.allocatable)}`);
    const shares = zone.shares[at], full = shares.filter((s) => s >= 90).length;
    box.canvas.setAttribute("aria-label", `${called(state.resource)} in ${name}: ${share} of ${amount(state.resource, total.allocatable)} requested on ${zone.node_count} nodes; ${full} of ${shares.length} cells are at 90 percent or more. Arrow keys go from node to node.`);
    Object.assign(box.map, { zone, shares, cell, per: map.nodes_per_cell, name });
    box.map.at = Math.min(box.map.at, shares.length - 1);
    paint(box);
  });
}
function cellSize(map, width) {
  for (let size = 16; size > 3; size -= 1) {
    const rows = map.zones.reduce((sum, zone) => sum + Math.ceil(zone.cells.length / Math.floor(width / size)), 0);
    if (rows * size <= Math.max(280, width / 3)) return size;
  }
  return 3;
}
function zoneBox(holder) {
  const box = make("div", "", { class: "zone" }), head = make("p"), canvas = make("canvas", "", { tabindex: "0", role: "img" });
  head.append(make("b"), make("span", "", { class: "quiet" }), make("span"));
  box.append(head, canvas);
  box.canvas = canvas;
  box.map = { at: -1 };
  canvas.addEventListener("pointermove", (event) => {
    const { cell, columns, shares } = box.map;
    const at = Math.floor(event.offsetY / cell) * columns + Math.floor(event.offsetX / cell);
    point(box, at < shares.length ? at : -1);
  });
  canvas.addEventListener("pointerleave", () => { if (document.activeElement !== canvas) point(box, -1); });
  canvas.addEventListener("focus", () => { if (canvas.matches(":focus-visible")) point(box, Math.max(0, box.map.at)); });
  canvas.addEventListener("blur", () => point(box, -1));
  canvas.addEventListener("keydown", (event) => {
    const { at, columns, shares } = box.map;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns, ArrowUp: at - columns, Home: 0, End: shares.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (to >= 0 && to < shares.length) point(box, to);
  });
  holder.append(box);
  return box;
}
function point(box, at) {
  if (box.map.at === at) return;
  box.map.at = at;
  paint(box);
  const { zone, shares, per } = box.map;
  const share = at < 0 ? 0 : shares[at];
  say($("readout"), at < 0 ? "" : `${zone.cells[at]}${per > 1 ? ` and the ${per - 1} after it` : ""}: ${share < 0 ? `no ${called(state.resource)}` : `${share} % of its ${called(state.resource)} requested`}`);
}
function paint(box) {
  const { canvas, map } = box, { shares, cell, at } = map;
  const width = canvas.parentElement.clientWidth, columns = Math.max(1, Math.floor(width / cell));
  map.columns = columns;
  const rows = Math.ceil(shares.length / columns), dots = window.devicePixelRatio || 1;
  canvas.width = width * dots; canvas.height = rows * cell * dots;
  canvas.style.height = `${rows * cell}px`;
  const pen = canvas.getContext("2d");
  pen.scale(dots, dots);
  const gap = cell > 5 ? 1 : cell > 3 ? .5 : 0;
  shares.forEach((share, i) => {
    pen.fillStyle = share < 0 ? colours.none : colours.scale[Math.min(100, share)];
    pen.fillRect((i % columns) * cell, Math.floor(i / columns) * cell, cell - gap, cell - gap);
  });
  if (at >= 0) {
    pen.strokeStyle = colours.ink; pen.lineWidth = 2;
    pen.strokeRect((at % columns) * cell + .5, Math.floor(at / columns) * cell + .5, cell - 1, cell - 1);
  }
}
let colours = null;
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const stops = [0, 1, 2, 3].map((i) => of(`--heat${i}`).match(/[0-9a-f]{2}/gi).map((h) => parseInt(h, 16)));
  const scale = Array.from({ length: 101 }, (_, share) => {
    const at = Math.min(2, Math.floor(share * 3 / 100)), part = share * 3 / 100 - at;
    return `rgb(${stops[at].map((from, i) => Math.round(from + (stops[at + 1][i] - from) * part)).join(" ")})`;
  });
  colours = { scale, none: of("--none"), ink: of("--ink") };
}

// One pod ----------------------------------------------------------------------------------------------
async function explain(key, node = "") {
  say($("pod-name"), key);
  put($("facts"), make("p", "Asking the owner …", { class: "quiet" }));
  if (!$("pod").open) $("pod").showModal();
  try {
    const facts = await ask(`/ui/pod?key=${encodeURIComponent(key)}`);
    put($("facts"), ...(facts ? podFacts(facts) : [make("p", node ? `It was given ${node}.` : "It does not wait any more.")]), ...more(key));
  } catch (error) { put($("facts"), make("p", `No answer: ${error.message}`, { class: "bad" })); }
}
function more(key) {
  const button = make("button", "Ask every filter", { type: "button" }), told = make("div");
  button.addEventListener("click", async () => {
    button.disabled = true;
    put(told, make("p", "Worked out from a list of the whole cluster, which takes a while …", { class: "quiet" }));
    const found = await ask(`/ui/explain?key=${encodeURIComponent(key)}`).catch((error) => ({ problem: error.message }));
    put(told, ...(found.problem ? [make("p", found.problem, { class: "bad" })] : verdicts(found.diagnosis, found.node)));
    button.disabled = false;
  });
  const line = make("p", "Every filter on every node, what is missing where least is, and scores; also by ", { class: "quiet" });
  line.append(make("code", `berth explain ${key}`));
  return [line, button, told];
}
function verdicts(found, own) {
  const reasons = (some) => some.map((one) => `${one.node}: ${one.reason}`).join("; ");
  const shown = [make("p", `It fits ${count.format(found.feasible_count)} of ${count.format(found.node_count)} nodes.`)];
  if (found.rejections.length) shown.push(grid([["Rejected by", "text"], ["Nodes"], ["Alone"], ["For example", "text"]],
    found.rejections.map((one) => [one.plugin, count.format(one.node_count), count.format(one.alone_count), reasons(one.examples)])));
  if (found.nearest.length) shown.push(grid([["Least missing on", "text"], ["What", "text"]], found.nearest.map((one) => [one.node, one.reason])));
  if (found.scores.length) shown.push(grid([["Scores now", "text"], ["Total"], ["By plugin", "text"]], found.scores.map((one) =>
    [one.node + (one.node === own ? " (its own)" : ""), count.format(one.total), Object.entries(one.scores).map(([name, score]) => `${name} ${score}`).join(", ")])));
  return shown;
}
function grid(heads, rows) {
  const table = make("table"), top = make("thead"), head = make("tr"), body = make("tbody");
  head.append(...heads.map(([name, kind]) => make("th", name, kind ? { class: kind } : {})));
  top.append(head);
  body.append(...rows.map((texts) => { const row = make("tr"); row.append(...texts.map((text, at) => make("td", text, heads[at][1] ? { class: heads[at][1] } : {}))); return row; }));
  table.append(top, body);
  const box = make("div", "", { class: "scroll grid" });
  box.append(table);
  return box;
}
function podFacts(facts) {
  const list = make("dl");
  const tell = (name, text) => { if (text) list.append(make("dt", name), make("dd", text)); };
  const places = { in_flight: "being scheduled", backoff: "backing off", active: "waits for its turn" };
  tell("Now", `${facts.gated_by ? `held by ${facts.gated_by}` : places[facts.place] || facts.place} for ${ago(facts.here_for_s)}; pending for ${ago(facts.pending_for_s)}`);
  tell("Reason", facts.gated_by ? "" : facts.reason);
  tell("Rejected by", facts.rejected_by.join(", "));
  tell("Assumed on", facts.assumed_node);
  tell("Waits for", facts.waits_for.length ? `${facts.waits_for.join(", ")} to permit it` : "");
  tell("Room is made on", facts.nominated_node && `${facts.nominated_node}; ${facts.awaited_victim_count} pods have to go`);
  tell("Next attempt", facts.next_try_in_s === null ? "" : `in ${ago(facts.next_try_in_s)}, or when an event wakes it`);
  tell("Events", facts.place === "unschedulable" ? facts.woken_by.join(", ") : "");
  tell("Competes with", facts.competitor_count ? `${count.format(facts.competitor_count)} pods that wait for the same, ${count.format(facts.ahead_count)} of a higher priority` : "");
  const shown = [list];
  const outcome = `Outcome of its ${facts.attempts === 1 ? "attempt" : `${facts.attempts} attempts`}`;
  if (facts.past.length) shown.push(grid([["Ago"], [outcome, "text"]], facts.past.map((one) => [ago(one.ago_s), one.message])));
  return shown;
}

$("close").addEventListener("click", () => $("pod").close());
$("pod").addEventListener("click", (event) => { if (event.target === $("pod")) $("pod").close(); });
$("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  $("pause").setAttribute("aria-pressed", state.paused);
  say($("pause"), state.paused ? "Go on" : "Pause");
  if (state.paused) rest(); else look();
});
$("token").addEventListener("submit", (event) => { event.preventDefault(); state.token = $("secret").value.trim(); look(); });
document.addEventListener("visibilitychange", () => { if (document.hidden) rest(); else if (!state.paused) look(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); if (state.seen) nodes(state.seen.nodes); });
new ResizeObserver(() => { if (state.seen) nodes(state.seen.nodes); }).observe($("zones"));
setInterval(() => { if (state.at) say($("age"), `${state.paused ? "paused, " : ""}${ago((performance.now() - state.at) / 1000)} ago`); }, 500);
readColours();
look();
