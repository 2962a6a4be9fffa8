"""Claims that pods have by their group: reserved for it once, held for all of it, and given back when
none of it is placed.

The first part mirrors cases of framework/plugins/dynamicresources/dynamicresources_test.go in
pkg/scheduler, and test/integration/dra/workload_resource_claims.go, v1.36.2, with the owner's core and a
scorer in one process.
"""

from typing import Any

import msgspec
import pytest

from daemon.core.events import Effect, Tell
from shared.dra.device_index import CLAIMS
from shared.feature_gates import DRA_WORKLOAD_RESOURCE_CLAIMS
from shared.kube.api.core_v1 import PodResourceClaimStatus
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.pod_record import PodRecord, decode_template
from shared.messages.from_binder import BindFailed, BindFailureReason, BindReport
from shared.messages.to_binder import PreemptPods, ReleaseClaim
from shared.transport.heard import Said
from tests.support.binding_work import claim_work
from tests.support.builders import make_node, make_pod
from tests.support.devices import allocated, device, make_claim, make_slice, with_claims_made
from tests.support.pipeline import BINDER, EPOCH
from tests.unit.daemon.core.test_group_claims import CLAIM, NAMED, SharedClaim
from tests.unit.daemon.core.test_pod_groups import member

LISTED = NAMED["resourceClaims"]
TEMPLATE = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}
GROUP = {
    "apiGroup": "scheduling.k8s.io",
    "resource": "podgroups",
    "name": "pg",
    "uid": "uid-pg",
}
USERS_MAX = [{"resource": "pods", "name": f"other{i}", "uid": f"uid-other{i}"} for i in range(256)]
UNRESERVED = "ResourceClaim unreserved for PodGroup"
HELD_ELSEWHERE: dict[str, Any] = {
    **allocated("device-0", pool="gone"),
    "reservedFor": [GROUP],
}
HELD_ELSEWHERE["allocation"]["nodeSelector"] = {
    "nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
    ]
}


class GroupClaim(SharedClaim):
    """With the gate, unless it is off; keeps what is to be freed."""

    def __init__(self, *, is_on: bool = True, **more: Any) -> None:
        self.releases: list[ReleaseClaim] = []
        gates = {DRA_WORKLOAD_RESOURCE_CLAIMS: is_on}
        super().__init__(more_gates=gates, **more)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Tell) and isinstance(effect.message, PreemptPods):
            self.releases += effect.message.releases
        super()._carry_out(effect)

    @property
    def claim(self) -> ResourceClaim:
        found: ResourceClaim = self.state.cache.objects.all(CLAIMS)[CLAIM]
        return found

    @property
    def users(self) -> list[str]:
        return [user.uid for user in self.claim.status.reserved_for or ()]

    def why_gated(self) -> list[str]:
        """What PreEnqueue plugins have against the only pod."""
        (pod,) = self.state.queue
        assert pod.gated_by
        plugins = self.state.plugins.pre_enqueue[pod.pod_class.profile]
        return [each.pre_enqueue(pod.info, self.state.cache.view).message for each in plugins]

    def bindings_fail(self, *claims_left: str) -> None:
        while self.orders:
            ticket = self.orders.popleft().ticket
            failed = BindFailed(ticket, BindFailureReason.REJECTED, "no", claims_left=claims_left)
            self.to_owner.append(Said(BINDER, BindReport(EPOCH, [], [failed])))
            self.step_owner()


def in_group(name: str, group: str = "pg", spec: dict[str, Any] = NAMED, **more: Any) -> PodRecord:
    return member(name, group, uid=f"uid-{name}", spec=spec, **more)


def generated(name: str, group: str = "pg") -> PodRecord:
    return with_claims_made(in_group(name, group, spec=TEMPLATE), {"c": "claim"})


def made_for_group(name: str = "pg", kind: str = "PodGroup") -> ResourceClaim:
    claim = make_claim(owner=f"uid-{name}")
    owner = (claim.metadata.owner_references or [])[0]
    owner.kind, owner.name, owner.api_version = kind, name, "scheduling.k8s.io/v1alpha3"
    return claim


