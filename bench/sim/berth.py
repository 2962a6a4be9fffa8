"""One berth: its supervisor, the real one, and the processes that it starts.

The supervisor lives on the virtual clock as the others do and finds simulated processes where the system
would give it real ones. When it dies its children die with it, and a service manager starts it anew.
"""

import math
import signal
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from bench.sim.links import Links
from bench.sim.schedule import KILLED, MachineClock, Process, SimulatedFailure, Simulation
from bench.sim.sim_processes import (
    ADDRESS,
    PLUGINS,
    AsyncProcess,
    Life,
    Machine,
    OwnerProcess,
    ScorerProcess,
    new_process,
    start_adapter,
    start_binder,
    start_leader,
)
from bench.sim.virtual_loop import Network
from daemon.supervisor.children import ChildSpec, child_specs
from daemon.supervisor.launcher import Launched
from daemon.supervisor.process_list import ProcessList
from daemon.supervisor.restart_policy import Use
from daemon.supervisor.supervise import Supervisor
from shared.child_plan import ChildPlan
from shared.config import SchedulerConfiguration, parse_configuration
from shared.errors import ConfigurationError
from shared.feature_gates import parse_feature_gates
from shared.framework.queueing_hints import custom_resources
from shared.kube.resources import KINDS_BY_PLURAL
from shared.plugins.in_tree import InTreeRegistry
from shared.runtime_options import EndpointOptions, RuntimeOptions
from shared.transport.channels import Channel
from shared.transport.heartbeat import Heartbeat
from shared.transport.lease_gate import GATE_NAME, LeaseGate
from shared.transport.owner_link import OwnerLink

START_S_MAX: Final = 0.5
"""What a process takes from its start to its first turn."""
NOWHERE: Final = Path("/simulated")
SUPERVISOR: Final = "supervisor"

NOT_SERVED: Final = EndpointOptions(secure_port=0)
"""There is no port to serve at."""


_parse = lru_cache(256)(parse_configuration)
"""Seeds have few files, and what one comes to is never changed."""


class SimulatedChild:
    """A process that the supervisor has started (`daemon.supervisor.launcher.Launched`)."""

    def __init__(self, berth: "Berth", life: Life) -> None:
        self.pid = life.number
        self.create_time_s = berth.machine.clock.wall_s()
        self._berth = berth
        self._life = life
        self._process: Process | None = None
        """None until it has come so far that it does something."""
        self._exit_code: int | None = None
        self._has_ended = lambda: None
        simulation = berth.simulation
        rng = simulation.rng(f"{berth.machine.prefix}{life.name} {life.number} starts")
        simulation.after(rng.random() * START_S_MAX, self._begin)

    def _begin(self) -> None:
        if self._exit_code is None:
            self._process = self._berth.make(self._life)
            self._process.on_end = self._end

    def _end(self, code: int) -> None:
        self._exit_code = code
        self._berth.children.remove(self)
        supervisor = self._berth.supervisor
        if supervisor.is_alive:
            supervisor.call_soon(self._has_ended)

    def send_signal(self, number: signal.Signals) -> None:
        if self._exit_code is not None:
            return
        if self._process is None:
            self._end(-number)
        elif number is signal.SIGKILL:
            self._process.end(KILLED)
        else:
            self._process.receive_signal(number)

    def call_at_end(self, act: object) -> None:
        self._has_ended = act  # type: ignore[assignment] # As the protocol has it.

    def use(self) -> Use:
        return Use(0.0, is_waiting=False)

    def reap(self) -> int:
        assert self._exit_code is not None, "only those are reaped that have ended"
        return self._exit_code

    def abandon(self, for_s: float) -> None:
        """Its supervisor is dead, which it notices after so long. Nobody is told of its end any more.
        The owner has lost its sockets to the next one by then."""
        self._exit_code = KILLED
        process = self._process
        if process is None:
            return
        process.on_end = None
        if for_s and not isinstance(process, OwnerProcess):
            self._berth.simulation.after(for_s, process.kill)
        else:
            process.kill()


