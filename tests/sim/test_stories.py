"""Short stories that the simulation once told of a fault, each with the fault planted again."""

from typing import Any, Final

from bench.sim.deadly import DEADLY, SCORER
from bench.sim.draw import Action, create
from bench.sim.extender import LICENCE, is_refused
from bench.sim.plan_claims import CLAIMS, DEVICES, DISKS, SLICES, STORAGE
from bench.sim.plan_groups import GROUPS
from bench.sim.refusal import PERMIT, REFUSED_AS, REFUSED_AT, RESERVE
from bench.sim.sim_objects import HOST
from bench.sim.sim_plan import Plan, configurations
from bench.sim.sim_run import play
from daemon.core.queue.scheduling_queue import REFUSALS_IN_A_ROW_MAX
from tests.sim.planting import planted

BINDING_POSTS: Final = {"at": "request", "method": "POST", "path": "*/binding"}


def node(name: str, cpu: str = "1", *, unschedulable: bool = False) -> Action:
    what: dict[str, Any] = {"name": name, "labels": {}, "taints": []}
    room = {"cpu": cpu, "memory": "1Gi", "pods": "10"}
    return Action(0.0, "put_node", {**what, "room": room, "unschedulable": unschedulable})


def pod(at_s: float, name: str, priority: int = 0) -> Action:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "priority": priority}
    what = {"namespace": "default", "name": name, "labels": {}, "spec": spec}
    return Action(at_s, "create_pod", what)


def story(*actions: Action) -> Plan:
    return Plan(seed=1, features=(), scorer_count=1, binder_count=1, actions=actions)


def kind_of_failure(plan: Plan, module: str, code: str, fault: str) -> str:
    """What the story ends in, with the fault in place of the code; it does not end well."""
    with planted(module, code, fault):
        failure = play(plan).failure
    assert failure is not None
    return failure.kind


