"""Whatever the network and the processes do, at most one candidate leads.

Three candidates on one lease. Requests are carried out late or never, answers come late or never,
candidates stop for any time and go on, are started anew, give up. Two are berths; the third is as
client-go is: it leads for a renew deadline and a retry period from the *answer* to its last success.
"""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.leader.election import Election, Follow, LeaseRecord, Look, Write
from shared.runtime_options import LeaderElection

BERTHS = (0, 1)
CLIENT_GO = 2
PAUSES_S = (0.1, 1.0, 4.9, 5.1, 7.0, 9.9, 10.1, 14.9, 15.1)
TURNS = (1, 2, 3, 6, 6, 6)
"""Steps without a pause; 6 are a whole attempt: look, then write, each sent, carried out, answered."""
RETRY_S, DEADLINE_S, DURATION_S = 2.0, 10.0, 15.0
TIMES = LeaderElection(
    lease_duration_s=DURATION_S, renew_deadline_s=DEADLINE_S, retry_period_s=RETRY_S
)
CLOCK_OFFSETS_S = (0.0, 5_000.0, -300.0)


class Api:
    """One lease and its version."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.version = 0

    def write(self, record: LeaseRecord, version: int) -> bool:
        if version != self.version:
            return False
        self.record, self.version = record, version + 1
        return True


class Candidate:
    """An election with a request that is on its way, and a clock of its own."""

    def __init__(self, name: str, offset_s: float) -> None:
        self.name = name
        self.offset_s = offset_s
        self.election = Election(name, TIMES)
        self.seen_version = 0
        self.request: tuple[Any, float, int] | None = None
        """(step, when it was sent, version that it names)."""
        self.answer: tuple[Any, float, Any] | None = None
        """(step, when it was sent, what the server said)."""
        self.go_leads_until_s = float("-inf")


class World:
    """Candidates, the API between them, and time."""

    def __init__(self) -> None:
        self.now_s = 10_000.0
        self.wall = 0
        self.api = Api()
        self.candidates = [Candidate(f"c{i}", CLOCK_OFFSETS_S[i]) for i in range(3)]

    def time_passes(self, by_s: float) -> None:
        self.now_s += by_s

    def a_candidate_goes_on(self, i: int, steps: int) -> None:
        """Some steps without a pause: a turn begins, its request is carried out, its answer comes."""
        one = self.candidates[i]
        for _ in range(steps):
            if one.answer is not None:
                self.an_answer_comes(one)
            elif one.request is not None:
                self.a_request_is_carried_out(one)
            else:
                self.a_turn_begins(one)

    def a_request_or_its_answer_is_lost(self, i: int) -> None:
        one = self.candidates[i]
        if one.request is not None or one.answer is not None:
            one.request = one.answer = None
            one.election.note_failed()

    def a_turn_begins(self, one: Candidate) -> None:
        self.wall += 1
        step = one.election.next_step(self.now_s + one.offset_s, f"w{self.wall}")
        if isinstance(step, Follow):
            one.election.note_failed()
            return
        one.request = step, self.now_s, one.seen_version

    def a_request_is_carried_out(self, one: Candidate) -> None:
        assert one.request is not None
        (step, sent_s, version), one.request = one.request, None
        said: Any
        match step:
            case Look():
                said = (self.api.record, self.api.version)
            case Write(record):
                said = self.api.write(record, version)
            case _:
                raise AssertionError(f"{step} is no request")
        # A write answers with the version that it made.
        one.answer = step, sent_s, said if isinstance(step, Look) else (said, self.api.version)

    def an_answer_comes(self, one: Candidate) -> None:
        assert one.answer is not None
        (step, sent_s, said), one.answer = one.answer, None
        now_s = self.now_s + one.offset_s
        if isinstance(step, Look):
            record, one.seen_version = said
            one.election.note_seen(record, now_s)
            if record is None or record.holder != one.name:
                one.go_leads_until_s = float("-inf")
            return
        is_done, version = said
        if not is_done:
            one.election.note_failed()
            return
        one.seen_version = version
        one.election.note_written(step.record, sent_s + one.offset_s, now_s)
        # client-go gives one request no more time than half its deadline.
        if self.now_s - sent_s < DEADLINE_S / 2:
            one.go_leads_until_s = sent_s + DEADLINE_S + RETRY_S

    def a_berth_starts_its_elector_anew(self, i: int) -> None:
        one = self.candidates[i]
        now_s = self.now_s + one.offset_s
        inherited_s = one.election.leads_until_s if one.election.leads(now_s) else 0.0
        one.election = Election(one.name, TIMES, inherited_s)
        one.request = one.answer = None

    def a_leader_gives_up(self, i: int) -> None:
        one = self.candidates[i]
        if one.request is not None or one.answer is not None:
            return
        one.go_leads_until_s = float("-inf")
        record = one.election.release("w")
        if record is not None:
            self.api.write(record, one.seen_version)
        one.election.note_failed()

    def at_most_one_leads(self) -> None:
        leaders = [
            i for i in BERTHS if self.candidates[i].election.leads(self.now_s + CLOCK_OFFSETS_S[i])
        ]
        if self.now_s < self.candidates[CLIENT_GO].go_leads_until_s:
            leaders.append(CLIENT_GO)
        assert len(leaders) <= 1, f"{leaders} lead at once"


def play(seed: int) -> None:
    """Sixty things that happen, drawn from a seed: long runs of lucky steps are what finds faults here,
    and drawing one rule after another seldom makes them."""
    dice = random.Random(seed)
    world = World()
    for _ in range(60):
        match dice.choices(("pause", "go on", "lost", "restart", "give up"), (35, 50, 7, 4, 4))[0]:
            case "pause":
                world.time_passes(dice.choice(PAUSES_S))
            case "go on":
                world.a_candidate_goes_on(dice.randrange(3), dice.choice(TURNS))
            case "lost":
                world.a_request_or_its_answer_is_lost(dice.randrange(3))
            case "restart":
                world.a_berth_starts_its_elector_anew(dice.choice(BERTHS))
            case _:
                world.a_leader_gives_up(dice.randrange(3))
        world.at_most_one_leads()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=500)
def test_at_most_one_leads_at_any_time(seed: int) -> None:
    play(seed)


def test_somebody_leads_after_all() -> None:
    world = World()
    for i in (0, 1, CLIENT_GO):
        world.a_candidate_goes_on(i, 6)
    assert world.candidates[0].election.leads(world.now_s + CLOCK_OFFSETS_S[0])
    world.time_passes(15.1)
    world.a_candidate_goes_on(1, 6)
    assert world.candidates[1].election.leads(world.now_s + CLOCK_OFFSETS_S[1])
