"""Which pending pod is nominated to which node."""

from daemon.core.queue.nominator import Nominator
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_pod

A, B = "a", "b"
N1, N2 = "n1", "n2"


def record(nominated: str) -> PodRecord:
    base = make_pod("a", uid="a")
    values = {field: getattr(base, field) for field in base.__struct_fields__}
    return PodRecord(**{**values, "nominated_node_name": nominated})


def test_a_pod_is_nominated_to_one_node_at_a_time() -> None:
    nominator = Nominator()
    nominator.nominate(A, N1)
    nominator.nominate(B, N1)
    assert (nominator.node_of(A), nominator.node_of(B)) == (N1, N1)
    nominator.nominate(A, N2)
    assert (nominator.node_of(A), nominator.node_of(B)) == (N2, N1)
    nominator.nominate(A, "")
    nominator.clear(B)
    nominator.clear(B)
    assert len(nominator.node_by_uid) == 0


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
    assert nominator.node_of(A) == N2
    nominator.update(record("n2"), record(""))
    assert nominator.node_of(A) is None
