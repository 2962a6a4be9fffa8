"""One place in the table of children, and the process that fills it.

Whoever calls says when, and what an exit means; `launcher` makes the process.
"""

import asyncio
import signal
from typing import Final

import msgspec

from daemon.supervisor.children import ChildSpec
from daemon.supervisor.launcher import Launch, Launched
from daemon.supervisor.process_list import ProcessEntry
from daemon.supervisor.restart_policy import Deadly, Exit, Silence, exit_text
from shared import exit_codes
from shared.errors import UNDECODABLE
from shared.in_hand import option_of
from shared.kube.connection_problems import Problem
from shared.telemetry.log import EventLog
from shared.transport.heartbeat import Heartbeat

log: Final = EventLog("supervisor")

_decode_problems = msgspec.json.Decoder(list[Problem]).decode


class Child:
    def __init__(self, spec: ChildSpec, launch: Launch) -> None:
        self.spec = spec
        self.process: Launched | None = None
        self._launch = launch
        self.started_s = 0.0
        self.heartbeat = Heartbeat()
        """Of this life, or of the last."""
        self.silence = Silence(spec.silence_max_s, 0.0)
        self._has_hung = False
        self.problems: list[Problem] = []
        """Of its connections, as it said last."""
        self._note_serial = 0
        self.exits: list[Exit] = []
        self._deadly = Deadly()
        self.restart: asyncio.TimerHandle | None = None
        self.next_spec: ChildSpec | None = spec
        """Of its successor; None: it has none. Where that is another it is to end for a new
        configuration, which is no death."""

    @property
    def name(self) -> str:
        return self.spec.name

    def entry(self) -> ProcessEntry:
        last_exit = exit_text(self.exits[-1].code) if self.exits else ""
        process = self.process
        if process is None:
            return ProcessEntry(self.name, 0, 0.0, len(self.exits) - 1, last_exit)
        return ProcessEntry(
            self.name, process.pid, process.create_time_s, len(self.exits), last_exit, self.problems
        )

    def send_signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def start(self, now_s: float) -> None:
        """Starts a process; OSError or ImportError as `Launch`."""
        self.started_s = now_s
        self.silence = Silence(self.spec.silence_max_s, now_s)
        self.problems, self._note_serial = [], 0
        self._has_hung = False
        arguments = self.spec.arguments
        if self.is_careful:
            arguments += tuple(option_of(self._deadly.left_out(self.started_s)))
        self.process, self.heartbeat = self._launch(self.spec, arguments)

    @property
    def is_careful(self) -> bool:
        """The next process is to say what it has in hand: one has died before. A single kill, which no
        object needs to have brought about, is not enough: pods wait longer for one that is careful."""
        deaths = [one for one in self.exits if one.code not in exit_codes.NO_DEATHS]
        has_died = len(deaths) > 1 or any(not one.was_killed for one in deaths)
        return self.spec.can_be_careful and has_died

    def add_death(self, code: int, now_s: float) -> None:
        """It ended otherwise than ordered, with whatever it had in hand."""
        in_hand = self.heartbeat.in_hand if self.spec.can_be_careful else 0
        is_of_an_object = self._deadly.add(in_hand, now_s)
        was_killed = code == -signal.SIGKILL and not self._has_hung
        self.exits.append(Exit(code, now_s - self.started_s, is_of_an_object, was_killed))

    def hangs(self, now_s: float) -> bool:
        """Whether it runs and has been silent for too long; to be asked each `LOOK_PERIOD_S`."""
        process = self.process
        if process is None:
            return False
        self._has_hung = self.silence.look(self.heartbeat.count, now_s, process.use)
        return self._has_hung

    def take_note(self) -> bool:
        """Whether it has said something new of its connections (`problems`)."""
        noted = self.heartbeat.read_note()
        if noted is None or noted[0] == self._note_serial:
            return False
        self._note_serial, note = noted
        try:
            self.problems = _decode_problems(note)
        except UNDECODABLE as error:
            # Of a process whose memory something has overwritten; the others go on.
            log.error("note_unreadable", child=self.name, reason=str(error))
            return False
        return True

    def reap(self) -> tuple[int, int]:
        """Process id and exit code of the process, which has ended; the place is empty then."""
        assert self.process is not None, "only running children are watched"
        process, self.process = self.process, None
        return process.pid, process.reap()