class Berth:
    """All processes of one berth."""

    def __init__(
        self,
        simulation: Simulation,
        network: Network,
        *,
        number: int,
        scorer_count: int,
        binder_count: int,
        configurations: Sequence[str],
        runtime_dir: Path,
        feature_gates: str = "",
        kinds: Collection[str] = tuple(KINDS_BY_PLURAL),
        gang_reservation_s: float = 0.0,
    ) -> None:
        """`configurations`: as text, the first of which it starts with."""
        self.simulation = simulation
        self.network = network
        self.number = number
        self.links = Links(simulation)
        self.processes: dict[str, Process] = {}
        """By name, the last life of each."""
        self.on_start: Callable[[Process], None] | None = None
        """Told of each process before its first turn."""
        self.told: ProcessList | None = None
        """What `berth status` would show."""
        self._configurations = configurations
        self._current = self._laid_out = 0
        self._lives = 0
        self._identity = ""
        self.children: list[SimulatedChild] = []
        """Those that have not ended."""
        self.linger_s = 0.0
        """So long children may take to notice that their supervisor is gone."""
        first = _parse(configurations[0], "first")
        self._parsed: dict[int, SchedulerConfiguration] = {0: first}
        election = first.leader_election if first.leader_election.leader_elect else None
        prefix = "" if number == 0 else f"{number}/"
        gate_path = runtime_dir / f"{number}-{GATE_NAME}"
        gates = parse_feature_gates(feature_gates)
        registry = InTreeRegistry(gates, entry_points=PLUGINS)
        built = [registry.build(profile) for profile in first.profiles]
        self.machine = Machine(
            simulation=simulation,
            network=network,
            links=self.links,
            clock=MachineClock(simulation),
            registry=registry,
            gates=gates,
            kinds=kinds,
            custom_kinds=custom_resources(profile.registrations for profile in built),
            prefix=prefix,
            binder_count=binder_count,
            gang_reservation_s=gang_reservation_s,
            election=election,
            gate_path=gate_path,
        )
        self.gate = LeaseGate(gate_path, self.machine.clock)
        self._options = RuntimeOptions(
            server=ADDRESS,
            runtime_dir=str(runtime_dir),
            workers=scorer_count,
            binders=binder_count,
            endpoints=NOT_SERVED,
        )
        self.supervisor: AsyncProcess
        self._start_supervisor()

    # Who is there -----------------------------------------------------------------------------------

    @property
    def owner(self) -> OwnerProcess | None:
        found = self.processes.get("owner")
        return found if isinstance(found, OwnerProcess) and found.is_alive else None

    @property
    def scorers(self) -> list[ScorerProcess]:
        """Those that live."""
        found = [each for each in self.processes.values() if isinstance(each, ScorerProcess)]
        return [each for each in found if each.is_alive]

    @property
    def may_write(self) -> bool:
        return self.machine.election is None or self.gate.open_term() != 0

    def kill(self, name: str) -> None:
        """Ends a process at once."""
        found = self.processes.get(name)
        if found is not None:
            found.end(KILLED)

    def sleep(self, for_s: float) -> None:
        """The machine sleeps: nothing is done on it, and its monotonic clock stands still."""
        clock = self.machine.clock
        if not clock.is_asleep:
            clock.fall_asleep()
            for process in self.processes.values():
                process.stop_until(math.inf)
            self.simulation.after(for_s, self.wake)

    def wake(self) -> None:
        """The machine sleeps no more."""
        if self.machine.clock.is_asleep:
            self.machine.clock.wake()
            for process in self.processes.values():
                process.start_again()

    def reload(self, configuration: int) -> None:
        """Its file is changed, and it is told so."""
        self._current = configuration
        if self.supervisor.is_alive:
            self.supervisor.receive_signal(signal.SIGHUP)

    def close(self) -> None:
        """Ends everything; nothing is started anew."""
        for process in self.processes.values():
            process.kill()

    # The supervisor ---------------------------------------------------------------------------------

    def _start_supervisor(self) -> None:
        self._lives += 1
        life = self._lives
        machine = self.machine
        process = new_process(
            self.simulation, f"{machine.prefix}{SUPERVISOR}", machine.clock, self.network
        )
        self.supervisor = self.processes[SUPERVISOR] = process
        self._identity = f"simulated-{self.number}-{life}"
        self.gate.close()
        if not self._is_usable(self._current):
            self._current = 0  # Whoever broke the file has seen that berth did not start with it.

        def open_end(_: Path, name: str) -> object:
            del name  # It tells one process of the system from another.
            self._lives += 1
            name = f"{process.name}-{self._lives}"
            return process.open_end(self.links, Channel.ADMIN, name)

        async def main() -> int:
            supervisor = Supervisor(
                self._options,
                self._specs(),
                self._launch,
                self._specs,
                machine.clock,
                OwnerLink(NOWHERE, open_end),  # type: ignore[arg-type] # As good as one.
                self._take_list,
            )
            code = await supervisor.run()
            raise SimulatedFailure("gave up", f"{process.name} ended with {code}")

        process.on_end = self._supervisor_ended
        process.start(main)
        self._has_come(process)

    def _has_come(self, process: Process) -> None:
        if self.machine.clock.is_asleep:
            process.stop_until(math.inf)

    def _take_list(self, told: ProcessList) -> None:
        self.told = told

    def _supervisor_ended(self, _: int) -> None:
        rng = self.simulation.rng(f"service manager {self._lives}")
        self.simulation.after(rng.random() * START_S_MAX, self._start_supervisor)
        for child in self.children:
            child.abandon(rng.random() * self.linger_s)
        self.children = []

    def _specs(self) -> list[ChildSpec]:
        """ConfigurationError where the current one cannot be used."""
        self._configuration(self._current)
        self._laid_out = self._current
        options = RuntimeOptions(
            server=self._options.server,
            runtime_dir=self._options.runtime_dir,
            workers=self._options.workers,
            binders=self._options.binders,
            endpoints=NOT_SERVED,
        )
        election = self.machine.election
        plan = ChildPlan(options=options, election=election, identity=self._identity)
        return child_specs(plan, 0)

    def _is_usable(self, configuration: int) -> bool:
        try:
            self._configuration(configuration)
        except ConfigurationError:
            return False
        return True

    def _configuration(self, number: int) -> SchedulerConfiguration:
        if number not in self._parsed:
            parsed = _parse(self._configurations[number], f"file {number}")
            for profile in parsed.profiles:
                self.machine.registry.build(profile)
            self._parsed[number] = parsed
        return self._parsed[number]

    def _launch(self, spec: ChildSpec, arguments: tuple[str, ...]) -> tuple[Launched, Heartbeat]:
        self._lives += 1
        careful = _option(arguments, "--careful")
        numbers = None
        if careful is not None:
            numbers = frozenset(int(each) for each in careful.split(",") if each)
        heartbeat = Heartbeat()
        life = Life(spec.name, self._lives, self._configuration(self._laid_out), heartbeat, numbers)
        child = SimulatedChild(self, life)
        self.children.append(child)
        return child, heartbeat

    def make(self, life: Life) -> Process:
        """A process begins to do something."""
        process: Process
        match life.name.partition("-")[0]:
            case "owner":
                process = OwnerProcess(self.machine, life)
            case "scorer":
                process = ScorerProcess(self.machine, life)
            case "adapter":
                process = start_adapter(self.machine, life)
            case "leader":
                process = start_leader(self.machine, life, self._identity)
            case _:
                process = start_binder(self.machine, life)
        self.processes[life.name] = process
        self._has_come(process)
        if self.on_start is not None:
            self.on_start(process)
        return process


def _option(arguments: Sequence[str], name: str) -> str | None:
    if name not in arguments:
        return None
    return arguments[arguments.index(name) + 1]
