"""The flags of `berth run`: every one that kube-scheduler v1.36 has, and berth's own.

A kube-scheduler flag does one of three things here. It is an option of berth (`RuntimeOptions`,
`EndpointOptions`); or it sets a field of the configuration (`_CONFIGURATION`); or it is taken, checked
and named at the start as being without effect, with the reason (`_WITHOUT_EFFECT`). Names, types and
defaults: cmd/kube-scheduler/app/options/options.go and what it calls, v1.36.2. How a flag is written is
Go's: `--leader-elect`, `--leader-elect=false`, `_` for `-`.
"""

import argparse
import csv
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from shared.durations import parse_duration
from shared.feature_gates import BOOLEANS
from shared.kube.foreign_groups import FOREIGN_GROUPS
from shared.runtime_options import EndpointOptions, RuntimeOptions
from shared.telemetry.log import LEVELS
from shared.transport.runtime_dir import default_runtime_dir

DEFAULTS: Final = RuntimeOptions()
DEBUG_VERBOSITY: Final = 4
"""From -v=4 on kube-scheduler tells of each pod; so does our level debug."""


def truth(text: str) -> bool:
    """As Go's strconv.ParseBool."""
    try:
        return BOOLEANS[text]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def whole(text: str) -> int:
    """As Go's strconv.ParseInt: 0x10, 0b10 and 010 are other numbers than 10."""
    try:
        return int(text if text == text.strip() else "", 8 if _OCTAL.fullmatch(text) else 0)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def listed(text: str) -> tuple[str, ...]:
    """As pflag reads a StringSlice: a line of CSV, so that a value may stand in quotes."""
    if text and not _CSV.fullmatch(text):
        raise ValueError(f"{text!r} is no list with commas")
    return tuple(next(csv.reader([text]), ()))


_READ_BY: Final[dict[Any, Callable[[str], Any]]] = {bool: truth, int: whole, tuple: listed}
_CSV: Final = re.compile(r'(?:"(?:[^"]|"")*"|[^",\r\n]*)(?:,(?:"(?:[^"]|"")*"|[^",\r\n]*))*')
_OCTAL: Final = re.compile(r"[-+]?0[0-7_]+")


class Flag(NamedTuple):
    """A kube-scheduler flag that is no option of berth."""

    name: str
    kind: Callable[[str], Any]
    target: str
    """The path of the field that it sets; or why it has no effect."""
    honoured: tuple[object, ...] = ()
    """Values of a flag without effect that ask for what berth does anyway."""


_CONFIGURATION: Final = (
    Flag("--leader-elect", truth, "leaderElection.leaderElect"),
    Flag("--leader-elect-lease-duration", str, "leaderElection.leaseDuration"),
    Flag("--leader-elect-renew-deadline", str, "leaderElection.renewDeadline"),
    Flag("--leader-elect-retry-period", str, "leaderElection.retryPeriod"),
    Flag("--leader-elect-resource-lock", str, "leaderElection.resourceLock"),
    Flag("--leader-elect-resource-name", str, "leaderElection.resourceName"),
    Flag("--leader-elect-resource-namespace", str, "leaderElection.resourceNamespace"),
    # These are passed over where a file is given with --config, as kube-scheduler does.
    Flag("--kube-api-qps", float, "clientConnection.qps"),
    Flag("--kube-api-burst", whole, "clientConnection.burst"),
    Flag("--kube-api-content-type", str, "clientConnection.contentType"),
)
WINS_OVER_FILE: Final = "leaderElection."

_HTTP_1: Final = "requests are answered by HTTP/1.1 alone"
_FRONT_PROXY: Final = "who asks is not taken from the headers of a front proxy"
_LINES: Final = "each line is written at once, to standard error"
_ALL_SERIES: Final = "all series are served; drop what is not wanted where they are scraped"
_PROFILERS: Final = "processes are profiled from outside, with a profiler for Python such as py-spy"
_ONE_VERSION: Final = "decisions are those of v1.36"

_WITHOUT_EFFECT: Final = (
    Flag("--disable-http2-serving", truth, _HTTP_1, (True,)),
    Flag("--http2-max-streams-per-connection", whole, _HTTP_1, (0,)),
    Flag("--permit-address-sharing", truth, "addresses are always shared", (True,)),
    Flag("--tls-curve-preferences", str, "OpenSSL chooses the curve"),
    Flag("--tls-sni-cert-key", str, "one certificate is served under all names"),
    *(
        Flag(f"--requestheader-{name}", str, _FRONT_PROXY)
        for name in (
            *("username-headers", "uid-headers", "group-headers", "extra-headers-prefix"),
            *("client-ca-file", "allowed-names"),
        )
    ),
    Flag("--profiling", truth, _PROFILERS, (False,)),
    Flag("--contention-profiling", truth, _PROFILERS, (False,)),
    Flag("--emulated-version", str, _ONE_VERSION, ("1.36", "kube=1.36")),
    Flag("--min-compatibility-version", str, _ONE_VERSION, ("1.36", "kube=1.36")),
    Flag("--show-hidden-metrics-for-version", str, "no metric is hidden"),
    Flag("--disabled-metrics", str, _ALL_SERIES),
    Flag("--allow-metric-labels", str, _ALL_SERIES),
    Flag("--allow-metric-labels-manifest", str, _ALL_SERIES),
    Flag("--log-flush-frequency", parse_duration, _LINES),
    *(
        Flag(f"--log-{form}-{name}", kind, _LINES)
        for form in ("text", "json")
        for name, kind in (("split-stream", truth), ("info-buffer-size", str))
    ),
    Flag("--vmodule", str, "all files have the same verbosity"),
)

