"""What goes wrong in a plan: processes, links, connections and the API server."""

from bench.sim.draw import STARTS_S, Action, Draw, Json


def _process(draw: Draw) -> str:
    rng = draw.rng
    names = ["owner", "scorer-0", "scorer-1", "binder-0", "binder-1", "adapter"]
    if rng.random() < 0.2:
        names = ["supervisor"]
    elif "election" in draw.features:
        names += ["leader", "leader"]
    prefix = rng.choice(("", "", "1/")) if "election" in draw.features else ""
    return prefix + rng.choice(names)


def kills(draw: Draw) -> list[Action]:
    """Processes that end at once or in the middle of what they say."""
    made = []
    for _ in draw.some(4):
        sends = draw.rng.choice((0, draw.rng.randint(1, 6)))
        made.append(Action(draw.time_s(), "kill", {"process": _process(draw), "sends": sends}))
    return made


def stops(draw: Draw) -> list[Action]:
    """Processes that stand still for a while."""
    return [
        Action(
            draw.time_s(),
            "stop",
            {"process": _process(draw), "for_s": round(10 ** draw.rng.uniform(-2, 1.5), 3)},
        )
        for _ in draw.some(3)
    ] + _machine_stops(draw)


def _machine_stops(draw: Draw) -> list[Action]:
    rng = draw.rng
    if rng.random() < 0.7:
        return []
    what = {"berth": rng.choice((0, 0, 1)), "for_s": round(10 ** rng.uniform(-1, 1.6), 3)}
    return [Action(draw.time_s(), "stop_machine", what)]


def breaks(draw: Draw) -> list[Action]:
    """Connections to the owner that break."""
    return [Action(draw.time_s(), "break_link", {"process": _process(draw)}) for _ in draw.some(3)]


def snapshots(draw: Draw) -> list[Action]:
    """Snapshots that are lost or damaged."""
    rng = draw.rng
    return [
        Action(
            draw.time_s(),
            rng.choice(("lose_snapshots", "damage_snapshots")),
            {"process": f"scorer-{rng.randint(0, 2)}", "count": rng.randint(1, 3)},
        )
        for _ in draw.some(4)
    ]


def binder_faults(draw: Draw) -> list[Action]:
    """Of bindings and deletions: refused, or carried out and the answer lost, or answered late."""
    rng, made = draw.rng, []
    for _ in draw.some(5):
        rule: Json = {"method": "POST", "path": "*/binding", "times": rng.randint(1, 3)}
        if rng.random() < 0.2:
            rule |= {"method": rng.choice(("DELETE", "PATCH")), "path": "*/pods/*"}
        elif rng.random() < 0.2:
            rule |= {"method": "GET", "path": "*/pods/p*"}
        made.append(Action(draw.time_s(), "api_fault", rule | _request_fault(draw)))
    return made


def _request_fault(draw: Draw) -> Json:
    rng = draw.rng
    kind = rng.choice(("refuse", "refuse", "delay", "disconnect", "hang"))
    if kind == "refuse":
        code = rng.choice((409, 429, 429, 500, 503, 504))
        return {"at": "request", "do": "refuse", "code": code}
    at = rng.choice(("request", "answer"))
    if kind == "delay":
        return {"at": at, "do": kind, "delay_s": round(10 ** rng.uniform(-3, 1.7), 3)}
    return {"at": at, "do": kind}


def api_faults(draw: Draw) -> list[Action]:
    """Of anything else."""
    return [
        Action(
            draw.time_s(),
            "api_fault",
            {"method": draw.rng.choice(("GET", "GET", "POST", "PATCH")), "path": "*",
             "times": draw.rng.randint(1, 6)} | _request_fault(draw),
        )
        for _ in draw.some(3)
    ]  # fmt: skip


def watch_faults(draw: Draw) -> list[Action]:
    """Of watches."""
    rng, made = draw.rng, []
    for _ in draw.some(4):
        fault: Json = {
            "at": "watch",
            "do": rng.choice(("disconnect", "end", "expire", "cut", "repeat", "delay", "garble")),
            "path": rng.choice(("*/pods", "*/nodes", "*")),
            "times": rng.randint(1, 3),
        }
        if fault["do"] == "delay":
            fault["delay_s"] = round(10 ** rng.uniform(-3, 0.5), 3)
        if fault["do"] == "repeat":
            fault["back"] = rng.randint(0, 5)
        made.append(Action(draw.time_s(), "api_fault", fault))
    return made


def server(draw: Draw) -> list[Action]:
    """The API server is started anew."""
    return [
        Action(draw.time_s(), "restart_server", {"compacts": draw.rng.random() < 0.5})
        for _ in draw.some(2)
    ]


