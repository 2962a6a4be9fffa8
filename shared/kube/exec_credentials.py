"""Credentials from a command (exec plugins of kubeconfig files), as cloud providers use them.

The command prints an ExecCredential: a token or a client certificate, and until when it is good. It is
run when there is none, when that time is over and when the server refuses; never twice at once, and a
failure stands for a second, so that a burst of requests does not start a burst of processes. It gets no
terminal: a daemon has nobody to ask.

Rules: staging/src/k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go, v1.36.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from shared.clock import Clock, SystemClock
from shared.errors import UNDECODABLE, ConfigurationError
from shared.go_yaml import YAML_FAULTS, loaded, yaml_problem
from shared.kube.api_errors import ConnectFailed
from shared.kube.client_certificate import ClientCertificate
from shared.kube.credentials import Credentials, bearer_line
from shared.limits import EXEC_OUTPUT_BYTES_MAX
from shared.telemetry.log import EventLog

log: Final = EventLog("kube")

API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
TIMEOUT_S: Final = 60.0
"""client-go waits for ever; a daemon that does nothing for a minute has to say why."""
FAILURE_HOLD_S: Final = 1.0
STDERR_SHOWN_BYTES: Final = 1000


class ExecCommand(msgspec.Struct, frozen=True):
    """`user.exec` of a kubeconfig file."""

    api_version: str
    command: str
    """An absolute path, or a name to be looked up in $PATH."""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What the command is told of the cluster (provideClusterInfo)."""
    source: str = "user.exec"
    """For messages."""


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: Literal["ExecCredential"]
    status: _Status | None = None


_NEVER: Final = datetime.min.replace(tzinfo=UTC)
"""Go's zero time, as which nothing expires (`credsExpired`)."""


class ExecFailed(ConnectFailed):
    """The command did not give credentials, so nothing was sent."""


class ExecCredentials(Credentials):
    def __init__(
        self,
        command: ExecCommand,
        *,
        certificate: ClientCertificate | None = None,
        impersonation: tuple[tuple[str, str], ...] = (),
        clock: Clock | None = None,
    ) -> None:
        """`certificate`: where to put a client certificate; None when the server has no TLS."""
        super().__init__(certificate=certificate, impersonation=impersonation)
        self.command = command
        self._clock: Clock = clock or SystemClock()
        self._good_until_wall_s = float("-inf")
        self._running: asyncio.Task[None] | None = None
        self._failure: ExecFailed | None = None
        self._failed_at_s = float("-inf")
        self._renewed_at_s = float("-inf")

    def is_due(self) -> bool:
        return self._clock.wall_s() > self._good_until_wall_s

    async def prepare(self) -> None:
        """Run the command, or wait for the run that is under way."""
        failed_s_ago = self._clock.monotonic_s() - self._failed_at_s
        if self._failure is None or failed_s_ago >= FAILURE_HOLD_S:
            if self._running is None or self._running.done():
                self._running = asyncio.get_running_loop().create_task(self._run())
            # A request that is given up must not end the run that others wait for.
            await asyncio.shield(self._running)
        if self._failure is not None:
            raise self._failure

    async def renew(self, refused_serial: int, now_s: float) -> bool:
        """Run the command again, unless that has happened since.

        A command that gives what the server refuses is not run more than once a second.
        """
        if self.serial == refused_serial and now_s - self._renewed_at_s >= FAILURE_HOLD_S:
            with contextlib.suppress(ExecFailed):  # Logged; what counts here is the refusal.
                await self.prepare()
            self._renewed_at_s = now_s
        return self.serial != refused_serial

    async def _run(self) -> None:
        self._failure = None
        try:
            self._take(await self._output())
        except ExecFailed as error:
            self._failure = error
            self._failed_at_s = self._clock.monotonic_s()
            log.error("exec_plugin_failed", command=self.command.command, error=str(error))

    async def _output(self) -> bytes:
        command = self.command
        environment = {**os.environ, **dict(command.env)}
        spec: dict[str, Any] = {"interactive": False}
        if command.cluster is not None:
            spec["cluster"] = command.cluster
        info = {"kind": "ExecCredential", "apiVersion": command.api_version, "spec": spec}
        environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
        path = shutil.which(command.command, path=environment.get("PATH"))
        if path is None:
            hint = f"\n{command.install_hint}" if command.install_hint else ""
            raise self._failed(f"executable {command.command} not found{hint}")
        try:
            process = await asyncio.create_subprocess_exec(
                path,
                *command.args,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
            )
        except (OSError, ValueError) as error:  # Or what no argument or variable can be.
            raise self._failed(str(error)) from error
        try:
            async with asyncio.timeout(TIMEOUT_S):
                output, errors = await process.communicate()
        except TimeoutError:
            raise self._failed(f"no answer within {TIMEOUT_S:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0:
            said = errors[-STDERR_SHOWN_BYTES:].decode("utf-8", "replace").strip()
            raise self._failed(f"exit code {process.returncode}: {said or 'it said nothing'}")
        return output

    def _take(self, output: bytes) -> None:
        if len(output) > EXEC_OUTPUT_BYTES_MAX:
            raise self._failed(f"it printed {len(output)} bytes")
        answer = self._decoded(output)
        if answer.api_version != self.command.api_version:
            raise self._failed(
                f"it is configured as {self.command.api_version} and speaks {answer.api_version}"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._failed("it gave neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._failed("it gave only one of certificate and key")
        certificate, key = status.client_certificate_data, status.client_key_data
        try:
            line = bearer_line(status.token, "the token") if status.token else b""
            if certificate and key and self._certificate is not None:
                self._certificate.use_pem(certificate.encode(), key.encode())
        except ConfigurationError as error:
            raise self._failed(str(error)) from error
        self._set_authorization(line)
        expires = status.expiration_timestamp or _NEVER
        self._good_until_wall_s = float("inf") if expires == _NEVER else expires.timestamp()
        self.serial += 1

    def _decoded(self, output: bytes) -> _ExecCredential:
        """JSON if it begins as that does, else YAML (serializer/recognizer/recognizer.go)."""
        try:
            if output.lstrip().startswith(b"{"):
                return msgspec.json.decode(output, type=_ExecCredential)
            return msgspec.convert(_of_yaml(output), type=_ExecCredential)
        except UNDECODABLE as error:
            raise self._failed(f"it printed no ExecCredential: {error}") from error

    def _failed(self, problem: str) -> ExecFailed:
        return ExecFailed(f"{self.command.source}: {self.command.command}: {problem}")


def _of_yaml(output: bytes) -> object:
    try:
        return loaded(output.decode(), is_strict=False)
    except YAML_FAULTS as error:
        # Without the cause: its text shows the line, which may be that of a token.
        raise ValueError(yaml_problem(error)) from None