# Upstream's cases --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_on", "expected"),
    [
        pytest.param(True, ["uid-pg"], id="podgroup-with-resources"),
        pytest.param(
            False,
            ["uid-p0", "uid-p1"],
            id="podgroup-with-resources-feature-disabled-reserves-for-pod",
        ),
    ],
)
def test_a_claim_that_the_group_lists_is_reserved_for_it(is_on: bool, expected: list[str]) -> None:
    berth = GroupClaim(is_on=is_on)
    berth.add_group("pg", 2, resourceClaims=LISTED)
    berth.add(in_group("p0"), in_group("p1"))
    assert berth.bound_names() == {"p0", "p1"}
    assert berth.users == expected
    assert not berth.holders
    user = msgspec.to_builtins((berth.claim.status.reserved_for or [])[0])
    assert (user == GROUP) is is_on


@pytest.mark.parametrize("min_count", [0, 2])
def test_pods_that_come_later_use_the_reservation_of_their_group(min_count: int) -> None:
    """testWorkloadResourceClaims"""
    berth = GroupClaim()
    own = {"name": "own", "resourceClaimName": "own"}
    both = {"resourceClaims": [*LISTED, own]}
    berth.show(make_slice("worker-0", [device("device-0"), device("device-1")]))
    berth.show(make_claim("own"))
    berth.add_group("pg", min_count, resourceClaims=LISTED)
    berth.add(in_group("p0", spec=both), in_group("p1", spec=both))
    written = [(w.name, w.is_new, w.group) for o in berth.ordered for w in claim_work(o)]
    assert {name for name, _, group in written if group is not None} == {"claim"}
    assert [name for name, is_new, _ in written if is_new] == ["claim", "own"]


def test_a_claim_that_is_reserved_for_the_group_counts_for_each_of_its_pods() -> None:
    """reserved-okay-podgroup, and with as many users as there may be."""
    berth = GroupClaim()
    status = {**allocated("device-0", pool="worker-0"), "reservedFor": [*USERS_MAX[:255], GROUP]}
    berth.show(make_claim(status=status))
    berth.add_group("pg", resourceClaims=LISTED)
    berth.add_group("other")
    berth.add(in_group("p"), in_group("q", "other"))
    assert berth.bound_names() == {"p"}
    assert len(berth.users) == 256
    assert "resourceclaim in use" in berth.told("q")


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param([{"name": "another", "resourceClaimName": "claim"}], id="by another name"),
        pytest.param([{"name": "c", "resourceClaimName": "another"}], id="another claim"),
        pytest.param([{"name": "c", "resourceClaimTemplateName": "claim"}], id="a template"),
        pytest.param(None, id="none"),
    ],
)
def test_a_claim_that_the_group_does_not_list_so_is_the_pods(listed: Any) -> None:
    berth = GroupClaim()
    berth.add_group("pg", 2, resourceClaims=listed)
    berth.add(in_group("p0"), in_group("p1"))
    assert berth.users == ["uid-p0", "uid-p1"]


def test_a_claim_of_the_groups_template_is_given_to_its_pods() -> None:
    """podgroup-claim-template"""
    berth = GroupClaim()
    berth.add_group("pg", 2, **TEMPLATE)
    berth.show(made_for_group())
    berth.add(generated("p0"), generated("p1"))
    assert berth.bound_names() == {"p0", "p1"}
    assert berth.users == ["uid-pg"]


@pytest.mark.parametrize(
    ("is_on", "claim", "group", "told"),
    [
        (False, made_for_group(), "pg", "Pod is not owner"),
        (True, made_for_group(), "", "Pod is not owner"),
        (True, made_for_group("another"), "pg", "neither Pod nor PodGroup pg is the owner"),
        (True, made_for_group(kind="Workload"), "pg", "neither Pod nor PodGroup pg is the owner"),
    ],
)
def test_a_claim_of_anothers_template_is_not(
    is_on: bool, claim: ResourceClaim, group: str, told: str
) -> None:
    berth = GroupClaim(is_on=is_on)
    berth.add_group("pg", 1, **TEMPLATE)
    berth.show(claim)
    berth.add(generated("p", group))
    assert not berth.bound
    whose = "ResourceClaim default/claim was not created for Pod default/p"
    assert f"{whose} ({told})" in berth.why_gated()


