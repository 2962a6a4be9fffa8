"""Objects that cannot be understood: named, counted, left out; everything else is scheduled."""

import msgspec

from shared.messages.to_owner import ObjectChanged
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline


def left_out(pipeline: Pipeline) -> list[dict[str, object]]:
    return [note.fields for note in pipeline.notes if note.event == "object_left_out"]


def test_a_pod_with_an_unreadable_quantity_is_named_and_others_are_placed() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [make_pod("bad", cpu="1e1000"), make_pod("good")])
    pipeline.run_until_quiet()
    assert list(pipeline.bound.values()) == [["n0"]]
    (fields,) = left_out(pipeline)
    assert fields["where"] == "pod default/bad: quantity '1e1000'"
    assert pipeline.state.counters["objects_rejected"] == 1
    pipeline.check()


def test_an_object_of_another_kind_is_named() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [make_pod("good")])
    pipeline.tell(
        ObjectChanged("services", "default/s", msgspec.Raw(msgspec.msgpack.encode({"spec": 3})))
    )
    pipeline.run_until_quiet()
    (fields,) = left_out(pipeline)
    assert str(fields["where"]).startswith("services default/s")
    assert list(pipeline.bound.values()) == [["n0"]]
