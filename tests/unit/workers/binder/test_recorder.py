"""Conditions and events: what is written, in which order, how often, and what gives way."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from bench.manual_clock import ManualClock
from shared.kube.api_errors import (
    AlreadyExists,
    Conflict,
    ConnectFailed,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
)
from shared.messages.to_binder import DeleteVictim, StatusPatch
from shared.rate_limit import RateLimit
from tests.unit.workers.binder.fake_api import (
    Answer,
    FakeApi,
    make_nomination,
    make_order,
    make_verdict,
)
from tests.unit.workers.binder.virtual_time import LoopClock, run_virtual
from workers.binder import recorder as recorder_module
from workers.binder.recorder import PATCHES_MAX, EventRecorder, RecorderSettings

OK = b"{}"
EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"
BROKEN = ServerError(500, "InternalError", "etcd")
GONE = NotFound(404, "NotFound", "gone")
SETTINGS = RecorderSettings(
    queue_max=100, quiet_s=0.1, writes_max=1, trickle_per_s=10.0, held_s=0.0
)

Scene = Callable[[EventRecorder], Awaitable[None]]


def play(
    scene: Scene,
    *script: Answer,
    settings: RecorderSettings = SETTINGS,
    rate: RateLimit | None = None,
) -> FakeApi:
    """Runs a scene against a scripted API server."""
    api = FakeApi(*script)

    async def main() -> None:
        recorder = EventRecorder(api, settings, LoopClock(), "host", rate)
        await scene(recorder)
        recorder.close()

    run_virtual(main())
    assert not api.script, "not all of the script was asked for"
    return api


async def settle(seconds: float = 60.0) -> None:
    """Lets everything happen that will; time is virtual."""
    await asyncio.sleep(seconds)


def ends_at_once(work: Coroutine[Any, Any, None]) -> bool:
    """Without waiting for anything."""
    try:
        work.send(None)
    except StopIteration:
        return True
    return False


def written(api: FakeApi) -> list[str]:
    """Each request as "PATCH u1 reason" or "POST note"."""
    lines = []
    for (method, path), body in zip(api.requests, api.bodies, strict=True):
        if "status" in body:
            condition = body["status"]["conditions"][0]
            lines.append(f"{path.split('/')[-2]}: {condition['message']}")
        elif "series" in body and "note" not in body:
            lines.append(f"{method} series {body['series']['count']}")
        else:
            lines.append(f"{body['regarding']['name']} event: {body['note']}")
    return lines


class TestConditions:
    def test_a_verdict_writes_condition_then_event(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_verdict(message="no"))
            await settle()

        api = play(scene, OK, OK)
        assert api.requests == [
            ("PATCH", "/api/v1/namespaces/ns/pods/pod-u1/status"),
            ("POST", EVENTS),
        ]
        assert api.bodies[0]["status"]["conditions"][0]["reason"] == "Unschedulable"
        assert api.bodies[0]["metadata"] == {"uid": "u1"}
        assert api.bodies[1]["reportingInstance"] == "default-scheduler-host"
        assert api.bodies[1]["eventTime"] == "2026-11-21T01:37:16.250000Z"

    def test_a_pod_that_waits_for_its_devices_gets_an_event_and_no_condition(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.pod_waits_for_devices(make_order())
            await settle()

        api = play(scene, OK)
        assert api.requests == [("POST", EVENTS)]
        assert written(api) == [
            f"pod-u1 event: waiting for binding conditions for device on node {make_order().node_name}"
        ]
        (event,) = api.bodies
        assert (event["type"], event["reason"], event["action"]) == (
            "Normal",
            "BindingConditionsPending",
            "Scheduling",
        )

    def test_the_same_condition_is_not_written_again_and_another_is(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for message in ("a", "a", "b", "a"):
                recorder.patch_status(make_verdict(message=message, write_event=False))
                await settle()

        api = play(scene, OK, OK, OK)
        assert written(api) == ["pod-u1: a", "pod-u1: b", "pod-u1: a"]
        transitions = [
            "lastTransitionTime" in body["status"]["conditions"][0] for body in api.bodies
        ]
        assert transitions == [True, False, False]

    def test_what_the_pod_said_before_this_binder_began_is_not_written_again(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            known = make_verdict(message="a", write_event=False)
            known = msgspec.structs.replace(known, is_same_status=True, is_told=True)
            other = msgspec.structs.replace(known, message="b", is_told=False)
            # The watch is behind: what was written here counts.
            for each in (known, other, msgspec.structs.replace(other, message="a", is_told=True)):
                recorder.patch_status(each)
                await settle()

        api = play(scene, OK, OK)
        assert written(api) == ["pod-u1: b", "pod-u1: a"]
        conditions = [body["status"]["conditions"][0] for body in api.bodies]
        assert not any("lastTransitionTime" in condition for condition in conditions)

    def test_another_generation_alone_is_no_news(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            verdict = make_verdict(message="no", write_event=False)
            for generation in (1, 2):
                recorder.patch_status(
                    msgspec.structs.replace(verdict, observed_generation=generation)
                )
                await settle()

        assert len(play(scene, OK).bodies) == 1

    @pytest.mark.parametrize("is_same_status", [False, True])
    def test_patch_pod_group_status(self, is_same_status: bool) -> None:
        """Updated, retried when the connection is refused, and a no-op when unchanged
        (TestPatchPodGroupStatus in pkg/scheduler/util/utils_test.go, v1.36.2)."""
        verdict = msgspec.structs.replace(
            make_verdict(message="no", write_event=False),
            is_group=True,
            is_same_status=is_same_status,
        )
        scheduled = msgspec.structs.replace(verdict, is_scheduled=True, is_same_status=False)

        async def scene(recorder: EventRecorder) -> None:
            for each in (verdict, verdict, scheduled):
                recorder.patch_status(each)
                await settle()

        api = play(scene, ConnectFailed("refused"), OK, OK)
        path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/ns/podgroups/pod-u1/status"
        assert api.requests == [("PATCH", path)] * 3
        conditions = [body["status"]["conditions"][0] for body in api.bodies]
        assert [each["status"] for each in conditions] == ["False", "False", "True"]
        turns = ["lastTransitionTime" in each for each in conditions]
        assert turns == [not is_same_status, not is_same_status, True]

    def test_only_the_newest_of_those_that_wait_is_written(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_verdict("u0", "x", write_event=False))
            for message in ("a", "b", "c"):
                recorder.patch_status(make_verdict(message=message, write_event=False))
            await settle()

        assert written(play(scene, OK, OK)) == ["pod-u0: x", "pod-u1: c"]

    def test_news_that_come_while_one_is_written_are_written_after_it(self) -> None:
        api = FakeApi(OK, OK)

        class SlowApi(FakeApi):
            async def patch(
                self,
                path: str,
                body: bytes,
                content_type: str = "",
                *,
                timeout_s: float | None = None,
            ) -> bytes:
                await asyncio.sleep(1.0)
                return await api.patch(path, body)

        async def main() -> None:
            settings = SETTINGS._replace(writes_max=4)
            recorder = EventRecorder(SlowApi(), settings, LoopClock(), "host")
            recorder.patch_status(make_verdict(message="a", write_event=False))
            await asyncio.sleep(0.5)
            recorder.patch_status(make_verdict(message="b", write_event=False))
            await asyncio.sleep(1.0)
            assert written(api) == ["pod-u1: a"]
            await settle()
            assert written(api) == ["pod-u1: a", "pod-u1: b"]

        run_virtual(main())

    def test_a_pod_that_is_to_be_bound_loses_its_waiting_condition(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_verdict("u0", "x", write_event=False))
            recorder.patch_status(make_verdict(write_event=False))
            assert ends_at_once(recorder.pod_ordered("u1"))
            await settle()

        assert written(play(scene, OK)) == ["pod-u0: x"]

    def test_a_binding_waits_for_a_condition_that_is_being_written_and_it_is_not_retried(
        self,
    ) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_verdict(write_event=False))
            assert not ends_at_once(recorder.pod_ordered("u1"))
            await recorder.pod_ordered("u1")
            assert ends_at_once(recorder.pod_ordered("u1"))
            await settle()

        play(scene, BROKEN)

    @pytest.mark.parametrize("error", [GONE, Conflict(409, "Conflict", "uid")])
    def test_a_pod_that_is_gone_needs_no_condition(self, error: Answer) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_verdict(write_event=False))
            await settle()
            assert recorder.patches_dropped_count == 0

        play(scene, error)

    def test_what_is_known_of_pods_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recorder_module, "CONDITIONS_MAX", 2)

        async def scene(recorder: EventRecorder) -> None:
            for uid in ("u1", "u2", "u3", "u3", "u1"):
                recorder.patch_status(make_verdict(uid, "m", write_event=False))
                await settle()

        api = play(scene, *[OK] * 4)
        assert written(api) == ["pod-u1: m", "pod-u2: m", "pod-u3: m", "pod-u1: m"]


def why(message: str, node: str | None = None) -> StatusPatch:
    verdict = make_verdict(message=message, write_event=False)
    return msgspec.structs.replace(verdict, nominated_node_name=node)


def statuses(api: FakeApi) -> list[tuple[str | None, str | None]]:
    """Of each request: the message of the condition, and the node."""
    found = []
    for body in api.bodies:
        (condition,) = body["status"].get("conditions", [{}])
        found.append((condition.get("message"), body["status"].get("nominatedNodeName")))
    return found


class TestNominations:
    @pytest.mark.parametrize("node", ["n1", ""])
    def test_why_a_pod_failed_and_where_it_is_nominated_is_one_request(self, node: str) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(why("no", node))
            await settle()

        assert statuses(play(scene, OK)) == [("no", node)]

    @pytest.mark.parametrize("node", ["n1", ""])
    def test_a_nomination_alone_leaves_the_condition_as_it_is(self, node: str) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_nomination(node))
            await settle()

        (body,) = play(scene, OK).bodies
        assert body == {"metadata": {"uid": "u1"}, "status": {"nominatedNodeName": node}}

    def test_it_is_written_at_once_whatever_waits_and_the_trickle_is_not_the_less_for_it(
        self,
    ) -> None:
        api = FakeApi(*[OK] * 100)
        counts: list[int] = []

        async def main() -> None:
            recorder = EventRecorder(api, SETTINGS, LoopClock(), "host")
            recorder.set_binding(True)
            for i in range(30):
                recorder.patch_status(make_verdict(f"w{i}", write_event=False))
            await asyncio.sleep(0.01)
            for i in range(20):
                recorder.patch_status(make_nomination("n1", f"u{i}"))
            await asyncio.sleep(0.01)
            counts.append(len(api.requests))
            await asyncio.sleep(0.93)
            counts.append(len(api.requests))
            recorder.close()

        run_virtual(main())
        assert counts == [1 + 20, 10 + 20]

    def test_the_newest_is_written_last_and_none_that_is_older_by_then(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for node in ("n1", "n2", "n3"):
                recorder.patch_status(make_nomination(node))
            await settle()

        assert statuses(play(scene, OK, OK)) == [(None, "n1"), (None, "n3")]

    @pytest.mark.parametrize(
        ("newer", "then"),
        [
            ([], ("a", "n1")),
            ([why("b")], ("b", "n1")),
            ([make_nomination("")], ("a", "")),
            ([why("b"), make_nomination("n2")], ("b", "n2")),
        ],
    )
    @pytest.mark.parametrize("is_under_way", [True, False])
    def test_what_was_not_written_is_said_with_what_is_newer(
        self, newer: list[StatusPatch], then: tuple[str, str], is_under_way: bool
    ) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(why("a", "n1"))
            if not is_under_way:
                await asyncio.sleep(0.1)
            for each in newer:
                recorder.patch_status(each)
            await settle()

        assert statuses(play(scene, BROKEN, OK)) == [("a", "n1"), then]

    def test_a_condition_that_is_no_news_is_told_with_a_nomination_that_is(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(why("a"))
            await settle()
            recorder.patch_status(why("a", "n1"))
            await settle()
            recorder.patch_status(why("a"))
            await settle()

        assert statuses(play(scene, OK, OK)) == [("a", None), ("a", "n1")]

    def test_what_failed_of_it_is_not_said_of_a_pod_that_is_to_be_bound(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_nomination("n1"))
            await asyncio.sleep(0.1)
            assert recorder.waiting_count == 1
            assert ends_at_once(recorder.pod_ordered("u1"))
            await settle()

        play(scene, BROKEN)

    def test_so_many_at_a_time(self) -> None:
        class StuckApi(FakeApi):
            async def patch(self, *_: object, **__: object) -> bytes:
                self.requests.append(("PATCH", ""))
                await asyncio.Event().wait()
                raise AssertionError("it is stuck")

        api = StuckApi()

        async def scene() -> None:
            recorder = EventRecorder(api, SETTINGS, LoopClock(), "host")
            for i in range(2 * PATCHES_MAX):
                recorder.patch_status(make_nomination("n1", f"u{i}"))
            await asyncio.sleep(1)
            recorder.close()

        run_virtual(scene())
        assert len(api.requests) == PATCHES_MAX


class TestTrouble:
    def test_a_write_is_tried_again_after_growing_pauses(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_verdict(write_event=False))
            await settle()

        api = play(scene, BROKEN, ConnectFailed("refused"), OK)
        assert written(api) == ["pod-u1: 0/1 nodes are available."] * 3

    def test_what_failed_together_makes_one_pause(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for number in range(3):
                recorder.pod_bound(make_order(uid=f"u{number}"))
            await asyncio.sleep(0.6)
            assert recorder.waiting_count == 0

        play(scene, *[BROKEN] * 3, *[OK] * 3)

    def test_it_is_given_up_in_the_end_and_counted(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_verdict(write_event=False))
            recorder.pod_bound(make_order(uid="u2"))
            await settle(600)
            assert recorder.patches_dropped_count == 1
            assert recorder.events_dropped_count == 1

        play(scene, *[BROKEN] * 10)

    def test_what_is_forbidden_is_not_repeated(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_verdict())
            await settle()
            assert recorder.patches_dropped_count == 1
            assert recorder.events_dropped_count == 1

        forbidden = Forbidden(403, "Forbidden", "no role")
        play(scene, forbidden, forbidden)

    def test_everything_waits_as_long_as_the_server_wishes(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.pod_bound(make_order(uid="u1"))
            await asyncio.sleep(19)
            assert recorder.waiting_count == 1
            await settle()
            assert recorder.waiting_count == 0

        play(scene, TooManyRequests(429, "TooManyRequests", "later", 20.0), OK)

    def test_an_event_that_was_written_before_its_answer_was_lost_is_fine(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.pod_bound(make_order())
            await settle()
            assert recorder.events_dropped_count == 0

        play(scene, BROKEN, AlreadyExists(409, "AlreadyExists", "exists"))


class TestSeries:
    def test_repeats_become_a_series_of_two_and_then_are_only_counted(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for _ in range(5):
                recorder.patch_status(make_verdict(message="no"))
                await settle(1)

        api = play(scene, OK, OK, OK)
        assert written(api) == ["pod-u1: no", "pod-u1 event: no", "PATCH series 2"]
        assert api.requests[2][1] == f"{EVENTS}/{api.bodies[1]['metadata']['name']}"

    def test_what_is_told_of_others_than_refused_pods_becomes_a_series_too(self) -> None:
        victim = DeleteVictim(
            *(1, "default-scheduler", "ns", "victim", "u9", "7", "n", "ns", "preemptor", "u1")
        )

        async def scene(recorder: EventRecorder) -> None:
            for _ in range(3):
                recorder.pod_waits_for_devices(make_order())
                recorder.pod_preempted(victim)
                await settle(1)

        told = written(play(scene, OK, OK, OK, OK))
        assert sorted(told)[:2] == ["PATCH series 2"] * 2
        assert sorted(each.partition(" ")[0] for each in told[:2]) == ["pod-u1", "victim"]

    def test_the_count_is_written_when_the_series_has_been_quiet(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for _ in range(5):
                recorder.patch_status(make_verdict(message="no"))
                await settle(1)
            recorder.tick()
            await settle(360)
            recorder.tick()
            await settle(1)
            recorder.tick()
            await settle(1)
            # It is over: the next is a first one again.
            recorder.patch_status(make_verdict(message="no"))
            await settle(1)

        api = play(scene, *[OK] * 5)
        assert written(api)[2:] == ["PATCH series 2", "PATCH series 5", "pod-u1 event: no"]

    def test_a_series_that_goes_on_is_refreshed_every_half_hour(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for _ in range(32):
                recorder.patch_status(make_verdict(message="no"))
                recorder.tick()
                await settle(60)

        api = play(scene, *[OK] * 4)
        assert written(api)[2:] == ["PATCH series 2", "PATCH series 32"]

    def test_another_version_of_the_pod_is_another_event_and_another_message_is_not(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for message, version in (("a", "1"), ("b", "1"), ("c", "2"), ("c", "3")):
                verdict = make_verdict(message=message)
                recorder.patch_status(msgspec.structs.replace(verdict, resource_version=version))
                await settle(1)

        api = play(scene, *[OK] * 7)
        told = [each for each in written(api) if "event" in each or "series" in each]
        assert told == ["pod-u1 event: a", "PATCH series 2", "pod-u1 event: c", "pod-u1 event: c"]

    def test_repeats_before_the_first_was_written_are_one_event_with_a_series(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for _ in range(3):
                recorder.patch_status(make_verdict(message="no"))
            await settle(1)

        api = play(scene, OK, OK)
        assert api.bodies[1]["series"]["count"] == 3

    def test_a_series_whose_event_has_expired_is_made_again(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for _ in range(2):
                recorder.patch_status(make_verdict(message="no"))
                await settle(1)

        api = play(scene, OK, OK, GONE, OK)
        assert api.bodies[3]["note"] == "no"
        assert api.bodies[3]["series"]["count"] == 2

    def test_a_clock_that_was_set_back_ends_a_series(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.patch_status(make_verdict(message="no"))
            await settle(1)
            recorder._clock = ManualClock(recorder._clock.wall_s() - 86_400.0)
            recorder.tick()
            recorder.patch_status(make_verdict(message="no"))
            await settle(1)

        api = play(scene, *[OK] * 3)
        assert written(api) == ["pod-u1: no", "pod-u1 event: no", "pod-u1 event: no"]


class TestGivingWay:
    def test_while_bindings_are_under_way_only_a_trickle_is_written(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.set_binding(True)
            for number in range(50):
                recorder.pod_bound(make_order(uid=f"u{number}"))
            await asyncio.sleep(0.95)
            # 10 a second, the first at once.
            assert 50 - recorder.waiting_count == 10
            recorder.set_binding(False)
            await asyncio.sleep(0.2)
            assert recorder.waiting_count == 0

        play(scene, *[OK] * 50)

    def test_events_are_written_with_those_that_came_while_the_first_waited(self) -> None:
        settings = SETTINGS._replace(writes_max=4, held_s=0.5, trickle_per_s=50.0)
        counts: list[int] = []
        api = FakeApi(*[OK] * 12)

        async def main() -> None:
            recorder = EventRecorder(api, settings, LoopClock(), "host")
            recorder.set_binding(True)
            for i in range(12):
                recorder.pod_bound(make_order(uid=f"u{i}"))
                await asyncio.sleep(0.09)
                counts.append(len(api.requests))
            recorder.close()

        run_virtual(main())
        assert counts == [0, 0, 0, 0, 0, 6, 6, 6, 6, 6, 6, 12]

    def test_what_the_trickle_leaves_is_not_written_one_by_one(self) -> None:
        settings = SETTINGS._replace(held_s=0.5, trickle_per_s=50.0)
        counts: list[int] = []

        async def scene(recorder: EventRecorder) -> None:
            recorder.set_binding(True)
            for number in range(40):
                recorder.pod_bound(make_order(uid=f"u{number}"))
            for _ in range(3):
                await asyncio.sleep(0.48)
                counts.append(40 - recorder.waiting_count)

        play(scene, *[OK] * 40, settings=settings)
        assert counts == [0, 26, 40]

    def test_a_lone_event_waits_no_longer_than_that(self) -> None:
        settings = SETTINGS._replace(writes_max=4, held_s=0.5)
        counts: list[int] = []
        api = FakeApi(OK)

        async def main() -> None:
            recorder = EventRecorder(api, settings, LoopClock(), "host")
            recorder.pod_bound(make_order())
            await asyncio.sleep(0.49)
            counts.append(len(api.requests))
            await asyncio.sleep(0.02)
            counts.append(len(api.requests))
            recorder.close()

        run_virtual(main())
        assert counts == [0, 1]

    def test_a_condition_waits_for_nobody(self) -> None:
        settings = SETTINGS._replace(writes_max=4)
        api = FakeApi(OK, OK)

        async def main() -> None:
            recorder = EventRecorder(api, settings, LoopClock(), "host")
            recorder.patch_status(make_verdict(message="no"))
            await asyncio.sleep(0.001)
            assert api.requests[0][0] == "PATCH"
            recorder.close()

        run_virtual(main())

    def test_a_flood_of_unschedulable_pods_is_written_at_the_rate_and_conditions_go_first(
        self,
    ) -> None:
        api = FakeApi(*[OK] * 20_000)
        settings = RecorderSettings(queue_max=20_000)
        seen: list[int] = []

        async def scene() -> None:
            rate = RateLimit(250.0, 500)
            recorder = EventRecorder(api, settings, LoopClock(), "host", rate)
            for number in range(10_000):
                recorder.patch_status(make_verdict(uid=f"u{number}"))
            for _ in range(3):
                seen.append(len(api.requests))
                await asyncio.sleep(10)
            await asyncio.sleep(60)
            assert recorder.waiting_count == 0
            assert (recorder.events_dropped_count, recorder.patches_dropped_count) == (0, 0)
            recorder.close()

        run_virtual(scene())
        assert [
            abs(count - due) <= 2 for count, due in zip(seen, (0, 3000, 5500), strict=True)
        ] == [True] * 3
        # But for what found nothing else waiting when it came.
        early_events = [path for method, path in api.requests[:10_000] if method == "POST"]
        assert len(early_events) <= settings.writes_max

    def test_draining_does_not_wait_for_the_rate(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            for number in range(20):
                recorder.pod_bound(make_order(uid=f"u{number}"))
            await recorder.drain(0.5)
            assert recorder.events_dropped_count == 0

        play(scene, *[OK] * 20, settings=RecorderSettings(), rate=RateLimit(1.0, 1))

    def test_a_short_gap_between_bindings_is_not_taken_for_their_end(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.set_binding(True)
            for number in range(50):
                recorder.pod_bound(make_order(uid=f"u{number}"))
            for _ in range(10):
                recorder.set_binding(True)
                await asyncio.sleep(0.05)
                recorder.set_binding(False)
                await asyncio.sleep(0.05)
            assert 9 <= 50 - recorder.waiting_count <= 11
            await recorder.drain(10)

        play(scene, *[OK] * 50)

    def test_when_full_the_oldest_events_go_first_and_conditions_last(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.set_binding(True)
            recorder.pod_bound(make_order(uid="u0"))  # Written at once: the trickle.
            for number in range(1, 5):
                recorder.pod_bound(make_order(uid=f"u{number}"))
            recorder.patch_status(make_verdict("c1", write_event=False))
            recorder.patch_status(make_verdict("c2", write_event=False))
            assert recorder.events_dropped_count == 3
            recorder.patch_status(make_verdict("c3", write_event=False))
            recorder.patch_status(make_verdict("c4", write_event=False))
            assert (recorder.events_dropped_count, recorder.patches_dropped_count) == (4, 1)
            await recorder.drain(10)

        api = play(scene, *[OK] * 4, settings=SETTINGS._replace(queue_max=3))
        assert [line.split(":")[0] for line in written(api)] == [
            "pod-u0 event",
            *("pod-c2", "pod-c3", "pod-c4"),
        ]

    def test_an_event_that_was_dropped_is_written_when_it_happens_again(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.set_binding(True)
            recorder.pod_bound(make_order(uid="u0"))
            recorder.patch_status(make_verdict("u1", "no"))
            recorder.pod_bound(make_order(uid="u2"))
            assert recorder.events_dropped_count == 1
            recorder.set_binding(False)
            await settle(1)
            recorder.patch_status(make_verdict("u1", "no"))
            await settle(1)

        api = play(scene, *[OK] * 4, settings=SETTINGS._replace(queue_max=2))
        assert "pod-u1 event: no" in written(api)

    def test_draining_writes_everything_though_bindings_are_under_way(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.set_binding(True)
            for number in range(20):
                recorder.pod_bound(make_order(uid=f"u{number}"))
            await recorder.drain(0.01)
            assert recorder.events_dropped_count == 0

        play(scene, *[OK] * 20)

    def test_draining_ends_in_time_and_counts_what_it_leaves(self) -> None:
        async def scene(recorder: EventRecorder) -> None:
            recorder.pod_bound(make_order(uid="u1"))
            recorder.pod_bound(make_order(uid="u2"))
            await recorder.drain(0.1)
            assert recorder.events_dropped_count == 2

        play(scene, BROKEN, BROKEN)


def test_a_new_owner_knows_what_a_pod_says_by_now() -> None:
    """Somebody else may have written in between."""
    verdict = make_verdict(message="a", write_event=False)

    async def scene(recorder: EventRecorder) -> None:
        recorder.patch_status(verdict)
        await settle()
        recorder.patch_status(verdict)
        await settle()
        recorder.forget_patches()
        recorder.patch_status(msgspec.structs.replace(verdict, is_told=False))
        await settle()

    assert written(play(scene, OK, OK)) == ["pod-u1: a", "pod-u1: a"]