def stalls(draw: Draw) -> list[Action]:
    """Connections on which nothing gets through in one direction."""
    return [
        Action(
            draw.time_s(),
            "stall",
            {
                "process": _client(draw),
                "upwards": draw.rng.random() < 0.5,
                "for_s": round(10 ** draw.rng.uniform(-2, 1.7), 3),
            },
        )
        for _ in draw.some(2)
    ]


def _client(draw: Draw) -> str:
    names = ["adapter", "binder-0", "binder-1"]
    if "election" in draw.features:
        names += ["leader", "1/adapter", "1/binder-0", "1/leader"]
    return draw.rng.choice(names)


def restore(draw: Draw) -> list[Action]:
    """A backup of etcd is played back."""
    saved_s = draw.time_s()
    return [
        Action(saved_s, "save_etcd", {}),
        Action(saved_s + draw.rng.random() * 5, "restore_etcd", {}),
    ]


def clock(draw: Draw) -> list[Action]:
    """A machine's clock is set."""
    by_s = draw.rng.choice((-3600.0, -5.0, 5.0, 86400.0))
    berth = draw.rng.choice((0, 0, 1))
    return [Action(draw.time_s(), "set_clock", {"berth": berth, "by_s": by_s})]


def stubborn(draw: Draw) -> list[Action]:
    """An API server that does not let pods be bound or deleted, for good or when it is asked again much
    later, and pods for which others have to go meanwhile."""
    rng, made = draw.rng, []
    for number in draw.some(4):
        at_s = draw.time_s()
        method, path = rng.choice(
            (("DELETE", "*/pods/*"), ("DELETE", "*/pods/*"), ("POST", "*/binding"))
        )
        fault: Json = {"at": "request", "do": "refuse", "method": method, "path": path}
        fault |= rng.choice(({"code": 403}, {"code": 422}, {"code": 429, "retry_after_s": 2}))
        made.append(Action(at_s, "api_fault", fault | {"times": rng.randint(1, 3)}))
        spec = {**rng.choice(draw.shapes)["spec"], "priority": 2000 + number}
        pod: Json = {"namespace": "default", "name": f"p{len(draw.pods)}"}
        draw.pods.append(pod)
        made.append(Action(at_s, "create_pod", {**pod, "labels": {"app": "a"}, "spec": spec}))
    return made


def asleep(draw: Draw) -> list[Action]:
    """A machine sleeps for a while; longer than a lease lasts, sometimes."""
    rng = draw.rng
    what = {"berth": rng.choice((0, 0, 1)), "for_s": round(10 ** rng.uniform(-1, 1.6), 3)}
    return [Action(draw.time_s(), "sleep_machine", what) for _ in draw.some(2)]


def lingering(draw: Draw) -> list[Action]:
    """A supervisor that dies, of which its children hear late."""
    linger = Action(STARTS_S, "linger", {"for_s": round(10 ** draw.rng.uniform(-3, 0.7), 3)})
    dies: Json = {"process": "supervisor", "sends": 0}
    return [linger, *(Action(draw.time_s(), "kill", dict(dies)) for _ in draw.some(2))]


def overload(draw: Draw) -> list[Action]:
    """An API server that has more to do than it can, and answers nothing else for a while."""
    rng = draw.rng
    return [
        Action(
            draw.time_s(),
            "overload",
            {
                "for_s": round(10 ** rng.uniform(-1, 1.5), 3),
                "code": rng.choice((429, 429, 503)),
                "wish_s": rng.choice((0, 1, 5, 30)),
            },
        )
        for _ in draw.some(2)
    ]


def paged(draw: Draw) -> list[Action]:
    """Lists by pages of few objects, which change between them, and whose places may be forgotten."""
    rng = draw.rng
    made = [Action(0.0, "short_pages", {"size": rng.randint(1, 3)})]
    for _ in draw.some(4):
        at_s = draw.time_s()
        made.append(Action(at_s, "kill", {"process": rng.choice(("adapter", "owner")), "sends": 0}))
        later_s = at_s + 10 ** rng.uniform(-3, 0)
        if rng.random() < 0.5:
            made.append(Action(later_s, "restart_server", {"compacts": True}))
        else:
            gone: Json = {"at": "request", "do": "refuse", "code": 410, "method": "GET"}
            gone |= {"query": "continue=", "times": rng.randint(1, 3)}
            made.append(Action(later_s, "api_fault", gone))
        named = draw.pod()
        made.append(Action(later_s, rng.choice(("delete_pod", "finish_pod")), named))
    return made


def tardy(draw: Draw) -> list[Action]:
    """Bindings that nobody answers, and that are carried out all the same, a little later: before an
    owner that comes next can have listed."""
    rng = draw.rng
    return [
        Action(
            draw.time_s(),
            "late_bindings",
            {"late_s": [round(10 ** rng.uniform(-3, -0.4), 4) for _ in draw.some(4)]},
        )
        for _ in draw.some(3)
    ]