_OPTIONS: Final[dict[str, tuple[str, str]]] = {
    "server": ("URL", "API server, in place of the kubeconfig's; alone: one without credentials"),
    "kubeconfig": (
        "FILE",
        "default: the configuration's clientConnection.kubeconfig, the pod's service account,"
        " $KUBECONFIG, ~/.kube/config",
    ),
    "config": ("FILE", "KubeSchedulerConfiguration v1"),
    "feature_gates": ("GATES", "feature gates: Name=true,Name=false; may be given several times"),
    "pod_groups": (
        "WHOSE",
        "read these pod groups as gangs, in place of those of Kubernetes:"
        f" {', '.join(FOREIGN_GROUPS)}; with the gates GenericWorkload and GangScheduling",
    ),
    "gang_reservation_s": (
        "S",
        "hold room for a gang that has waited so long, for as long at most (default: never);"
        " with the same gates",
    ),
    "runtime_dir": ("DIR", "sockets, lock and process list; private to one berth"),
    "workers": ("N", "scoring processes"),
    "binders": ("N", "binding processes"),
    "max_in_flight": ("N", "bindings under way at once in each binder"),
    "seed": ("N", "breaks ties between equal scores"),
    "assume_ttl_s": ("S", "give up an assumed pod not confirmed for so long (default: never)"),
    "drain_s": ("S", "for bindings in flight after SIGTERM"),
    "pod_max_in_unschedulable_pods_s": ("D", "a pod that nothing wakes is tried again after that"),
    "compatible_sampling": (
        "BOOL",
        "score the nodes that kube-scheduler with parallelism: 1 would, and choose among equals as "
        "it does: for comparisons pod by pod",
    ),
    "annotate_decisions": ("BOOL", "note on each bound pod how it came there (berth.dev/decision)"),
    "as_default_scheduler": ("BOOL", "be the default-scheduler without kube-scheduler's lease"),
    "exit_with_parent": ("BOOL", "drain and stop when standard input ends (for who starts berth)"),
    "record": ("DIR", "keep all that the API server tells there, for berth replay; pods are whole"),
    "record_mib_max": ("N", "the recording takes no more of the disk"),
    "observe": ("BOOL", "schedule and write nothing, beside another scheduler; with --record"),
    "bind_address": ("IP", "where /livez, /readyz, /metrics and /configz are served, over HTTPS"),
    "secure_port": ("PORT", "as above; 0: not served"),
    "cert_dir": ("DIR", "of kube-scheduler.crt and .key, which are made there if missing"),
    "tls_cert_file": ("FILE", "certificate of the endpoints (default: one made at the start)"),
    "tls_private_key_file": ("FILE", "its key"),
    "tls_min_version": ("VERSION", "VersionTLS12 or VersionTLS13; older ones are not spoken"),
    "tls_cipher_suites": ("NAMES", "of TLS 1.2, separated by commas"),
    "permit_port_sharing": ("BOOL", "another process may serve on the same port (SO_REUSEPORT)"),
    "client_ca_file": ("FILE", "clients with certificates of these authorities are who these name"),
    "endpoints_token_file": ("FILE", "whoever has the bearer token in it may read everything"),
    "authentication_kubeconfig": ("FILE", "server that is asked whose a token is"),
    "authentication_skip_lookup": ("BOOL", "do not look the cluster's client authority up"),
    "authentication_tolerate_lookup_failure": ("BOOL", "go on without it if it is not found"),
    "authentication_token_webhook_cache_ttl_s": ("D", "an answer to that question holds so long"),
    "authorization_kubeconfig": ("FILE", "server that is asked what a user may read"),
    "authorization_always_allow_paths": ("PATHS", "open to everybody, separated by commas"),
    "authorization_webhook_cache_authorized_ttl_s": ("D", "such a permission holds so long"),
    "authorization_webhook_cache_unauthorized_ttl_s": ("D", "such a refusal holds so long"),
    "workers_address": ("tcp://IP:PORT", "where workers of other hosts connect; PORT+1 is used"),
    "workers_key_file": ("FILE", "secret key of this berth (berth keys); needed as above"),
    "workers_allowed_file": ("FILE", "public keys of the workers that may connect, one a line"),
    "logging_format": ("FORMAT", "text or json (default: text on a terminal, else JSON)"),
}
"""Field of `RuntimeOptions` or `EndpointOptions` -> what stands for a value (D: a duration); help."""
GROUP_OPTIONS: Final = ("feature_gates", "pod_groups", "gang_reservation_s")
"""Of all commands that decide, or decide again: gates, and what these do not say of groups."""


