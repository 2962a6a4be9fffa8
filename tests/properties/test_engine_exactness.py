"""What the engine keeps from one pod to the next equals what it would compute afresh.

Any sequence of what can happen to a cluster: pods placed, bound, marked for deletion and gone, nodes
that come, change and go, with pods still on them. After each step, classes that were evaluated
before are compared with a new engine on the same view, and with the filters asked about one node at a
time; so is what the owner's checker remembers. Pods are nominated to nodes, some shapes matter more
than others and look for room, some take a volume or a device. The second machine does the same to a
worker's copy, with its tentative placements and nominations.
"""

import copy
import random
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bench.conformance.generate import drawn_families
from bench.conformance.generated import FROM_SIZE
from bench.conformance.made_names import APPS, CLAIMS, DRIVER, PROFILES
from bench.conformance.made_objects import ObjectMaker
from bench.conformance.made_storage import StorageMaker
from bench.conformance.one_by_one import FastWays, SlowAttempt, disagreements
from bench.conformance.scenario import ClusterObjects, other_objects, read
from bench.conformance.shapes import object_kind
from daemon.core.cache import Cache
from daemon.core.checker import Checker
from daemon.core.snapshot_log import SnapshotLog
from shared.columns.nomination_columns import Nomination
from shared.columns.schema import NO_NODE, Rows
from shared.engine import row_states
from shared.engine.best_rows import Ties
from shared.feature_gates import DEFAULT_GATES
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.prepared_pod import prepared
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.api.core_v1 import Namespace, Node, Service
from shared.kube.api.policy_v1 import PodDisruptionBudget
from shared.kube.pod_record import PodRecord, decode_template
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_pod
from tests.support.devices import allocated, make_claim
from workers.scorer.engine import Engine, by_seed
from workers.scorer.replica import Replica

PROFILE = "default-scheduler"
# The checker is told a class alone, whose pods may name either.
FRAMEWORKS = dict.fromkeys(
    PROFILES, InTreeRegistry(entry_points=()).build(ProfileConfig()).framework
)
NODE_NAMES = tuple(f"n{i}" for i in range(7))
SHAPE_COUNT = 26


def made_shape(number: int) -> dict[str, Any]:
    """As the made up clusters have them."""
    rng = random.Random(f"shape {number}")
    return ObjectMaker(rng, drawn_families(rng)).shape()


def asking_for(shape: dict[str, Any], cpu: str) -> dict[str, Any]:
    """The same shape with another request."""
    if "containers" not in shape.get("spec", {}):
        return {**shape, "cpu": cpu}
    first, *others = shape["spec"]["containers"]
    requests = {**first["resources"]["requests"], "cpu": cpu}
    first = {**first, "resources": {**first["resources"], "requests": requests}}
    return {**shape, "spec": {**shape["spec"], "containers": [first, *others]}}


SHAPES = [made_shape(number) for number in range(SHAPE_COUNT)]
SHAPE_NUMBERS = st.integers(0, len(SHAPES) - 1)


def service(app: str) -> Service:
    body = {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": app}},
    }
    return msgspec.convert(body, Service)


def made_node(name: str, seed: int) -> Node:
    rng = random.Random(f"node {seed}")
    return msgspec.convert(ObjectMaker(rng, drawn_families(rng)).node(name), Node)


def put_made_objects(cache: Cache, seed: int) -> None:
    """The volumes, claims and devices that shapes ask for."""
    maker = StorageMaker(random.Random(f"objects {seed}"), list(NODE_NAMES))
    objects = read(maker.volumes() | maker.devices(), ClusterObjects)
    for field, key, item in other_objects(objects):
        cache.objects.put(object_kind(field), key, item)


NODES = st.builds(made_node, st.sampled_from(NODE_NAMES), st.integers(0, 999))
OBJECTS = st.integers(0, 99)
CLUSTERS = st.lists(NODES, min_size=3, max_size=7, unique_by=lambda n: n.metadata.name)
TRACKED = st.lists(SHAPE_NUMBERS, unique=True, min_size=2, max_size=4)
"""Shapes that are compared after every step, so that what is kept of them is old."""