@pytest.mark.parametrize(
    ("on_node", "is_on", "users", "expected"),
    [
        pytest.param([], True, [GROUP], "uid-pg", id="postfilter-unreserve-podgroup"),
        pytest.param(
            [],
            False,
            [GROUP],
            None,
            id="postfilter-skip-unreserve-podgroup-feature-disabled",
        ),
        pytest.param([], True, [], "", id="postfilter-deallocate-podgroup"),
        pytest.param(
            ["there"],
            True,
            [GROUP],
            None,
            id="postfilter-skip-unreserve-podgroup-when-pods-active",
        ),
        pytest.param([], True, [GROUP, USERS_MAX[0]], None, id="others use it"),
        pytest.param([], True, [{**GROUP, "uid": "former"}], None, id="of a former group"),
    ],
)
def test_what_a_group_that_fits_nowhere_had_been_given_is_given_back(
    on_node: list[str], is_on: bool, users: list[Any], expected: str | None
) -> None:
    berth = GroupClaim(is_on=is_on)
    berth.add_group("pg", 1, resourceClaims=LISTED)
    berth.show(make_claim(status={**HELD_ELSEWHERE, "reservedFor": users}))
    berth.add(*(in_group(name, node_name="worker-1") for name in on_node))
    berth.add(in_group("p"))
    assert not berth.bound
    said = {"uid-pg": UNRESERVED, "": "deallocation of ResourceClaim completed"}
    assert ("still not schedulable" if expected is None else said[expected]) in berth.told("p")
    assert [(each.name, each.pod_uid, each.group_uid) for each in berth.releases] == (
        [] if expected is None else [("claim", "uid-p", expected)]
    )


def test_a_claim_after_one_that_was_not_made_is_the_groups_where_it_lists_it() -> None:
    berth = GroupClaim()
    berth.add_group("pg", 1, resourceClaims=LISTED)
    unmade = {"name": "unmade", "resourceClaimTemplateName": "t"}
    pod = in_group("p", spec={"resourceClaims": [unmade, *LISTED]})
    template = decode_template(pod.template)
    assert template.own is not None
    own = msgspec.structs.replace(
        template.own, resource_claim_statuses=[PodResourceClaimStatus(name="unmade")]
    )
    made = msgspec.Raw(msgspec.msgpack.encode(msgspec.structs.replace(template, own=own)))
    berth.add(msgspec.structs.replace(pod, template=made))
    assert berth.users == ["uid-pg"]


# Berth's own -------------------------------------------------------------------------------------


def test_more_pods_than_a_claim_may_have_users_share_one_of_a_group() -> None:
    berth = GroupClaim(nodes=[make_node("worker-0", cpu="512", pods=512)])
    count = 300
    berth.add_group("pg", count, resourceClaims=LISTED)
    for number in range(count):
        berth.add_pod(in_group(f"p{number}"))
    berth.run_until_quiet(steps_max=5 * count)
    berth.check()
    assert len(berth.bound) == count
    assert berth.users == ["uid-pg"]


def test_nobody_goes_before_it_is_seen_where_else_devices_are() -> None:
    berth = GroupClaim()
    low = make_pod("low", uid="uid-low", cpu="64", memory=None)
    berth.add(
        *(
            msgspec.structs.replace(low, uid=f"uid-{i}", name=f"low{i}", node_name=f"worker-{i}")
            for i in range(3)
        )
    )
    berth.add_group("pg", 1, resourceClaims=LISTED)
    status = {**allocated("device-0", pool="worker-0"), "reservedFor": [GROUP]}
    berth.show(make_claim(status=status))
    berth.add(in_group("p", priority=10))
    assert UNRESERVED in berth.told("p")
    assert not berth.evicted
    assert len(berth.releases) == 1
    freed = make_claim()
    freed.metadata.resource_version = "2"
    berth.show(freed)
    berth.wait()
    assert berth.evicted


def test_what_a_member_was_placed_with_is_not_given_back_for_another() -> None:
    berth = GroupClaim()
    status = {**allocated("device-0", pool="worker-0"), "reservedFor": [GROUP]}
    berth.show(make_claim(status=status))
    berth.add_pod(in_group("fits"))
    berth.add_pod(in_group("large", cpu="65"))
    berth.add_group("pg", 1, resourceClaims=LISTED)
    assert berth.bound_names() == {"fits"}
    assert UNRESERVED in berth.told("large"), "as nobody of the group had a node before"
    assert not berth.releases
    assert berth.users == ["uid-pg"]