def test_the_last_delta_for_a_long_time_is_lost() -> None:
    """The next one would show the gap, but none comes: the pod is with a worker that waits for it."""
    plan = story(
        node("n0"),
        Action(3.0, "lose_snapshots", {"process": "scorer-0", "count": 1}),
        pod(3.1, "p0"),
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 1
    kind = kind_of_failure(
        plan, "workers.scorer.scorer_loop", "        self._look_for_lost_deltas()\n", ""
    )
    assert kind == "no rest"


def test_a_pod_is_bound_elsewhere_than_it_was_assumed() -> None:
    """Its room is free again, and whoever waits for room is told."""
    plan = story(
        node("n0"),
        node("n1", unschedulable=True),
        Action(
            2.0,
            "api_fault",
            {"at": "request", "do": "delay", "delay_s": 4.0, "method": "POST", "path": "*/binding"},
        ),
        pod(3.0, "p0"),
        pod(3.5, "p1"),
        Action(4.0, "foreign_bind", {"namespace": "default", "name": "p0", "node": "n1"}),
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 2
    undone = "            self.wake_as_removed(old, node_name, now_s)\n"
    kind = kind_of_failure(plan, "daemon.core.cluster_changes", undone, "            pass\n")
    assert kind == "waits though it fits"


def test_a_pod_keeps_its_room_while_a_post_for_it_may_be_carried_out() -> None:
    """Its binder has lost the owner, and the next one is refused."""
    plan = story(
        node("n0"),
        Action(2.0, "api_fault", {**BINDING_POSTS, "do": "delay", "delay_s": 5.0}),
        pod(2.1, "p0"),
        Action(2.5, "api_fault", {**BINDING_POSTS, "do": "refuse", "code": 422, "times": 1}),
        Action(2.6, "break_link", {"process": "binder-1"}),
        pod(3.2, "p1"),
        Action(12.0, "put_node", node("n1").what),
    )._replace(binder_count=2)
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 2
    code, fault = "seen = await self._see_late(order, outcome)", "seen: Outcome = outcome"
    assert kind_of_failure(plan, "workers.binder.binding_cycle", code, fault) == "overcommitted"


def test_a_pod_keeps_its_room_though_another_post_for_it_was_refused() -> None:
    """The first was not answered, and is carried out later."""
    refused = {**BINDING_POSTS, "do": "refuse", "code": 422}
    plan = story(
        node("n0"),
        Action(2.0, "late_bindings", {"late_s": [5.0]}),
        Action(2.0, "api_fault", {**refused, "skip": 1, "times": 1}),
        pod(2.1, "p0"),
        pod(2.5, "p1"),
        Action(12.0, "put_node", node("n1").what),
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 2
    code, fault = "TIMEOUT if self._is_open else reason", "TIMEOUT if False else reason"
    assert kind_of_failure(plan, "workers.binder.bind_call", code, fault) == "overcommitted"


def test_what_an_owner_had_ordered_is_over_before_the_next_one_lists() -> None:
    """The API server carries a binding out late, and a more important pod wants the same room."""
    plan = story(
        node("n0"),
        Action(2.0, "api_fault", {**BINDING_POSTS, "do": "delay", "delay_s": 25.0}),
        pod(2.1, "p0"),
        Action(2.5, "kill", {"process": "owner", "sends": 0}),
        pod(3.2, "p1", 10),
        Action(35.0, "put_node", node("n1").what),
    )
    assert play(plan).failure is None
    code, fault = "is_calm or now_s >=", "is_calm or now_s + 21.0 >="
    assert kind_of_failure(plan, "daemon.core.adapter_links", code, fault) == "overcommitted"


def test_a_node_is_replaced_while_pods_are_on_their_way_to_it() -> None:
    """Its row is another's by then, and what was meant for the one is not for the other."""
    actions = [node("n0", "4"), node("n1", "4")]
    for number in range(6):
        at_s = 2.0 + number * 0.5
        other = node(f"n{number + 2}", "4").what
        actions.append(pod(at_s, f"p{number}"))
        replaced = {"old": f"n{number}", "new": other}
        actions.append(Action(at_s + 0.0005, "replace_node", replaced))
    # Whether one of them is in time depends on how fast everybody is.
    plans = [story(*actions)._replace(seed=seed) for seed in range(10)]
    assert all(play(plan).failure is None for plan in plans)
    looks = "        if nodes.incarnation.item(row) > generation:\n"
    with planted("daemon.core.committer", looks, "        if False:\n"):
        found = [play(plan).failure for plan in plans]
    assert "other node" in [failure.kind for failure in found if failure is not None]


def test_the_owner_dies_while_it_drains_for_a_reload() -> None:
    """The question that it had not answered is not for its successor, which would drain for ever."""
    fault = {"at": "request", "do": "delay", "delay_s": 3.0, "method": "POST", "path": "*/binding"}
    plan = story(
        node("n0", "4"),
        Action(2.0, "api_fault", fault),
        pod(2.1, "p0"),
        Action(2.2, "reload", {"berth": 0, "configuration": 0}),
        Action(4.0, "kill", {"process": "owner", "sends": 0}),
        pod(5.0, "p1"),
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 2
    with planted(
        "daemon.supervisor.supervise",
        "        while child.process is process and not self._is_killing:\n",
        "        while True:\n",
    ):
        failure = play(plan).failure
    assert failure is not None
    assert failure.kind == "no rest"


def test_an_object_becomes_unreadable_and_goes() -> None:
    """What is left out stays as it was; but what is gone is gone."""
    good = {
        "containers": [],
        "nodeSelector": {"nowhere": "x"},
        "schedulerName": "default-scheduler",
    }
    bodies = [
        {
            "metadata": {"name": "poison-0", "namespace": "default", **more},
            "spec": good,
            "status": {},
        }
        for more in ({}, {"labels": 7})
    ]
    plan = story(
        node("n0"),
        *(
            Action(at_s, "put_raw", {"plural": "pods", "body": body})
            for at_s, body in zip((0.0, 3.0), bodies, strict=True)
        ),
    )
    assert play(plan).failure is None
    found = "            if is_gone and meta.name and meta.uid:\n"
    assert kind_of_failure(plan, "shared.kube.decode", found, "            if False:\n") == "kept"


def test_who_matters_least_has_to_go() -> None:
    """Room can be made on either node; on one of them at a lower price."""
    plan = story(
        node("n0"), node("n1"), pod(2.0, "dear", 10), pod(2.5, "cheap"), pod(3.0, "more", 100)
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 3
    best = "        left = left[values == values.min()]"
    kind = kind_of_failure(plan, "workers.scorer.evaluator", best, best.replace("min", "max"))
    assert kind == "eviction"


def test_whom_an_affinity_waited_for_comes_in_the_same_batch() -> None:
    """For the first that waits nothing helps; for the next, which is like it, there is a pod to go."""
    near = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    there = node("n0", "2")
    there.what["labels"] = {"kubernetes.io/hostname": "n0"}
    first, awaited, second = (pod(3.0, name, 1000) for name in ("p1", "p2", "p3"))
    for waiting in (first, second):
        waiting.what["spec"]["affinity"] = affinity
    awaited.what["labels"] = {"app": "x"}
    stopped = Action(2.99, "stop", {"process": "owner", "for_s": 0.05})
    plan = story(there, pod(2.0, "p0"), stopped, first, awaited, second)
    assert play(plan).failure is None
    since = "known.placed_count < self._replica.view.tentative.row_count"
    assert kind_of_failure(plan, "workers.scorer.cycle", since, "False") == "no room made"


def test_the_supervisor_goes_on_after_it_has_ended_a_process_that_was_silent() -> None:
    stopped = Action(3.0, "stop", {"process": "binder-0", "for_s": 25.0})
    plan = story(node("n0"), stopped, pod(30.0, "p0"))
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 1


def test_what_fails_in_a_judgement_is_told_though_who_is_judged_forgives_exceptions() -> None:
    plan = story(node("n0"), pod(2.0, "p0"), pod(3.0, "p1"))
    assert play(plan).failure is None
    found = "    wrong, is_final = [], False\n"
    kind = kind_of_failure(plan, "bench.sim.oracle", found, "    wrong, is_final = [], 1 / 0\n")
    assert kind == "judge"


def test_a_pod_that_workers_die_of_is_parked_and_not_before_the_second() -> None:
    """It would fit; nobody else waits for it."""
    deadly = pod(2.0, "p0")
    deadly.what["labels"] = {DEADLY: SCORER}
    plan = story(node("n0", "2"), deadly, pod(2.1, "p1"))
    plan = plan._replace(configurations=configurations(("deadly",)))
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 1
    rule = "queued.gated_by == PARKED"
    assert kind_of_failure(plan, "bench.sim.at_rest", rule, "False") == "waits though it fits"
    second = "            if losses >= losses_max:\n"
    early = "            if losses >= 1:\n"
    assert kind_of_failure(plan, "daemon.core.suspects", second, early) == "parked"


def asks_extenders(action: Action) -> Action:
    """A pod that the first extender has a say in: it is for all nodes but those of its rule."""
    (container,) = action.what["spec"]["containers"]
    container["resources"]["requests"] |= {LICENCE: "2"}
    container["resources"]["limits"] = {LICENCE: "2"}
    return action


def with_extenders(*actions: Action) -> Plan:
    assert not is_refused(asks_extenders(pod(0.0, "p")).what["spec"], "n0")
    return story(*actions)._replace(configurations=configurations(("extenders",)))


def test_only_they_go_for_a_pod_of_extenders_who_have_to() -> None:
    plan = with_extenders(
        node("n0", "2"), pod(2.0, "cheap", 1), pod(2.5, "dear", 2), asks_extenders(pod(4.0, "p", 9))
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 3
    puts_back = "for rank in range(int(counts[fits].max(initial=0))):"
    module = "shared.plugins.preemption.victim_selector"
    assert kind_of_failure(plan, module, puts_back, "for rank in range(0):") == "eviction"
    best = "        left = left[values == values.min()]"
    two = plan._replace(actions=(*plan.actions, node("n3"), pod(2.2, "third", 0)))
    assert play(two).failure is None
    worst = best.replace("min", "max")
    assert kind_of_failure(two, "workers.scorer.evaluator", best, worst) == "eviction"


def test_a_pod_that_asks_for_what_no_node_has_is_not_told_of_nodes() -> None:
    """It fits, as its extender sees to that; but the hint of NodeResourcesFit does not know."""
    small, waiting = node("n0", "500m"), asks_extenders(pod(2.0, "p"))
    late = node("n3")._replace(at_s=5.0)
    assert not is_refused(waiting.what["spec"], "n3")
    plan = with_extenders(small, waiting, late)
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 0
    assert play(with_extenders(small, pod(2.0, "p"), late)).bound_count == 1
    rule = "    if is_asked_about(pod.spec) and "
    kind = kind_of_failure(plan, "bench.sim.at_rest", rule, "    if False and ")
    assert kind == "waits though it fits"


def on_a_disk(action: Action, **disk: dict[str, str]) -> Action:
    """A pod with one volume."""
    action.what["spec"]["volumes"] = [{"name": "disk", **disk}]
    return action


def test_a_disk_that_is_made_counts_as_the_claim_did_for_which_it_is() -> None:
    """Nobody is told of a claim that gets its volume, so whom a limit refuses may not fit by that."""
    plugin, mode = "kubernetes.io/azure-disk", "WaitForFirstConsumer"
    wanted = {
        "storageClassName": "disks",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    limit = {"name": "disk.csi.azure.com", "nodeID": "n0", "allocatable": {"count": 1}}
    there = node("n0", "2")
    there.what["labels"] = {"kubernetes.io/hostname": "n0"}
    plan = story(
        there,
        create(f"{STORAGE}/storageclasses", "disks", provisioner=plugin, volumeBindingMode=mode),
        create(f"{STORAGE}/csinodes", "n0", spec={"drivers": [limit]}),
        create(DISKS, "fresh", spec=wanted),
        Action(0.0, "start_controllers", {"period_s": 0.5}),
        on_a_disk(pod(2.0, "p0"), persistentVolumeClaim={"claimName": "fresh"}),
        on_a_disk(pod(2.1, "p1"), azureDisk={"diskURI": "other", "diskName": "other"}),
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 1
    kept = "        if served.plugin == provisioner:\n"
    kind = kind_of_failure(plan, "bench.sim.controllers", kept, "        if False:\n")
    assert kind == "waits though it fits"


NOMINATES = "facts.queue.nominator.nominate(uid, node_name, priority)"
GANG_GATES = "GenericWorkload=true,GangScheduling=true"
AWARE_GATES = f"{GANG_GATES},WorkloadAwarePreemption=true"


def whole_node_gang(at_s: float, priority: int = 0) -> list[Action]:
    """Two pods that need a node of two, and their PodGroup, which matters so much."""
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": priority}
    group = {"metadata": {"name": "g"}, "spec": spec}
    members = [pod(at_s, name) for name in ("g0", "g1")]
    for each in members:
        each.what["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return [Action(at_s, "create", {"path": GROUPS, "body": group}), *members]


def starving(reservation_s: float) -> Plan:
    """Small pods end one by one, and another is there before a gang that needs the whole node."""
    smalls = [pod(max(0.0, 3.0 * number - 4.0), f"p{number}") for number in range(16)]
    ends = [
        Action(3.0 * number + 3.0, "delete_pod", {"namespace": "default", "name": f"p{number}"})
        for number in range(14)
    ]
    made = (node("n0", "2"), *whole_node_gang(1.0), *smalls, *ends)
    return story(*sorted(made, key=lambda action: action.at_s))._replace(
        feature_gates=GANG_GATES, gang_reservation_s=reservation_s
    )


def is_gang_bound(plan: Plan) -> bool:
    outcome = play(plan, is_told=True)
    assert outcome.failure is None
    return any("POST default/pods/g0/binding" in line for line in outcome.story)


def test_a_gang_of_which_somebody_refuses_one_is_tried_for_good() -> None:
    """Each time after its back-off, as it waits for nothing that anybody could tell it of; what is
    assumed of it meanwhile comes to nothing, and nothing else moves."""
    gang = whole_node_gang(3.0)
    gang[2].what["labels"] = {REFUSED_AT: RESERVE, REFUSED_AS: "no"}
    plan = story(node("n0", "2"), *gang)._replace(
        feature_gates=GANG_GATES, configurations=configurations({"refused"})
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 0
    alike = "{GROUP, REFUSED_AT}"
    assert kind_of_failure(plan, "bench.sim.gang_rules", alike, "{GROUP}") == "gang left behind"


def test_a_gang_of_which_one_has_finished_is_short_of_one() -> None:
    refused = {"at": "request", "do": "refuse", "code": 409, "times": 9}
    plan = story(
        node("n0", "2"),
        Action(2.0, "api_fault", {**refused, "method": "POST", "path": "*/g1/binding"}),
        *whole_node_gang(3.0),
        Action(3.5, "finish_pod", {"namespace": "default", "name": "g0"}),
    )._replace(feature_gates=GANG_GATES)
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 1
    over = "for pod in pods if not is_over(pod)"
    kind = kind_of_failure(plan, "bench.sim.gang_rules", over, "for pod in pods")
    assert kind == "gang left behind"


def test_a_gang_is_kept_away_by_small_pods_unless_room_is_held_for_it() -> None:
    assert not is_gang_bound(starving(0.0))
    assert is_gang_bound(starving(13.0))
    with planted("daemon.core.group_reservations", NOMINATES, "pass"):
        assert not is_gang_bound(starving(13.0))


def evictions_for_a_gang(reservation_s: float) -> int:
    """A node is full of pods that matter less than a gang, and ten more of these wait."""
    smalls = [pod(0.0, f"p{number}") for number in range(12)]
    plan = story(node("n0", "2"), *smalls, *whole_node_gang(3.0, priority=1000))._replace(
        feature_gates=AWARE_GATES, gang_reservation_s=reservation_s
    )
    outcome = play(plan, is_told=True)
    assert outcome.failure is None
    return sum("sends DELETE default/pods/p" in line for line in outcome.story)


def test_others_go_for_a_gang_again_and_again_unless_what_they_leave_is_held_for_it() -> None:
    assert evictions_for_a_gang(0.0) > 2
    assert evictions_for_a_gang(20.0) == 2
    with planted("daemon.core.group_reservations", NOMINATES, "pass"):
        assert evictions_for_a_gang(20.0) > 2


def test_who_goes_for_a_gang_is_least_important_and_whom_no_budget_keeps() -> None:
    pods = [pod(1.0, f"p{number}", 10 * number) for number in range(4)]
    pods[0].what["labels"] = {"app": "a"}
    kept = Action(0.0, "create_budget", {"name": "b", "app": "a", "allowed": 0})
    plan = story(kept, node("n0", "4"), *pods, *whole_node_gang(3.0, priority=1000))
    plan = plan._replace(feature_gates=AWARE_GATES)
    outcome = play(plan, is_told=True)
    assert outcome.failure is None
    gone = {line.split()[-1] for line in outcome.story if "sends DELETE" in line}
    assert gone == {"default/pods/p1", "default/pods/p2"}
    assert outcome.bound_count == 6
    module = "workers.scorer.group_preemption"
    budgets = ", ~self._is_violating[left]"
    assert kind_of_failure(plan, module, budgets, "") == "group eviction"
    puts_back = "            if isinstance(found, Placements):\n"
    assert kind_of_failure(plan, module, puts_back, "            if False:\n") == "group eviction"


def test_a_group_that_goes_as_a_whole_does_so_for_a_gang() -> None:
    """Also where the room of one of its pods would do."""
    spec = {"schedulingPolicy": {"basic": {}}, "disruptionMode": "PodGroup"}
    whole = [pod(1.0, name) for name in ("w0", "w1")]
    for each in whole:
        each.what["spec"]["schedulingGroup"] = {"podGroupName": "w"}
    plan = story(
        node("n0", "3"),
        create(GROUPS, "w", 0.5, spec=spec),
        *whole,
        *whole_node_gang(3.0, priority=1000),
    )._replace(feature_gates=AWARE_GATES)
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 4
    alone = "np.isin(group_id, np.array(list(whole), np.int64))"
    module = "workers.scorer.group_preemption"
    kind = kind_of_failure(plan, module, alone, "np.zeros(len(used), np.bool_)")
    assert kind == "group eviction"


def test_who_had_to_leave_room_alone_that_is_held_for_a_group_is_not_told_who_has_it() -> None:
    """It matters less than the group, and more than each pod of it: otherwise each would have the other
    go for ever."""
    late = {"at": "request", "do": "delay", "delay_s": 3.0, "method": "DELETE", "path": "*/pods/*"}
    plan = story(
        node("n0", "2"),
        *(pod(0.0, name) for name in ("p0", "p1")),
        Action(2.5, "api_fault", late),
        *whole_node_gang(3.0, priority=1000),
        pod(4.0, "less", 500),
        pod(8.0, "last", -1),  # Until then the deletions are under way.
    )._replace(feature_gates=AWARE_GATES, gang_reservation_s=20.0)
    assert is_gang_bound(plan)
    assert play(plan).bound_count == 4
    rule = "self._mattered_more(victim, pod, queued)"
    assert kind_of_failure(plan, "bench.sim.at_rest", rule, "False") == "no room made"


def test_who_has_others_go_for_a_gang_counts_those_of_it_that_have_a_place() -> None:
    """By spread it fits where the low one is only beside the first one on the other node."""
    pods = pod(0.0, "kept", 1000), pod(0.0, "low"), pod(3.0, "g0", 200), pod(3.0, "g1", 100)
    kept, low, first, second = (each.what for each in pods)
    kept["spec"]["nodeSelector"] = {HOST: "n0"}
    kept["labels"] = first["labels"] = second["labels"] = {"app": "a"}
    low["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    second["spec"]["containers"] = low["spec"]["containers"]
    second["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
    first["spec"]["schedulingGroup"] = second["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    nodes = node("n0", "3"), node("n1")
    for each in nodes:
        each.what["labels"] = {HOST: each.what["name"]}
    plan = story(*nodes, *pods[:2], create(GROUPS, "g", 2.0, spec=spec), *pods[2:])
    plan = plan._replace(feature_gates=GANG_GATES)
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 4
    for module in ("bench.sim.owner_opinion", "bench.sim.judged_orders"):
        kind = kind_of_failure(plan, module, "cache).beside(mates)", "cache)")
        assert kind == "eviction in vain"


def test_two_of_a_gang_may_share_a_claim_that_nobody_has_yet() -> None:
    claim = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    cards = {"driver": "gpu", "nodeName": "n0", "pool": pool, "devices": [{"name": "d"}]}
    gang = whole_node_gang(3.0)
    for each in gang[1:]:
        each.what["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    plan = story(
        node("n0", "2"),
        create(f"{DEVICES}/deviceclasses", "gpu", spec={}),
        create(SLICES, "n0", spec=cards),
        create(CLAIMS, "c", spec={"devices": claim}),
        *gang,
    )._replace(feature_gates=GANG_GATES)
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 2
    kind = kind_of_failure(plan, "bench.sim.states", "| shared} if shared else told", "}")
    assert kind == "placement"


def test_room_that_the_api_server_refuses_to_make_is_made_at_the_next_attempt() -> None:
    refused = {"at": "request", "do": "refuse", "code": 409, "method": "DELETE", "path": "*/pods/*"}
    plan = story(
        node("n0"), pod(2.0, "low"), Action(2.5, "api_fault", refused), pod(3.0, "high", 9)
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 2
    looks = "return str(error) if await self._is_there(path, uid) else "
    assert kind_of_failure(plan, "workers.binder.evictions", looks, "return ") == "no room made"


def test_who_says_that_it_is_nominated_is_believed_also_where_others_go_for_another() -> None:
    """The victims are ordered to go again, as nobody knows what became of the first order."""
    path = "/api/v1/namespaces/default/pods/equal/status"
    says = {"path": path, "body": {"status": {"nominatedNodeName": "n0"}}}
    plan = story(
        node("n0"),
        pod(2.0, "low"),
        Action(3.0, "stop", {"process": "binder-0", "for_s": 25.0}),
        pod(3.5, "high", 9),
        pod(4.0, "equal", 9),
        Action(4.5, "change", says),
        pod(30.0, "last", -1),  # Until then the binder is not woken.
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 2
    told = "version != _version(cache)"
    assert kind_of_failure(plan, "bench.sim.judged_orders", told, "False") == "eviction in vain"


def test_what_helps_a_preemptor_while_its_victims_are_asked_to_go_is_not_lost() -> None:
    """Whose port it needs is gone before the other is asked; of that one's going NodePorts, which alone
    rejected it, says that it does not help."""
    with_port, near, preemptor = pod(2.0, "with-port", 2), pod(2.0, "near", 1), pod(5.0, "high", 9)
    for each in (with_port, preemptor):
        each.what["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    near.what["labels"] = {"app": "x"}
    near.what["spec"]["terminationGracePeriodSeconds"] = 1
    apart = {
        "labelSelector": {"matchLabels": {"app": "x"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    preemptor.what["spec"]["affinity"] = {"podAntiAffinity": required}
    there = node("n0", cpu="9")
    there.what["labels"] = {"kubernetes.io/hostname": "n0"}
    slow = {"method": "PATCH", "path": "*/near/status", "times": 1}
    later = Action(4.0, "api_fault", {**slow, "at": "answer", "do": "delay", "delay_s": 0.3})
    plan = story(there, with_port, near, later, preemptor)
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 3
    lets_in = "owner.queue.let_in((uid,), DEFAULT_PREEMPTION, ASSIGNED_POD_DELETE.label, now_s)"
    kind = kind_of_failure(plan, "daemon.core.binder_links", lets_in, "pass")
    assert kind == "waits though it fits"


def test_who_is_kept_away_from_a_zone_is_not_told_that_a_node_leaves_it() -> None:
    """The hint of InterPodAffinity looks at the pod's own terms, and another's kept it away."""
    nodes = [node("n0"), node("n1", unschedulable=True)]
    for each in nodes:
        each.what["labels"] = {"zone": "z"}
    apart = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    there, kept_away = pod(2.0, "there"), pod(3.0, "kept-away")
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    there.what["spec"]["affinity"] = {"podAntiAffinity": required}
    there.what["labels"] = kept_away.what["labels"] = {"app": "x"}
    leaves = {"path": "/api/v1/nodes/n1", "body": {"metadata": {"labels": {"zone": None}}}}
    plan = story(
        *nodes,
        there,
        Action(2.0, "foreign_bind", {"namespace": "default", "name": "there", "node": "n1"}),
        kept_away,
        Action(5.0, "change", leaves),
    )
    outcome = play(plan)
    assert outcome.failure is None
    told = "each.node in world.relabelled_nodes"
    kind = kind_of_failure(plan, "bench.sim.at_rest", told, "False")
    assert kind == "waits though it fits"


def test_who_was_kept_away_by_a_pod_that_permit_refuses_at_once_is_tried_again() -> None:
    """Both are with a worker together, which saw the first on the node when it looked at the second;
    of what was assumed for a moment nobody else is told."""
    refused = pod(3.0, "p0", 9)
    refused.what["labels"] = {REFUSED_AT: PERMIT, REFUSED_AS: "no"}
    plan = story(
        node("n0"),
        Action(2.5, "stop", {"process": "scorer-0", "for_s": 1.0}),
        refused,
        pod(3.0, "p1"),
    )
    plan = plan._replace(configurations=configurations({"refused"}))
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 1
    looks = "if not self._bind(pod, node_name, answer.now_s):"
    kind = kind_of_failure(plan, "daemon.core.committer", looks, f"{looks[:-1]} and False:")
    assert kind == "waits though it fits"


def test_who_is_kept_away_by_pods_that_permit_refuses_each_time_has_its_turn() -> None:
    """Once it is refused more often than is believed, it would have its back-off whenever one of them
    has, and come after that one each time."""
    refused = [pod(3.0, f"p{i}", 9) for i in range(REFUSALS_IN_A_ROW_MAX + 2)]
    for each in refused:
        each.what["labels"] = {REFUSED_AT: PERMIT, REFUSED_AS: "error"}
    plan = story(
        node("n0"),
        Action(2.5, "stop", {"process": "scorer-0", "for_s": 1.0}),
        *refused,
        pod(3.0, "q"),
    )
    plan = plan._replace(configurations=configurations({"refused"}))
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 1
    counts = "is_refused=has_room"
    kind = kind_of_failure(plan, "daemon.core.committer", counts, "is_refused=True")
    assert kind == "no rest"


def test_a_pod_that_is_resized_in_place_makes_room_or_takes_it() -> None:
    """Of its own node, whatever there is on that."""
    named = {"namespace": "default", "name": "p"}
    plan = story(
        node("n0", "1500m"),
        pod(2.0, "p"),
        pod(3.0, "q"),
        Action(5.0, "resize_pod", {**named, "cpu": "100m"}),
        Action(9.0, "resize_pod", {**named, "cpu": "2"}),
    )
    outcome = play(plan)
    assert outcome.failure is None
    assert outcome.bound_count == 2
    looks = "if not self._world.may_be_spoilt(node):"
    kind = kind_of_failure(plan, "bench.sim.at_rest", looks, "if node not in ():")
    assert kind == "overcommitted"