class _Added(argparse.Action):
    """An option that may be given several times. Its texts are one, as those of --feature-gates; its
    lists are one, the first in place of the default: a StringSlice of pflag."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002 - argparse's signature
    ) -> None:
        before = getattr(namespace, self.dest)
        if isinstance(self.default, tuple):
            values = (*(() if before is self.default else before), *(values or ()))
        elif before:
            values = f"{before},{values}"
        setattr(namespace, self.dest, values)


def with_dashes(arguments: Sequence[str]) -> list[str]:
    """`_` in the name of a flag is `-` (WordSepNormalizeFunc of component-base/cli/flag)."""
    written = []
    for argument in arguments:
        name, separator, given = argument.partition("=")
        if name.startswith("--"):
            name = name.replace("_", "-")
        written.append(f"{name}{separator}{given}")
    return written


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Options of `_OPTIONS`, with their defaults."""
    for name in names:
        metavar, help_text = _OPTIONS[name]
        is_of_endpoints = name in EndpointOptions.__struct_fields__
        default = getattr(DEFAULTS.endpoints if is_of_endpoints else DEFAULTS, name)
        flags, shape = _flags_of(name, metavar), _shape(metavar, type(default))
        if name == "feature_gates" or isinstance(default, tuple):
            shape["action"] = _Added
        elif name == "logging_format":
            shape["choices"] = ("text", "json")
        elif name == "bind_address":  # An empty one is as if it were not given.
            shape["type"] = partial(_stripped_or, default)
        elif name == "runtime_dir":
            default = default_runtime_dir()
        shown = f"{default:g}{'s' * (metavar == 'D')}" if isinstance(default, float) else default
        shown = ",".join(default) if isinstance(default, tuple) else shown
        told = f"{help_text} (default {shown})" if default else help_text
        told = told.replace("%", "%%")
        parser.add_argument(*flags, dest=name, default=default, help=told, **shape)


def _stripped_or(default: str, text: str) -> str:
    return text.strip() or default


def _flags_of(name: str, metavar: str) -> tuple[str, ...]:
    flag = "--" + (name.removesuffix("_s") if metavar == "D" else name).replace("_", "-")
    if name == "pod_max_in_unschedulable_pods_s":
        return (f"{flag}-duration",)
    return (flag, "--master") if name == "server" else (flag,)


def _shape(metavar: str, kind: Callable[[str], Any]) -> dict[str, Any]:
    kind = parse_duration if metavar == "D" else _READ_BY.get(kind, kind)
    if kind is truth:
        return {"metavar": "BOOL", "type": _telling(truth), "nargs": "?", "const": True}
    return {"metavar": metavar, "type": _telling(kind)}


def _telling(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """argparse shows what an ArgumentTypeError says, and of a ValueError the function's name."""

    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """All flags of `berth run`."""
    add_options(parser, *_OPTIONS)
    parser.add_argument(
        "--write-config-to",
        default="",
        metavar="FILE",
        help="write what the configuration comes to there, and exit",
    )
    parser.add_argument("--log-level", choices=LEVELS, default=None, help="default info")
    parser.add_argument(
        *("-v", "--v"),
        default=0,
        **_shape("N", int),
        help=f"kube-scheduler's verbosity: {DEBUG_VERBOSITY} and more are --log-level debug",
    )
    taken = parser.add_argument_group("set a field of the configuration, as kube-scheduler's flags")
    ignored = parser.add_argument_group("kube-scheduler's flags that have no effect here")
    for group, flags in ((taken, _CONFIGURATION), (ignored, _WITHOUT_EFFECT)):
        for flag in flags:
            # Absent from what is parsed unless it is given.
            group.add_argument(
                flag.name,
                default=argparse.SUPPRESS,
                help=flag.target.replace("%", "%%"),
                **_shape("X", flag.kind),
            )


def options_of(parsed: argparse.Namespace) -> RuntimeOptions:
    """What the command line says, as options."""
    given = vars(parsed)
    overrides = {flag.target: given[_dest(flag)] for flag in _CONFIGURATION if _dest(flag) in given}
    notes = [
        f"{flag.name}: no effect; {flag.target}"
        for flag in _WITHOUT_EFFECT
        if _dest(flag) in given and given[_dest(flag)] not in flag.honoured
    ]
    for flag in _CONFIGURATION if parsed.config else ():
        path = flag.target
        if path in overrides and not path.startswith(WINS_OVER_FILE):
            del overrides[path]
            notes.append(f"{flag.name}: no effect; the file of --config says it ({path})")
    endpoints = {name: given[name] for name in EndpointOptions.__struct_fields__}
    own = {name: given[name] for name in RuntimeOptions.__struct_fields__ if name in given}
    if parsed.log_level is None:
        own["log_level"] = "debug" if parsed.v >= DEBUG_VERBOSITY else DEFAULTS.log_level
    own |= {"overrides": overrides, "notes": tuple(notes)}
    return RuntimeOptions(**own, endpoints=EndpointOptions(**endpoints))


def _dest(flag: Flag) -> str:
    return flag.name.removeprefix("--").replace("-", "_")
