"""Conflicts of host ports against plain Python."""

from hypothesis import given
from hypothesis import strategies as st

from shared.plugins.node.node_filters import conflicts
from tests.support import slow_twins

PORTS = st.lists(
    st.tuples(
        st.sampled_from(("0.0.0.0", "10.0.0.1", "10.0.0.2", "::")),
        st.sampled_from(("TCP", "UDP")),
        st.sampled_from((80, 443)),
    ),
    max_size=4,
)


@given(PORTS, PORTS)
def test_ports_conflict_on_the_same_address_or_any(
    wanted: list[slow_twins.Port], used: list[slow_twins.Port]
) -> None:
    assert conflicts(wanted, frozenset(used)) == slow_twins.ports_conflict(wanted, used)


def test_two_colons_are_one_address_and_not_any() -> None:
    assert not conflicts([("::", "TCP", 80)], frozenset({("10.0.0.1", "TCP", 80)}))
    assert conflicts([("::", "TCP", 80)], frozenset({("0.0.0.0", "TCP", 80)}))
