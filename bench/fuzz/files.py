"""What people write for berth: configurations, kubeconfigs and command lines.

Whatever is in them, they are accepted or refused as a whole, with what is wrong. What is accepted comes
to a configuration that is accepted in turn, and means the same.
"""

import contextlib
import io
import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from bench.conformance.scenario import read_configurations
from bench.fuzz.fuzz_objects import CORPUS
from bench.fuzz.harness import Story, Surface, Target, WrongError
from bench.fuzz.mutation import mutated, mutated_bytes
from daemon import cli
from daemon.commands import check_config
from daemon.commands import run_berth as run
from daemon.commands.installation import installation_problems
from daemon.supervisor import supervise as supervisor
from shared.config import API_VERSION, KIND, load_configuration
from shared.errors import ConfigurationError
from shared.extenders.extender_client import ExtenderClient
from shared.kube.credentials import TokenUnreadable
from shared.kube.kubeconfig import load_kubeconfig

CONFIGURED: Final = (
    "mixed",
    "resources-strategy",
    "topology-default",
    "preemption",
    "node-affinity",
)
"""Families of the corpus in which scenarios have configurations."""
CONFIGURATIONS_MAX: Final = 40
"""Of each."""
_CERTIFICATE: Final = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
)

_WHOLE: Final = {
    "parallelism": 8,
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 10,
    "percentageOfNodesToScore": 40,
    "clientConnection": {"kubeconfig": "/k", "qps": 50.5, "burst": 100, "contentType": "x"},
    "leaderElection": {
        "leaderElect": True, "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "1m2.5s",
        "resourceLock": "leases", "resourceName": "berth", "resourceNamespace": "kube-system",
    },
    "extenders": [
        {
            "urlPrefix": "https://127.0.0.1:1/x", "filterVerb": "f", "prioritizeVerb": "p", "weight": 3,
            "preemptVerb": "v", "bindVerb": "b", "enableHTTPS": True, "httpTimeout": "100ms",
            "nodeCacheCapable": True, "ignorable": True,
            "managedResources": [{"name": "example.com/x", "ignoredByScheduler": True}],
            "tlsConfig": {"insecure": True, "serverName": "s", "caData": _CERTIFICATE},
        }
    ],
    "profiles": [
        {
            "schedulerName": "berth",
            "percentageOfNodesToScore": 30,
            "plugins": {
                "multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 3}]},
                "score": {"enabled": [{"name": "NodeResourcesFit", "weight": 2}],
                          "disabled": [{"name": "*"}]},
                "preFilter": {"disabled": [{"name": "NodePorts"}]},
            },
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {
                    "apiVersion": API_VERSION, "kind": "NodeResourcesFitArgs",
                    "ignoredResources": ["example.com/a"], "ignoredResourceGroups": ["example.org"],
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "resources": [{"name": "cpu", "weight": 1}],
                        "requestedToCapacityRatio": {"shape": [
                            {"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
                    }}},
                {"name": "PodTopologySpread", "args": {
                    "defaultingType": "List", "defaultConstraints": [
                        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}},
                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}},
                {"name": "DefaultPreemption", "args": {
                    "minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}},
                {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 600, "shape": []}},
                {"name": "NodeAffinity", "args": {"addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}}},
                {"name": "NodeResourcesBalancedAllocation", "args": {
                    "resources": [{"name": "memory", "weight": 1}]}},
            ],
        }
    ],
}  # fmt: skip
_KUBECONFIG: Final = {
    "apiVersion": "v1", "kind": "Config", "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    "clusters": [{"name": "c", "cluster": {
        "server": "https://127.0.0.1:6443/base", "certificate-authority-data": _CERTIFICATE,
        "certificate-authority": "ca.crt", "insecure-skip-tls-verify": False, "tls-server-name": "s",
        "proxy-url": "http://user:word@127.0.0.1:3128",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}]}}],
    "users": [{"name": "u", "user": {
        "token": "t", "tokenFile": "token", "username": "me", "password": "word", "as": "you",
        "as-uid": "1", "as-groups": ["g"], "as-user-extra": {"k": ["v"]},
        "client-certificate-data": _CERTIFICATE, "client-key-data": _CERTIFICATE,
        "client-certificate": "crt", "client-key": "key",
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./get-token",
                 "args": ["a"], "env": [{"name": "A", "value": "b"}], "installHint": "h",
                 "interactiveMode": "Never", "provideClusterInfo": True}}}],
}  # fmt: skip
_SIMPLE_KUBECONFIG: Final = {
    **_KUBECONFIG,
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}
_GATES: Final = ("", "DynamicResources=true", "AllAlpha=true,NodeDeclaredFeatures=false", "X=1")
_COMMAND_LINES: Final = (
    ["run", "--server", "http://127.0.0.1:1", "--workers", "2", "--binders", "1", "--max-in-flight",
     "64", "--seed", "0", "--assume-ttl-s", "0", "--drain-s", "5", "--as-default-scheduler",
     "--leader-elect", "false", "--log-level", "info"],
    ["run", "--server", "https://[::1]:1/x", "--config", "FILE", "--feature-gates",
     "DynamicResources=true", "--runtime-dir", "/nowhere/berth"],
    ["run", "--kubeconfig", "FILE", "--bind-address", "127.0.0.1", "--secure-port", "10259",
     "--tls-cert-file", "FILE", "--tls-private-key-file", "FILE", "--endpoints-token-file", "FILE"],
    ["run", "--server", "http://h", "--as-default-scheduler", "--workers-address",
     "tcp://127.0.0.1:7400", "--workers-key-file", "FILE", "--workers-allowed-file", "FILE"],
    ["check-config", "FILE", "--feature-gates", "AllBeta=true"],
    ["check-config", "-"],
    ["status", "--runtime-dir", "/nowhere/berth", "--json"],
    ["dump", "--runtime-dir", "/nowhere/berth", "--compare"],
    ["version"],
)  # fmt: skip