@pytest.fixture(autouse=True)
def _nodes_share_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a large cluster."""
    for module, name, size in FROM_SIZE:
        monkeypatch.setattr(module, name, size)


def engine_without_memory(view: ClusterView) -> Engine:
    """One that asks about each node by itself."""
    engine = Engine(view, FRAMEWORKS)
    engine.states.is_shared_by = lambda row_count: False
    return engine


def first_row(ties: Rows | Ties) -> int:
    return int(ties[0])


def assert_equal_to_slow(fast: FastWays, view: ClusterView, class_id: int, info: PodInfo) -> None:
    """The class as engine and owner hold it, and as it is when everything is asked anew, node by
    node; so for a pod of it that is nominated."""
    kept = fast.engine.evaluate(class_id, info, PROFILE)
    assert not kept.feasible[~view.nodes.present].any()
    nominated = view.nominations.all()[:2]
    for uid in ["", *(own.uid for own in nominated if own.class_id == class_id)]:
        slow = SlowAttempt(prepared(FRAMEWORKS[PROFILE], info, view, uid), first_row)
        assert disagreements(slow, fast, class_id, PROFILE, seeks_room=False) == []


def assert_room_is_sought_alike(
    fast: FastWays, view: ClusterView, class_id: int, info: PodInfo, offset: int
) -> Nomination | None:
    """What preemption comes to for a pod that fits nowhere, with all that is kept of its class and
    node by node; where room can be made."""
    pod = prepared(FRAMEWORKS[PROFILE], info, view)
    slow = SlowAttempt(pod, lambda rows: int(rows[-1]), offset)
    assert disagreements(slow, fast, class_id, PROFILE) == []
    if len(slow.feasible) or slow.error:
        return None
    preemption = slow.post_filtered.preemption
    if preemption is None or preemption.best is None:
        return None
    return Nomination("", class_id, info.priority, preemption.best.row)


class EngineMachine(RuleBasedStateMachine):
    """The owner's cache."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache(DEFAULT_GATES)
        self.fast = FastWays(self.cache.view, FRAMEWORKS)
        self.engine, self.checker = self.fast.engine, self.fast.checker
        self.tracked: list[int] = []
        self.number = 0
        self.alive: list[PodRecord] = []
        self.classes = {}
        for shape in range(len(SHAPES)):
            pod_class = self.cache.classes.acquire(make_pod("keeper", **SHAPES[shape]))
            self.classes[shape] = pod_class

    @initialize(nodes=CLUSTERS, tracked=TRACKED, objects=OBJECTS)
    def start(self, nodes: list[Node], tracked: list[int], objects: int) -> None:
        self.tracked = tracked
        for node in nodes:
            self.cache.add_node(node)
        self.cache.objects.put("services", "default/s", service(APPS[0]))
        put_made_objects(self.cache, objects)

    # Pods ----------------------------------------------------------------------------------------

    def new_pod(self, shape: int, node_name: str = "") -> PodRecord:
        self.number += 1
        record = make_pod(f"p{self.number}", node_name=node_name, **SHAPES[shape])
        self.alive.append(record)
        return record

    @rule(shape=SHAPE_NUMBERS, count=st.integers(1, 4))
    def place(self, shape: int, count: int) -> None:
        pod_class = self.classes[shape]
        for _ in range(count):
            evaluation = self.engine.evaluate(pod_class.class_id, pod_class.info, PROFILE)
            choice = self.engine.choose(evaluation, lambda ties: int(ties[-1]))
            if choice is None:
                return
            rows = np.array([choice.row], np.intp)
            ok = self.checker.passing(pod_class.class_id, pod_class.info, rows)
            assert ok.all(), "the owner refuses what the engine chose on the same state"
            name = self.cache.nodes.name_of(choice.row)
            self.cache.assume_pod(self.new_pod(shape), name, pod_class)

    @rule(
        shape=SHAPE_NUMBERS,
        name=st.sampled_from((*NODE_NAMES, "ghost")),
        count=st.integers(1, 3),
    )
    def others_place(self, shape: int, name: str, count: int) -> None:
        for _ in range(count):
            self.cache.add_pod(self.new_pod(shape, name))

    @rule(pick=st.integers(0, 1 << 30), how=st.sampled_from(("goes", "is marked", "goes")))
    def pod_leaves(self, pick: int, how: str) -> None:
        if not self.alive:
            return
        record = self.alive[pick % len(self.alive)]
        cached = self.cache.get_pod(record.uid)
        assert cached is not None
        if how == "goes":
            self.alive.remove(record)
            self.cache.remove_pod(record.uid)
        else:
            marked = msgspec.structs.replace(
                record, node_name=cached.node_name, deleted="2026-01-01T00:00:00Z"
            )
            self.cache.add_pod(marked)

    @rule(pick=st.integers(0, 1 << 30), shape=SHAPE_NUMBERS)
    def pod_changes_class(self, pick: int, shape: int) -> None:
        """Its labels were edited, say."""
        if not self.alive:
            return
        index = pick % len(self.alive)
        record = self.alive[index]
        cached = self.cache.get_pod(record.uid)
        assert cached is not None
        other = make_pod(record.name, uid=record.uid, **SHAPES[shape])
        self.alive[index] = msgspec.structs.replace(other, node_name=cached.node_name)
        self.cache.add_pod(self.alive[index])

    # Nominations ---------------------------------------------------------------------------------

    @rule(shape=SHAPE_NUMBERS, name=st.sampled_from(NODE_NAMES))
    def pod_is_nominated(self, shape: int, name: str) -> None:
        row = self.cache.nodes.row_of(name)
        if row < 0 or not self.cache.nodes.present[row]:
            return
        pod_class = self.classes[shape]
        self.nominate(Nomination("", pod_class.class_id, pod_class.info.priority, row))

    @rule(shape=SHAPE_NUMBERS, offset=st.integers(0, 9), is_done=st.booleans())
    def room_is_sought(self, shape: int, offset: int, is_done: bool) -> None:
        pod_class = self.classes[shape]
        found = assert_room_is_sought_alike(
            self.fast, self.cache.view, pod_class.class_id, pod_class.info, offset
        )  # fmt: skip
        if found is not None and is_done:
            self.nominate(found)

    def nominate(self, nomination: Nomination) -> None:
        self.number += 1
        self.cache.view.nominations.put(nomination._replace(uid=f"w{self.number}"))
        self.cache.touch_row(nomination.node_row)

    @rule(pick=st.integers(0, 1 << 30))
    def nomination_ends(self, pick: int) -> None:
        shown = self.cache.view.nominations.all()
        if shown:
            ended = shown[pick % len(shown)]
            self.cache.view.nominations.remove(ended.uid)
            self.cache.touch_row(ended.node_row)

    # Nodes ---------------------------------------------------------------------------------------

    @rule(node=NODES)
    def node_comes_or_changes(self, node: Node) -> None:
        self.cache.add_node(node)

    @rule(name=st.sampled_from(NODE_NAMES))
    def node_goes(self, name: str) -> None:
        nominations = self.cache.view.nominations
        for nomination in nominations.on(self.cache.nodes.row_of(name)):
            nominations.remove(nomination.uid)
        self.cache.remove_node(name)

    @rule(is_taken=st.booleans())
    def device_changes_hands(self, is_taken: bool) -> None:
        status = allocated("d0", pool=NODE_NAMES[-1], driver=DRIVER) if is_taken else None
        claim = make_claim(CLAIMS[0], status=status)
        self.cache.objects.put("resourceclaims", f"default/{CLAIMS[0]}", claim)

    @rule(team=st.sampled_from(("x", "y")))
    def namespace_changes(self, team: str) -> None:
        body = {"metadata": {"name": "other", "labels": {"team": team}}}
        self.cache.objects.put("namespaces", "other", msgspec.convert(body, Namespace))

    @rule(app=st.sampled_from((*APPS, "nobody")))
    def service_changes(self, app: str) -> None:
        self.cache.objects.put("services", "default/s", service(app))

    @rule()
    def service_goes(self) -> None:
        self.cache.objects.remove("services", "default/s")

    @rule()
    def budget_changes(self) -> None:
        """Of no interest to any class here."""
        body = {"metadata": {"name": "b", "namespace": "default"}}
        self.cache.objects.put(
            "poddisruptionbudgets", "default/b", msgspec.convert(body, PodDisruptionBudget)
        )

    # What must hold ------------------------------------------------------------------------------

    @invariant()
    def nothing_tracked_is_remembered_wrong(self) -> None:
        self.nothing_is_remembered_wrong(self.tracked)

    def nothing_is_remembered_wrong(self, shapes: list[int]) -> None:
        view = self.cache.view
        for shape in shapes:
            pod_class = self.classes[shape]
            assert_equal_to_slow(self.fast, view, pod_class.class_id, pod_class.info)
            key = (pod_class.class_id, pod_class.info)
            fresh = Checker(view, FRAMEWORKS)
            assert self.checker.known(*key).is_wide is fresh.known(*key).is_wide

    def teardown(self) -> None:
        self.nothing_is_remembered_wrong(list(range(len(SHAPES))))


