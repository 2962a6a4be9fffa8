"""A candidate whose API server is away."""

import asyncio
import random
from pathlib import Path

import pytest

from bench.manual_clock import ManualClock
from daemon.leader.election import LeaseRecord
from daemon.leader.elector import Elector
from shared import exit_codes
from shared.kube.cluster_access import access_at
from shared.runtime_options import LeaderElection
from shared.transport.lease_gate import GATE_NAME, LeaseGate


@pytest.mark.parametrize(("holder", "is_told"), [("", False), ("other", False), ("me", True)])
def test_only_a_lease_that_it_held_is_told_of_as_not_given_up(
    holder: str, is_told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(1000.0)

    async def main() -> int:
        candidate = Elector(
            access_at("http://127.0.0.1:1"),
            LeaderElection(),
            "me",
            LeaseGate(tmp_path / GATE_NAME, clock),
            clock,
            random.Random(1),
        )
        if holder:
            candidate._election.note_seen(LeaseRecord(holder, 15), clock.boot_s())
        candidate.stop(exit_codes.OK)
        return await candidate.run()

    assert asyncio.run(main()) == exit_codes.OK
    assert ("lease_not_released" in [record.message for record in caplog.records]) == is_told