def test_a_claim_that_the_group_has_without_listing_it_is_not_reserved_for_its_pods_too() -> None:
    berth = GroupClaim()
    status = {**allocated("device-0", pool="worker-0"), "reservedFor": [GROUP]}
    berth.show(make_claim(status=status))
    berth.add_group("pg", 1)
    berth.add(in_group("p"))
    assert berth.bound_names() == {"p"}
    assert berth.users == ["uid-pg"]


def test_the_claim_of_a_group_outlives_bindings_that_fail() -> None:
    """It is written by then, and the watch is late: the device is not another's."""
    berth = GroupClaim()
    berth.add_group("pg", 2, resourceClaims=LISTED)
    berth.show(make_claim("rival"))
    for name in ("p0", "p1"):
        berth.add_pod(in_group(name))
    berth.until_ordered()
    orders = list(berth.orders)
    berth.bindings_fail(CLAIM)
    assert berth.holders == ("uid-p1",)
    rival = {"resourceClaims": [{"name": "c", "resourceClaimName": "rival"}]}
    berth.add(make_pod("rival", uid="uid-rival", cpu="1", memory=None, spec=rival))
    assert "cannot allocate all claims" in berth.told("rival")
    (work,) = claim_work(orders[0])
    told = make_claim(
        status={"allocation": msgspec.to_builtins(work.allocation), "reservedFor": [GROUP]}
    )
    told.metadata.resource_version = "2"
    berth.show(told)
    assert not berth.holders
    berth.wait()
    assert berth.bound_names() == {"p0", "p1"}
    assert berth.users == ["uid-pg"]


def test_each_pod_of_a_group_looks_at_its_claim_before_it_is_bound() -> None:
    """What an earlier attempt had may be on its way back."""
    berth = GroupClaim()
    berth.add_group("pg", 1, resourceClaims=LISTED)
    status = {**allocated("device-0", pool="worker-0"), "reservedFor": [GROUP]}
    berth.show(make_claim(status=status))
    for name in ("first", "second"):
        berth.add_pod(in_group(name))
        berth.until_ordered()
        (work,) = claim_work(berth.orders[0])
        assert (work.is_new, work.is_kept) == (False, False)
        berth.settle()


def test_devices_with_which_pods_of_the_group_run_are_kept_whatever_becomes_of_another() -> None:
    """One that they need was taken as ready before, and the driver says otherwise by now."""
    berth = GroupClaim()
    berth.add_group("pg", 1, resourceClaims=LISTED)
    given = allocated("device-0", pool="worker-0", bindingConditions=["Ready"])
    berth.show(make_claim(status={**given, "reservedFor": [GROUP]}))
    for name, is_kept in (("first", False), ("second", True)):
        berth.add_pod(in_group(name))
        berth.until_ordered()
        (work,) = claim_work(berth.orders[0])
        assert work.is_kept is is_kept
        berth.settle()
        started = in_group(name, node_name="worker-0")
        berth.add(msgspec.structs.replace(started, started="2026-01-01T00:00:00Z"))


@pytest.mark.parametrize("has_gates", [True, False], ids=["gang", "without GangScheduling"])
def test_a_pod_waits_for_its_group_which_may_have_its_claims(has_gates: bool) -> None:
    berth = GroupClaim(has_gates=has_gates, has_quorums=has_gates)
    berth.add(in_group("p"))
    (pod,) = berth.state.queue
    assert 'podgroup.scheduling.k8s.io "pg" not found' in berth.why_gated()
    berth.add_group("another", 1)
    assert pod.gated_by
    berth.add_group("pg", 1, resourceClaims=LISTED)
    assert berth.bound_names() == {"p"}
    assert berth.users == ["uid-pg"]


def test_pods_of_a_group_are_with_one_binder_also_where_its_template_made_their_claim() -> None:
    berth = GroupClaim()
    berth.add_group("pg", 3, **TEMPLATE)
    berth.show(made_for_group())
    lone = make_pod("lone", uid="uid-lone", cpu="1", memory=None)
    berth.add_pod(lone)
    berth.add_pod(generated("p"))
    shared = berth.state.shared_claim_of
    assert (shared("uid-p"), shared("uid-lone")) == ("default/pg", "")
