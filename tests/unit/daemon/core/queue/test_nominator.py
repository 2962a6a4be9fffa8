"""Nominations by pod and by node."""

from daemon.core.queue.nominator import Nominator
from shared.ids import NodeName, PodUid
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_pod

A, B = PodUid("a"), PodUid("b")
N1, N2 = NodeName("n1"), NodeName("n2")


def record(nominated: str) -> PodRecord:
    base = make_pod("a", uid="a")
    values = {field: getattr(base, field) for field in base.__struct_fields__}
    return PodRecord(**{**values, "nominated_node_name": nominated})


def test_a_pod_is_nominated_to_one_node_at_a_time() -> None:
    nominator = Nominator()
    nominator.nominate(A, N1)
    nominator.nominate(B, N1)
    assert nominator.pods_of(N1) == (A, B)
    nominator.nominate(A, N2)
    assert (nominator.pods_of(N1), nominator.pods_of(N2)) == ((B,), (A,))
    nominator.nominate(A, NodeName(""))
    nominator.clear(B)
    nominator.clear(B)
    assert len(nominator) == 0
    nominator.check_invariants()


def test_an_update_that_does_not_know_of_the_nomination_keeps_it() -> None:
    nominator = Nominator()
    nominator.nominate(A, N1)
    nominator.update(record(""), record(""))
    assert nominator.node_of(A) == N1


def test_a_nomination_that_the_server_changed_or_cleared_is_followed() -> None:
    nominator = Nominator()
    nominator.update(record(""), record("n1"))
    assert nominator.node_of(A) == N1
    nominator.update(record("n1"), record("n2"))
    assert nominator.pods_of(N2) == (A,)
    nominator.update(record("n2"), record(""))
    assert nominator.node_of(A) is None
    nominator.check_invariants()
