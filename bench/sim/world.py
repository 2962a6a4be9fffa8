"""The cluster of a run: the simulated API server, what others do to its objects, and what goes wrong.

Each method that an `Action` names tries what it says and does nothing where it no longer can (the pod
is gone, the process dead), so that every part of a plan makes sense without the rest.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import orjson

from bench.apiserver.api_cluster import (
    DEFAULT_TOLERATIONS_PLUGIN,
    PRIORITY_PLUGIN,
    TOPOLOGY_LABELS_PLUGIN,
    ClusterOptions,
)
from bench.apiserver.api_faults import AnswerFault, Disconnect, Refuse, RequestFault, WatchFault
from bench.apiserver.fault_plan import Rule, RulePlan
from bench.apiserver.http_server import ServerOptions
from bench.apiserver.router import Request
from bench.apiserver.served_resources import CORE_EVENTS, RESOURCES, Resource
from bench.apiserver.store import StoredObject, Table
from bench.apiserver.watching import WatchCursor, WatchStart
from bench.sim.berth import Berth
from bench.sim.controllers import Controllers
from bench.sim.draw import Action, Json
from bench.sim.extender import ServerWithExtenders
from bench.sim.poison import is_poison
from bench.sim.schedule import EPOCH_WALL_S, KILLED, MachineClock, Process, Simulation
from bench.sim.sim_objects import NODES
from bench.sim.sim_processes import AsyncProcess, ScorerProcess, new_process, start_api_server
from bench.sim.slow_claims import unreserved
from bench.sim.slow_pods import amount
from bench.sim.virtual_loop import Network, VirtualLoop
from shared.kube.timestamps import second_time

_OFF: Final = frozenset([DEFAULT_TOLERATIONS_PLUGIN, PRIORITY_PLUGIN, TOPOLOGY_LABELS_PLUGIN])
"""They would only make the stories longer."""
BINDERS_MAX: Final = 2
"""An order whose binder is lost for a moment may be with two: both look, and then both post."""
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


class ScriptedFaults:
    """The fault plan of the server; also a witness of all requests of berth."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.clear()
        self.is_active = True

    def add(self, rule: Rule) -> None:
        self._plan.add(rule)

    def clear(self) -> None:
        self._plan = RulePlan([])
        self.overload: RulePlan | None = None
        """In place of all else."""
        self.late_s: list[float] = []
        """Of bindings that lose their connections, and are carried out so much later."""

    def before_request(self, request: Request) -> RequestFault | None:
        fault = (self.overload or self._plan).before_request(request)
        if fault is None and self.late_s and request.target.endswith("/binding"):
            fault = Disconnect()
            self._world.simulation.after(self.late_s.pop(0), partial(self._carry_out, request))
        self._world.witness(request, fault)
        return fault

    def _carry_out(self, request: Request) -> None:
        self._world.server.carry_out(request)

    def before_answer(self, request: Request, code: int) -> AnswerFault | None:
        return self._plan.before_answer(request, code)

    def before_watch_event(self, cursor: WatchCursor) -> WatchFault | None:
        return self._plan.before_watch_event(cursor)


