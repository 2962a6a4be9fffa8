"""What the world can do to us. Bugs are assertions and end the process; these are handled.

Raised at the edges only (API client, transport, configuration) and turned into events or exit codes
there; deciding code receives values.
"""

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)
"""What decoding raises about bytes of others. The second: text that is not UTF-8, numbers of thousands
of digits. The last: nested deeper than any object is."""


class OperationalError(Exception):
    """The world misbehaved in a way that berth is built to survive."""


class ConfigurationError(OperationalError):
    """The configuration cannot be used. `problems` names each place and its remedy."""

    def __init__(self, source: str, problems: list[str]) -> None:
        super().__init__(f"{source}: " + "; ".join(problems))
        self.source = source
        self.problems = problems


class FileError(ConfigurationError):
    """A file that others write (a kubeconfig, certificates, keys) cannot be used; soon it may be."""


class FrameError(OperationalError):
    """A message that is not ours, damaged, or of another protocol version."""


class ProtocolVersionError(FrameError):
    """A message of a berth whose messages look otherwise."""


class ObjectError(OperationalError):
    """An API object that cannot be understood; names the object and the field."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem

    def told(self) -> str:
        """For the condition of a pod that it keeps from being placed."""
        return str(self)


def as_one_error(problems: list[str]) -> str:
    """Several errors as kube-scheduler tells them: each once, in brackets unless it is the only one
    (Aggregate in staging/src/k8s.io/apimachinery/pkg/util/errors/errors.go, v1.36)."""
    told = list(dict.fromkeys(problems))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"