class Proposed(NamedTuple):
    """A placement or a nomination that the owner has not judged yet."""

    sequence: int
    shape: int
    """GONE: of a pod that is deleted, and was the only one of its class."""
    row: int
    is_nomination: bool = False


GONE = -1


class ReplicaMachine(RuleBasedStateMachine):
    """A worker's copy: deltas, tentative placements, and proposals that the owner refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache(DEFAULT_GATES)
        self.log = SnapshotLog(self.cache, epoch=1)
        self.replica = Replica(0, DEFAULT_GATES)
        self.tracked: list[int] = []
        self.number = 0
        self.settled = 0
        self.proposed: list[Proposed] = []
        self.alive: list[PodRecord] = []
        self.classes = [self.cache.classes.acquire(make_pod("keeper", **shape)) for shape in SHAPES]

    @initialize(nodes=CLUSTERS, tracked=TRACKED, objects=OBJECTS)
    def start(self, nodes: list[Node], tracked: list[int], objects: int) -> None:
        self.tracked = tracked
        for node in nodes:
            self.cache.add_node(node)
        put_made_objects(self.cache, objects)
        self.log.skip({})
        self.start_anew()

    @rule()
    def start_anew(self) -> None:
        """The worker asks for everything."""
        self.publish()
        self.replica.apply_full(*self.log.full({0: self.settled}, next_ticket=1))
        view = self.replica.view
        self.fast = FastWays(view, FRAMEWORKS)
        self.engine, self.lone_pods = self.fast.engine, self.fast.lone_pods

    @rule()
    def publish(self) -> None:
        snapshot = self.log.delta({0: self.settled}, next_ticket=1)
        if snapshot is not None and self.replica.is_whole:
            assert self.replica.apply_delta(snapshot.message, snapshot.buffers)
            for class_id in self.replica.newly_retired:
                self.engine.evaluations.forget(class_id)
                self.fast.checker.evaluations.forget(class_id)
            self.replica.newly_retired.clear()

    @rule(shapes=st.lists(SHAPE_NUMBERS, min_size=1, max_size=4))
    def propose(self, shapes: list[int]) -> None:
        self.replica.proposal_sequence += 1
        for shape in shapes:
            class_id = self.classes[shape].class_id
            known = self.replica.classes.get(class_id)
            if known is None:
                continue
            evaluation = self.engine.evaluate(class_id, known.info, PROFILE)
            choice = self.engine.choose(evaluation, lambda ties: int(ties[0]))
            if choice is not None:
                self.replica.place(class_id, choice.row)
                self.proposed.append(Proposed(self.replica.proposal_sequence, shape, choice.row))

    @rule(priority=st.sampled_from((0, 10)), is_settled=st.booleans())
    def propose_a_pod_that_is_deleted(self, priority: int, is_settled: bool) -> None:
        """It was the only one of its class, which the owner forgets before it judges."""
        self.number += 1
        labels = {"app": "web", "pod": f"{self.number}"}
        pod_class = self.cache.classes.acquire(
            make_pod("gone", cpu="1", labels=labels, priority=priority)
        )
        self.publish()
        known = self.replica.classes.get(pod_class.class_id)
        if known is not None:
            self.replica.proposal_sequence += 1
            evaluation = self.engine.evaluate(pod_class.class_id, known.info, PROFILE)
            choice = self.engine.choose(evaluation, lambda ties: int(ties[0]))
            if choice is not None:
                self.replica.place(pod_class.class_id, choice.row)
                self.proposed.append(Proposed(self.replica.proposal_sequence, GONE, choice.row))
        self.cache.classes.release(pod_class)
        if not is_settled:
            self.publish()

    @rule(shape=SHAPE_NUMBERS, count=st.integers(1, 9), seed=st.integers(0, 99))
    def propose_a_run(self, shape: int, count: int, seed: int) -> None:
        """Equal pods at once: where they would have gone one by one, on an engine that is new each
        time."""
        class_id = self.classes[shape].class_id
        known = self.replica.classes.get(class_id)
        if known is None:
            return
        self.replica.proposal_sequence += 1
        one_by_one = self.placed_one_by_one(class_id, count, seed)
        at_once = self.placed_at_once(class_id, count, seed)
        assert at_once == one_by_one[: len(at_once)]
        self.proposed += [Proposed(self.replica.proposal_sequence, shape, row) for row in at_once]

    def placed_one_by_one(self, class_id: int, count: int, seed: int) -> list[int]:
        twin = copy.deepcopy(self.replica)
        known = twin.classes[class_id]
        rows: list[int] = []
        for ticket in range(count):
            engine = engine_without_memory(twin.view)
            evaluation = engine.evaluate(class_id, known.info, PROFILE)
            choice = engine.choose(evaluation, partial(by_seed, seed=seed, ticket=ticket))
            if choice is None:
                break
            twin.place(class_id, choice.row)
            rows.append(choice.row)
        return rows

    def placed_at_once(self, class_id: int, count: int, seed: int) -> list[int]:
        known = self.replica.classes[class_id]
        rows: list[int] = []
        while len(rows) < count:
            placed = self.engine.place_run(
                class_id,
                known.info,
                PROFILE,
                known.usage,
                range(len(rows), count),
                lambda ties, ticket: by_seed(ties, seed, ticket),
                lambda rows: self.replica.place_many(class_id, rows),
            )
            if placed is None:
                break
            more, is_over = placed
            rows += more
            if not is_over:
                assert len(rows) == count or not self.fits_somewhere(class_id)
                break
        return rows

    def fits_somewhere(self, class_id: int) -> bool:
        known = self.replica.classes[class_id]
        fresh = engine_without_memory(self.replica.view)
        return fresh.evaluate(class_id, known.info, PROFILE).feasible_count > 0

    @rule(
        shape=SHAPE_NUMBERS,
        cpus=st.lists(st.sampled_from(("0", "1500m", "3", "9")), min_size=1, max_size=4),
        shares=st.booleans(),
        seed=st.integers(0, 99),
    )
    def propose_lone_pods(self, shape: int, cpus: list[str], shares: bool, seed: int) -> None:
        """Pods that ask for something else than others: as if their class was evaluated."""
        vars(row_states)["ROWS_MIN"] = 2 if shares else 1 << 14  # The fixture puts it back.
        self.replica.proposal_sequence += 1
        tie_break = partial(by_seed, seed=seed, ticket=0)
        for cpu in cpus:
            record = make_pod("keeper", **asking_for(SHAPES[shape], cpu))
            info = PodInfo(record.namespace, decode_template(record.template))
            fresh = engine_without_memory(self.replica.view)
            wanted = fresh.choose(fresh.evaluate(1, info, PROFILE), tie_break)
            self.number += 1
            for _ in range(2):  # The first of a family is refused.
                found = self.lone_pods.choose(-self.number, info, PROFILE, tie_break)
                assert found is None or found == wanted
            class_id = self.classes[shape].class_id
            if wanted is not None and class_id in self.replica.classes:
                self.replica.place(class_id, wanted.row)
                self.proposed.append(Proposed(self.replica.proposal_sequence, shape, wanted.row))

    # Nominations ---------------------------------------------------------------------------------

    @rule(shape=SHAPE_NUMBERS, offset=st.integers(0, 9))
    def room_is_sought(self, shape: int, offset: int) -> None:
        class_id = self.classes[shape].class_id
        known = self.replica.classes.get(class_id)
        if known is None:
            return
        found = assert_room_is_sought_alike(
            self.fast, self.replica.view, class_id, known.info, offset
        )
        if found is not None:
            self.replica.proposal_sequence += 1
            own = found._replace(uid=f"ticket {self.replica.proposal_sequence}")
            self.replica.nominate(own)
            self.proposed.append(
                Proposed(self.replica.proposal_sequence, shape, found.node_row, True)
            )

    @rule(shape=SHAPE_NUMBERS, name=st.sampled_from(NODE_NAMES))
    def pod_is_nominated(self, shape: int, name: str) -> None:
        row = self.cache.nodes.row_of(name)
        if row >= 0 and self.cache.nodes.present[row]:
            self.nominate(shape, row)

    def nominate(self, shape: int, row: int) -> None:
        """As the owner does."""
        self.number += 1
        pod_class = self.classes[shape]
        made = Nomination(f"w{self.number}", pod_class.class_id, pod_class.info.priority, row)
        self.cache.view.nominations.put(made)
        self.cache.nomination_news[made.uid] = made
        self.cache.touch_row(row)

    @rule(pick=st.integers(0, 1 << 30), is_placed=st.booleans())
    def nomination_ends(self, pick: int, is_placed: bool) -> None:
        """`is_placed`: as the worker sees it, whose proposal is refused later."""
        shown = self.cache.view.nominations.all()
        if not shown:
            return
        ended = shown[pick % len(shown)]
        if is_placed:
            self.replica.proposal_sequence += 1
            self.replica.nominate(Nomination(ended.uid, 0, 0, NO_NODE))
            self.proposed.append(Proposed(self.replica.proposal_sequence, GONE, ended.node_row))
        else:
            self.end(ended)

    def end(self, nomination: Nomination) -> None:
        self.cache.view.nominations.remove(nomination.uid)
        self.cache.nomination_news[nomination.uid] = nomination._replace(node_row=-1)
        self.cache.touch_row(nomination.node_row)

    # The owner and the cluster -------------------------------------------------------------------

    @rule(refuses=st.integers(0, 7))
    def owner_judges(self, refuses: int) -> None:
        """The oldest proposal; bit i set: its placement i is refused."""
        if not self.proposed:
            return
        oldest = self.proposed[0].sequence
        mine = [entry for entry in self.proposed if entry.sequence == oldest]
        self.proposed = [entry for entry in self.proposed if entry.sequence != oldest]
        for position, (_, shape, row, is_nomination) in enumerate(mine):
            is_refused = refuses >> position & 1 or shape == GONE
            if is_refused or not self.cache.nodes.present[row]:
                self.cache.touch_row(row)
                continue
            if is_nomination:
                self.nominate(shape, row)
                continue
            self.number += 1
            record = make_pod(f"p{self.number}", **SHAPES[shape])
            name = self.cache.nodes.name_of(row)
            self.cache.assume_pod(record, name, self.classes[shape])
            self.alive.append(record)
        self.settled = oldest

    @rule(shape=SHAPE_NUMBERS, name=st.sampled_from(NODE_NAMES))
    def others_place(self, shape: int, name: str) -> None:
        self.number += 1
        record = make_pod(f"p{self.number}", node_name=name, **SHAPES[shape])
        self.cache.add_pod(record)
        self.alive.append(record)

    @rule(pick=st.integers(0, 1 << 30))
    def pod_goes(self, pick: int) -> None:
        if self.alive:
            self.cache.remove_pod(self.alive.pop(pick % len(self.alive)).uid)

    @rule(node=NODES)
    def node_comes_or_changes(self, node: Node) -> None:
        self.cache.add_node(node)

    @rule(name=st.sampled_from(NODE_NAMES))
    def node_goes(self, name: str) -> None:
        for nomination in self.cache.view.nominations.on(self.cache.nodes.row_of(name)):
            self.end(nomination)
        self.cache.remove_node(name)

    @invariant()
    def nothing_is_remembered_wrong(self) -> None:
        if not self.replica.is_whole:
            return
        view = self.replica.view
        for chosen in self.tracked:
            class_id = self.classes[chosen].class_id
            known = self.replica.classes.get(class_id)
            if known is not None:
                assert_equal_to_slow(self.fast, view, class_id, known.info)


def test_keepers_are_classes_of_their_own() -> None:
    """The machines tell shapes apart by class; two equal shapes would test one of them twice."""
    cache = Cache(DEFAULT_GATES)
    made = {cache.classes.acquire(make_pod("keeper", **shape)).class_id for shape in SHAPES}
    assert len(made) == len(SHAPES)
    template = make_pod("keeper", **SHAPES[0]).template
    assert decode_template(template).spec.node_name == ""


EngineMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
ReplicaMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestEngineMachine = EngineMachine.TestCase
TestReplicaMachine = ReplicaMachine.TestCase