class World:
    """The API server and everybody but berth."""

    def __init__(self, simulation: Simulation, network: Network) -> None:
        self.simulation = simulation
        self.network = network
        self.faults = ScriptedFaults(self)
        self.berths: list[Berth] = []
        self.process = new_process(simulation, "apiserver", MachineClock(simulation), network)
        options = ClusterOptions(seed=simulation.seed, disabled_admission=_OFF)
        self.server = ServerWithExtenders(
            ServerOptions(cluster=options),
            faults=self.faults,
            now_s=lambda: EPOCH_WALL_S + simulation.now_s,
        )
        start_api_server(self.process, self.server)
        self.was_restored = False
        self.late_nodes: set[str] = set()
        """Nodes that have come, or have changed, since the beginning."""
        self.relabelled_nodes: set[str] = set()
        """Pods on them may have been of other domains before."""
        self.spoilt_nodes: set[str] = set()
        """Nodes that somebody else may have overcommitted: by a binding, or by making them smaller."""
        self.shrunk_pods: set[str] = set()
        """Pods that came to ask for less before they were seen on a node."""
        self.has_namespace_selectors = False
        """Some pod was created with one, whether or not it is still there."""
        self.has_lost_volumes = False
        """PersistentVolumes were deleted."""
        self.grown_pods: set[str] = set()
        """Pods (uids) that may ask for more than they did when somebody looked for a node for them."""
        self.requests_count = 0
        self.looks: dict[tuple[str, int | None], dict[str, int]] = {}
        """(name of the pod, epoch of the owner whom a binder obeys) -> uid -> how often it may be bound
        without another look."""
        self.broken_rules: list[tuple[str, str]] = []
        """(rule, detail) of what the witness saw; taken by the judge."""
        self._controllers = Controllers(self)
        self._looked_at: dict[str, tuple[StoredObject | None, Json]] = {}
        """By uid."""
        self._listed: dict[Table, tuple[int, list[Json]]] = {}
        """Number of the next change -> what there was."""
        self._saved: list[tuple[Table, dict[str, StoredObject]]] = []
        self._saved_version = 0

    def ask(self, method: str, path: str, body: Json | None = None) -> Json | None:
        """A request of somebody else, answered at once; None where it was refused."""
        content = b"" if body is None else orjson.dumps(body)
        request = Request(method, path, "", "application/json", "", content, True)
        answer = self.server.carry_out(request)
        assert not isinstance(answer, WatchStart), "nobody watches here"
        if answer.code >= 300:
            self.simulation.tell(f"    refused: {answer.code}")
            return None
        found: Json = orjson.loads(answer.body)
        return found

    def may_be_spoilt(self, node_name: str) -> bool:
        """Whether somebody else may have overcommitted the node."""
        if node_name in self.spoilt_nodes or self.was_restored:
            return True
        return bool(self.grown_pods) and any(
            pod["metadata"]["uid"] in self.grown_pods and pod["spec"].get("nodeName") == node_name
            for pod in self.pods()
        )

    def carry_out(self, action: Action) -> None:
        self.simulation.tell(action)
        getattr(self, action.do)(**action.what)

    def objects(self, table: Table) -> Iterator[Json]:
        """All of a kind, in the order of their names; without those that cannot be made sense of.
        Nobody may change them: who asks again is given the same."""
        of, listed = self._listed.get(table, (-1, []))
        if of != table.next_sequence:
            stored = (table.objects[key] for key in table.sorted_keys())
            listed = [self._decoded(each) for each in stored if not is_poison(each.name)]
            self._listed[table] = table.next_sequence, listed
        return iter(listed)

    def _decoded(self, stored: StoredObject) -> Json:
        """Most are looked at many times before they change."""
        of, decoded = self._looked_at.get(stored.uid, (None, {}))
        if of is not stored:
            decoded = stored.decoded()
            self._looked_at[stored.uid] = stored, decoded
        return decoded

    def kind(self, plural: str) -> Iterator[Json]:
        """All of a kind, by its plural."""
        return self.objects(self._table(plural))

    def _table(self, plural: str) -> Table:
        (resource,) = (
            each for each in RESOURCES if each.plural == plural and each is not CORE_EVENTS
        )
        return self.server.cluster.store.table(resource)

    def pods(self) -> list[Json]:
        return list(self.objects(self.server.cluster.pods))

    def nodes(self) -> list[Json]:
        return list(self.objects(self.server.cluster.nodes))

    def pod(self, namespace: str, name: str) -> Json | None:
        stored = self.server.cluster.pods.get(namespace, name)
        return None if stored is None else stored.decoded()

    # The witness ------------------------------------------------------------------------------------

    def witness(self, request: Request, fault: RequestFault | None) -> None:
        """A binding whose outcome is unknown is looked up before it is sent again."""
        self.requests_count += 1
        parts = request.target.partition("?")[0].split("/")
        if "pods" not in parts or len(parts) < 7:
            return
        speaker = self.network.speaker
        if self.simulation.story is not None:
            told = "" if fault is None else f", but the server's fault is: {fault}"
            who = "" if speaker is None else speaker.name
            self.simulation.tell(f"    {who} sends {request.method} {'/'.join(parts[4:])}{told}")
        stored = self.server.cluster.pods.get(parts[4], parts[6])
        binder = speaker.binder if isinstance(speaker, AsyncProcess) else None
        if stored is None or binder is None:
            return
        # There may be another owner, which this binder has not heard of.
        epoch = binder._last_epoch  # noqa: SLF001 # Nobody else asks.
        # A pod that is there again, as it was, may be in an order of before that nobody has carried out.
        free_count = BINDERS_MAX if self.was_restored else 1
        looks = self.looks.setdefault((stored.key, epoch), {stored.uid: free_count})
        if request.method == "GET":
            for uid, count in looks.items():
                looks[uid] = min(count + 1, BINDERS_MAX)
        elif request.method == "POST" and parts[-1] == "binding" and not isinstance(fault, Refuse):
            # A refusal says that nothing was done; any other answer may be lost. Another pod of that
            # name may be there by now.
            uid = orjson.loads(request.body)["metadata"]["uid"]
            looks[uid] = looks.get(uid, free_count) - 1
            if looks[uid] < 0:
                told = f"pod {stored.key} was posted again, and nobody had looked what became of it"
                self.broken_rules.append(("blind binding", told))
            lacking = unreserved(self._decoded(stored), self.kind("resourceclaims"))
            if lacking and uid == stored.uid and not self.was_restored:
                told = f"pod {stored.key} is bound without its claims {lacking}"
                self.broken_rules.append(("unreserved claims", told))

    # Objects ----------------------------------------------------------------------------------------

    def create_namespace(self, name: str, labels: Json) -> None:
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})

    def label_namespace(self, name: str, labels: Json) -> None:
        self.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": {"team": None} | labels}})

    def put_node(
        self, name: str, labels: Json, room: Json, taints: list[Json], unschedulable: bool
    ) -> None:
        """Makes a node, or makes it another."""
        spec = {"taints": taints, "unschedulable": unschedulable}
        body: Json = {"metadata": {"name": name, "labels": labels}, "spec": spec,
                      "status": {"allocatable": room, "capacity": room}}  # fmt: skip
        if self.berths:
            self.late_nodes.add(name)
        stored = self.server.cluster.nodes.get("", name)
        if stored is None:
            self.ask("POST", NODES, body)
            if any(pod["spec"].get("nodeName") == name for pod in self.pods()):
                self.spoilt_nodes.add(name)
            return
        self.spoilt_nodes.add(name)
        self.relabelled_nodes.add(name)
        body["metadata"]["uid"] = stored.uid
        self.ask("PUT", f"{NODES}/{name}", body)
        self.ask("PUT", f"{NODES}/{name}/status", body)

    def delete_node(self, name: str) -> None:
        self.spoilt_nodes.add(name)
        self.ask("DELETE", f"{NODES}/{name}")

    def replace_node(self, old: str, new: Json) -> None:
        """Another node comes in the moment in which one goes."""
        self.delete_node(old)
        self.put_node(**new)

    def create_pod(self, namespace: str, name: str, labels: Json, spec: Json) -> None:
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        self.has_namespace_selectors |= "namespaceSelector" in str(spec.get("affinity"))
        self.ask("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    def delete_pod(self, namespace: str, name: str) -> None:
        self.ask("DELETE", _pod(namespace, name))

    def recreate_pod(self, namespace: str, name: str, labels: Json, spec: Json) -> None:
        """Gone without grace, and there again under its name."""
        if self.ask("DELETE", _pod(namespace, name) + "?gracePeriodSeconds=0") is not None:
            self.create_pod(namespace, name, labels, spec)

    def mark_preempted(self, namespace: str, name: str) -> None:
        """Another scheduler says that it has the pod go, and has second thoughts."""
        pod = self.pod(namespace, name)
        if pod is not None:
            others = pod["status"].get("conditions") or []
            told = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            self.patch(
                _pod(namespace, name) + "/status", {"status": {"conditions": [*others, told]}}
            )

    def finish_pod(self, namespace: str, name: str) -> None:
        """What runs has done its work."""
        pod = self.pod(namespace, name)
        if pod is not None and pod["spec"].get("nodeName"):
            self.patch(_pod(namespace, name) + "/status", {"status": {"phase": "Succeeded"}})

    def start_pod(self, namespace: str, name: str) -> None:
        """Its node has begun with it."""
        pod = self.pod(namespace, name)
        if pod is not None and pod["spec"].get("nodeName"):
            started = second_time(EPOCH_WALL_S + self.simulation.now_s)
            self.patch(_pod(namespace, name) + "/status", {"status": {"startTime": started}})

    def open_gates(self, namespace: str, name: str) -> None:
        self.patch(_pod(namespace, name), {"spec": {"schedulingGates": None}})

    def label_pod(self, namespace: str, name: str, labels: Json) -> None:
        self.patch(_pod(namespace, name), {"metadata": {"labels": labels}})

    def tolerate(self, namespace: str, name: str, toleration: Json) -> None:
        """One more; none that is there already."""
        pod = self.pod(namespace, name)
        told = [] if pod is None else pod["spec"].get("tolerations") or []
        if toleration not in told:
            self.patch(_pod(namespace, name), {"spec": {"tolerations": [*told, toleration]}})

    def resize_pod(self, namespace: str, name: str, cpu: str) -> None:
        """In place; a pod that asks for more than before may be too large for its node then."""
        pod = self.pod(namespace, name)
        if pod is not None:
            (container,) = pod["spec"]["containers"]
            before = container["resources"]["requests"]
            resources = {**container["resources"], "requests": {**before, "cpu": cpu}}
            if amount("cpu", cpu) > amount("cpu", before["cpu"]):
                self.grown_pods.add(pod["metadata"]["uid"])
            elif not pod["spec"].get("nodeName"):
                self.shrunk_pods.add(pod["metadata"]["uid"])
            body = {"spec": {"containers": [{**container, "resources": resources}]}}
            self.patch(_pod(namespace, name) + "/resize", body)

    def foreign_bind(self, namespace: str, name: str, node: str) -> None:
        """Somebody else binds a pod that is ours to bind."""
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        if self.ask("POST", _pod(namespace, name) + "/binding", body) is not None:
            self.spoilt_nodes.add(node)

    def create(self, path: str, body: Json) -> None:
        """Any object that nothing else is to be said of."""
        self.ask("POST", path, body)

    def change(self, path: str, body: Json) -> None:
        if path.startswith(f"{NODES}/") and "labels" in body.get("metadata", {}):
            self.relabelled_nodes.add(path.split("/")[4])
        self.patch(path, body)

    def delete(self, path: str) -> None:
        self.has_lost_volumes |= "/persistentvolumes/" in path
        self.ask("DELETE", path)

    def put_raw(self, plural: str, body: Json) -> None:
        """What no API server would take today, but is there: of another version, or as bytes fell."""
        table = self._table(plural)
        meta = body["metadata"]
        before = table.get(meta.get("namespace", ""), meta["name"])
        meta = {**meta, "uid": self.server.cluster.new_uid() if before is None else before.uid}
        self.server.cluster.store.put(table, {**body, "metadata": meta}, before)
        self.ask("GET", NODES)  # After each request the server looks whom it has news for.

    def start_controllers(self, period_s: float) -> None:
        """They look so often whether there is anything to do."""

        def work() -> None:
            self._controllers.work()
            self.simulation.after(period_s, work)

        self.simulation.after(period_s, work)

    def create_budget(self, name: str, app: str, allowed: int) -> None:
        body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": app}}}}
        self.ask("POST", BUDGETS, body)
        self.patch(f"{BUDGETS}/{name}/status", {"status": {"disruptionsAllowed": allowed}})

    def patch(self, path: str, body: Json) -> None:
        content_type = "application/merge-patch+json"
        request = Request("PATCH", path, "", content_type, "", orjson.dumps(body), True)
        answer = self.server.carry_out(request)
        assert not isinstance(answer, WatchStart), "nobody watches here"
        if answer.code >= 300:
            self.simulation.tell(f"    refused: {answer.code}")

    def end_namespace(self, name: str, labels: Json, after_s: float) -> None:
        """With all that is in it. Later there is one of that name again, if this one is gone by then."""
        self.ask("DELETE", f"/api/v1/namespaces/{name}")
        self.simulation.after(after_s, partial(self.create_namespace, name, labels))

    # What goes wrong --------------------------------------------------------------------------------

    def _find(self, process: str) -> Process | None:
        """Where it lives just now."""
        number, _, name = process.rpartition("/")
        if int(number or 0) >= len(self.berths):
            return None
        found = self.berths[int(number or 0)].processes.get(name)
        return found if found is not None and found.is_alive else None

    def _all_processes(self) -> list[Process]:
        return [each for berth in self.berths for each in berth.processes.values()]

    def kill(self, process: str, sends: int) -> None:
        """At once, or once it has sent so many more messages."""
        found = self._find(process)
        if found is not None and sends:
            found.sends_left = sends
        elif found is not None:
            found.end(KILLED)

    def stop(self, process: str, for_s: float) -> None:
        found = self._find(process)
        if found is not None:
            found.stop_until(self.simulation.now_s + for_s)

    def stop_machine(self, berth: int, for_s: float) -> None:
        """Everything on it stands still, as a virtual machine that is moved elsewhere."""
        if berth < len(self.berths):
            for process in self.berths[berth].processes.values():
                if process.is_alive:
                    process.stop_until(self.simulation.now_s + for_s)

    def sleep_machine(self, berth: int, for_s: float) -> None:
        """Everything on it stands still, and its monotonic clock as well."""
        if berth < len(self.berths):
            self.berths[berth].sleep(for_s)

    def linger(self, for_s: float) -> None:
        """Children that are so busy that they notice late when their supervisor is gone."""
        for berth in self.berths:
            berth.linger_s = for_s

    def reload(self, berth: int, configuration: int) -> None:
        if berth < len(self.berths):
            self.berths[berth].reload(configuration)

    def break_link(self, process: str) -> None:
        found = self._find(process)
        for berth in self.berths:
            for peer in list(berth.links.peers.values()):
                if peer.process is found:
                    peer.break_off()

    def lose_snapshots(self, process: str, count: int) -> None:
        found = self._find(process)
        if isinstance(found, ScorerProcess):
            found.sockets.snapshots_to_lose += count

    def damage_snapshots(self, process: str, count: int) -> None:
        found = self._find(process)
        if isinstance(found, ScorerProcess):
            found.sockets.snapshots_to_damage += count

    def api_fault(self, **rule: Any) -> None:
        self.faults.add(Rule(**rule))

    def overload(self, for_s: float, code: int, wish_s: int) -> None:
        """The API server refuses everything, and says when to come again (0: it does not)."""
        rule = Rule(at="request", do="refuse", code=code, retry_after_s=wish_s or None, times=0)
        self.faults.overload = RulePlan([rule])
        self.simulation.after(for_s, partial(setattr, self.faults, "overload", None))

    def late_bindings(self, late_s: list[float]) -> None:
        self.faults.late_s += late_s

    def short_pages(self, size: int) -> None:
        """A list comes by so many objects at a time."""
        self.server.page_size = size

    def stall(self, process: str, upwards: bool, for_s: float) -> None:
        """No byte gets through in one direction."""
        until_s = self.simulation.now_s + for_s
        self.network.stalled_until_s[process, upwards] = until_s

    def set_clock(self, berth: int, by_s: float) -> None:
        if berth < len(self.berths):
            self.berths[berth].machine.clock.wall_offset_s += by_s

    def break_connections(self) -> None:
        """All connections break at once, those included that the server has closed already."""
        callers = [
            process.caller.process
            for process in self._all_processes()
            if isinstance(process, ScorerProcess) and process.caller is not None
        ]
        for process in (self.process, *callers, *self._all_processes()):
            if isinstance(process, VirtualLoop):
                for connection in list(process.connections):
                    connection.break_off()

    def restart_server(self, compacts: bool) -> None:
        self.break_connections()
        if compacts:
            self.server.cluster.store.compact()

    def save_etcd(self) -> None:
        store = self.server.cluster.store
        self._saved = [(table, dict(table.objects)) for table in store.tables()]
        self._saved_version = store.version

    def restore_etcd(self) -> None:
        """Everything is as it was then, versions included. A watch from a version that is yet to come
        waits for it and has a hole from then on, in Kubernetes as here, so whoever plays a backup back
        has to start all who watch anew."""
        if not self._saved:
            return
        self.was_restored = True
        self.looks.clear()  # Whoever lists anew sees which bindings are undone.
        self.break_connections()
        for berth in self.berths:
            berth.kill("adapter")
        store = self.server.cluster.store
        store.restore(self._saved_version, self._saved)
        self._listed.clear()
        for pod in self.pods():
            meta = pod["metadata"]
            if "deletionTimestamp" in meta:  # Whoever was to end it goes on with that.
                self.ask("DELETE", _pod(meta["namespace"], meta["name"]) + "?gracePeriodSeconds=0")

    def delete_everything(self) -> None:
        """Pods, nodes, and whatever else was made."""
        self.simulation.tell("everything is deleted")
        store = self.server.cluster.store
        for table in store.tables():
            for stored in [each for each in table.objects.values() if is_poison(each.name)]:
                store.remove(table, stored)
        for pod in self.pods():
            meta = pod["metadata"]
            self.ask("DELETE", _pod(meta["namespace"], meta["name"]) + "?gracePeriodSeconds=0")
        for node in self.nodes():
            self.ask("DELETE", f"{NODES}/{node['metadata']['name']}")
        for resource in RESOURCES:
            if resource not in _KEPT:
                for found in list(self.objects(self.server.cluster.store.table(resource))):
                    self.ask("DELETE", _path(resource, found["metadata"]))

    def close(self) -> None:
        """Ends all processes, so that nothing of this run is left."""
        for berth in self.berths:
            berth.close()
        self.process.kill()

    def collect_orphans(self) -> None:
        """Pods of nodes that are gone go too, as PodGC has it. (InterPodAffinity is woken by the end
        of a pod, and not by that of its node.)"""
        nodes = {node["metadata"]["name"] for node in self.nodes()}
        for pod in self.pods():
            if pod["spec"].get("nodeName", "") not in ("", *nodes):
                meta = pod["metadata"]
                self.ask("DELETE", _pod(meta["namespace"], meta["name"]) + "?gracePeriodSeconds=0")

    def heal(self) -> None:
        """Nothing goes wrong any more, and what hung breaks."""
        self.simulation.tell("everything works again")
        self.faults.clear()
        self.network.stalled_until_s.clear()
        for berth in self.berths:
            berth.wake()
        for process in self._all_processes():
            process.start_again()
        self.break_connections()
        if self.was_restored:
            # A binding that was answered and is no more in the backup: no word of it will ever come.
            for berth in self.berths:
                berth.kill("owner")


_KEPT: Final = frozenset(
    each
    for each in RESOURCES
    if each.plural in ("namespaces", "priorityclasses", "leases", "events", "pods", "nodes")
)


def _path(resource: Resource, meta: Json) -> str:
    base = f"/apis/{resource.group_version}" if resource.group else f"/api/{resource.version}"
    if resource.is_namespaced:
        base += f"/namespaces/{meta['namespace']}"
    return f"{base}/{resource.plural}/{meta['name']}"


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
