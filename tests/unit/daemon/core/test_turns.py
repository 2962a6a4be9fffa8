"""A turn has two halves: what pods wait for leaves first, what others are told of it second."""

from daemon.core.events import Event, Publish, Tell
from shared.messages.to_binder import BindPods
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline


def test_a_binding_leaves_before_the_delta_that_tells_of_it() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [])
    pipeline.run_until_quiet()
    pipeline.add_pod(make_pod("p"))
    while not pipeline.to_owner:
        assert pipeline.step_scorer(0)
    proposal: Event = pipeline.to_owner.popleft()
    state = pipeline.state
    (order,) = state.decide([proposal], pipeline.now_s)
    assert isinstance(order, Tell)
    assert isinstance(order.message, BindPods)
    assert [each.name for each in order.message.orders] == ["p"]
    (delta,) = state.spread(pipeline.now_s)
    assert isinstance(delta, Publish)
