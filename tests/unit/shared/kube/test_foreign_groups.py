"""Pod groups of other schedulers come out of the adapter as those of Kubernetes do."""

import json
from typing import Any

import msgspec
import pytest

from daemon.adapter.kind_feed import KindFeed
from daemon.commands.option_problems import option_problems
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.foreign_groups import FOREIGN_GROUPS, kinds_with
from shared.kube.pod_group_rules import quorum
from shared.kube.resources import ALL_KINDS
from shared.messages.to_owner import AdapterMessage, ObjectChanged, PodChanged
from shared.runtime_options import RuntimeOptions

NAMED_BY = {
    "coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "train"}},
    "koordinator": {"labels": {"pod-group.scheduling.sigs.k8s.io": "train"}},
    "volcano": {"annotations": {"scheduling.k8s.io/group-name": "train", "long": "text"}},
}
GATES = "GenericWorkload=true,GangScheduling=true"


def told(whose: str, plural: str, **body: Any) -> AdapterMessage:
    """What the owner hears of an object that is added."""
    messages: list[AdapterMessage] = []
    (kind,) = (each for each in kinds_with(whose) if each.plural == plural)
    feed = KindFeed(kind, lambda message, _: messages.append(message))
    feed.list_started()
    page = {"metadata": {"resourceVersion": "9"}, "items": [body]}
    feed.page(json.dumps(page).encode())
    return messages[1]


def pod(whose: str, **meta: Any) -> PodChanged:
    named = {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1", **meta}
    message = told(whose, "pods", metadata=named, spec={"containers": []})
    assert isinstance(message, PodChanged)
    return message


@pytest.mark.parametrize("whose", FOREIGN_GROUPS)
def test_a_pod_is_in_the_group_that_its_label_or_annotation_names(whose: str) -> None:
    assert pod(whose, **NAMED_BY[whose]).pod.group == "train"
    assert pod(whose).pod.group == ""
    others = [meta for name, meta in NAMED_BY.items() if name != whose]
    assert [pod(whose, **meta).pod.group for meta in others] == ["", ""]


@pytest.mark.parametrize("whose", FOREIGN_GROUPS)
def test_a_pod_group_is_a_gang_of_its_least_members(whose: str) -> None:
    conditions = [{"type": "Scheduled", "status": 1}]  # Whatever its scheduler writes.
    message = told(
        whose,
        "podgroups",
        metadata={"name": "train", "namespace": "ns", "uid": "g", "resourceVersion": "1"},
        spec={"minMember": 3, "scheduleTimeoutSeconds": 30, "queue": "default"},
        status={"phase": "Pending", "conditions": conditions},
    )
    assert isinstance(message, ObjectChanged)
    assert message.key == "ns/train"
    assert quorum(msgspec.msgpack.decode(message.body, type=PodGroup)) == 3


def test_without_the_option_nothing_is_another() -> None:
    assert kinds_with("") is ALL_KINDS


@pytest.mark.parametrize(
    ("whose", "gates", "problem"),
    [
        (
            "volcano",
            f"{GATES},DRAWorkloadResourceClaims=true",
            "leave DRAWorkloadResourceClaims off: these groups have no claims",
        ),
        ("yunikorn", GATES, "must be one of coscheduling, koordinator, volcano"),
        ("volcano", "GenericWorkload=true", "needs --feature-gates=GenericWorkload=true,GangSch"),
    ],
)
def test_what_cannot_work_is_told(whose: str, gates: str, problem: str) -> None:
    (found,) = option_problems(RuntimeOptions(pod_groups=whose, feature_gates=gates))
    assert found.startswith(f"--pod-groups {whose}: {problem}")
    assert option_problems(RuntimeOptions(pod_groups="volcano", feature_gates=GATES)) == []


def test_room_is_held_for_gangs_where_there_are_any() -> None:
    (found,) = option_problems(RuntimeOptions(gang_reservation_s=60.0))
    assert found.startswith("--gang-reservation-s 60: needs --feature-gates=GenericWorkload=true,")
    assert not option_problems(RuntimeOptions(gang_reservation_s=60.0, feature_gates=GATES))