@cache
def _configurations() -> list[Any]:
    found: list[Any] = [_WHOLE] * CONFIGURATIONS_MAX
    for family in CONFIGURED:
        of_file = read_configurations(CORPUS / f"{family}.jsonl.gz")
        found += [each.config for each in of_file if each.config][:CONFIGURATIONS_MAX]
    return [{"apiVersion": API_VERSION, "kind": KIND, **each} for each in found]


def _text(rng: random.Random, value: Any) -> bytes:
    """A mutated document as a file: JSON is YAML, too, and other ways to write it have other faults."""
    if rng.random() < 0.9:
        value = mutated(rng, value)
    dump = yaml.safe_dump if rng.random() < 0.3 else json.dumps
    text = str(dump(value)).encode()
    return mutated_bytes(rng, text) if rng.random() < 0.3 else text


def _configuration_story(rng: random.Random) -> Story:
    gates = rng.choice(_GATES).encode()
    if rng.random() < 0.1:
        gates = mutated_bytes(rng, gates).replace(b"\n", b"")
    return [gates + b"\n" + _text(rng, rng.choice(_configurations()))]


def _kubeconfig_story(rng: random.Random) -> Story:
    return [_text(rng, rng.choice((_KUBECONFIG, _SIMPLE_KUBECONFIG)))]


def _command_story(rng: random.Random) -> Story:
    arguments = list(rng.choice(_COMMAND_LINES))
    head, rest = arguments[:1], arguments[1:]
    if rng.random() < 0.9 and rest:
        rest = [str(each).replace("\0", "") for each in mutated(rng, rest) or ()]
    return [json.dumps([*head, *rest]).encode()]


# Who reads it ---------------------------------------------------------------------------------------


def _take_configuration(data: bytes) -> None:
    gates, _, content = data.partition(b"\n")
    feature_gates = gates.decode("latin-1")
    with _file(content) as path, _installed():
        text = check_config.effective_yaml(path, feature_gates)
        for extender in load_configuration(path).extenders:
            ExtenderClient(extender)
    with _file(text.encode()) as path, _installed():
        again = check_config.effective_yaml(path, feature_gates)
    if _without_comments(again) != _without_comments(text):
        raise WrongError("the effective configuration means something else")


def _without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def _take_kubeconfig(data: bytes) -> None:
    with _file(data) as path:
        access = load_kubeconfig([Path(path)], environment={"HTTPS_PROXY": "http://p:1"})
    if "\r" in access.host_header or "\n" in access.host_header:
        raise WrongError("a header has two lines")
    line = access.credentials.header_line(0.0)
    if any(b"\r" in each or b"\n" in each for each in line.removesuffix(b"\r\n").split(b"\r\n")):
        raise WrongError("a header has two lines")


def _take_command_line(data: bytes) -> None:
    with _file(b"berth") as path:
        arguments = [path if each == "FILE" else each for each in json.loads(data)]
        silence = contextlib.redirect_stderr(io.StringIO())
        nowhere = contextlib.redirect_stdout(io.StringIO())
        with silence, nowhere, _without_start(), _installed():
            try:
                code = cli.main(arguments)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else -1
    if code not in range(5):
        raise WrongError(f"exit code {code}")


@contextlib.contextmanager
def _without_start() -> Any:
    """Everything is checked, and then nothing is started."""
    before = supervisor.run, run.__dict__["start_logging"]
    setattr(supervisor, "run", lambda *_: 0)  # noqa: B010 # A function in another's place.
    setattr(run, "start_logging", lambda *_: None)  # noqa: B010 # The same.
    try:
        yield
    finally:
        setattr(supervisor, "run", before[0])  # noqa: B010 # The same.
        setattr(run, "start_logging", before[1])  # noqa: B010 # The same.


_problems_once: Final = cache(installation_problems)


@contextlib.contextmanager
def _installed() -> Any:
    """What is installed is no input, and takes longer to look through than all that is."""
    setattr(check_config, "installation_problems", _problems_once)  # noqa: B010 # As above.
    try:
        yield
    finally:
        setattr(check_config, "installation_problems", installation_problems)  # noqa: B010 # The same.


@contextlib.contextmanager
def _file(content: bytes) -> Any:
    with tempfile.NamedTemporaryFile(prefix="berth-fuzz-") as file:
        file.write(content)
        file.flush()
        yield file.name


_REFUSALS: Final = (ConfigurationError, TokenUnreadable)
CONFIGURATION: Final = Surface(
    about="KubeSchedulerConfiguration files and feature gates",
    story=_configuration_story, start=lambda: Target(_take_configuration), refusals=_REFUSALS,
)  # fmt: skip
KUBECONFIG: Final = Surface(
    about="kubeconfig files",
    story=_kubeconfig_story, start=lambda: Target(_take_kubeconfig), refusals=_REFUSALS,
)  # fmt: skip
COMMAND_LINE: Final = Surface(
    about="command lines",
    story=_command_story, start=lambda: Target(_take_command_line), refusals=_REFUSALS,
)  # fmt: skip
