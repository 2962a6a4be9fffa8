"""What berth can be told in a KubeSchedulerConfiguration v1 file.

A file is read field by field; every problem is reported at once, each with its path and line, and
an unknown field is a problem. What kube-scheduler accepts and berth does not act on is accepted too
and named in `SchedulerConfiguration.notes`, so that nobody believes in a setting that does nothing.
Shape, defaults and rules: staging/src/k8s.io/kube-scheduler/config/v1/types.go and
pkg/scheduler/apis/config/{v1/defaults.go,validation/validation.go}, v1.36.2.

Which plugins exist and what their arguments mean is not known here:
`shared/framework/runtime/registry.py` merges a profile with the defaults and checks it.

A worker of another host reads a file of its own. One that weighs plugins otherwise than the owner
believes would place pods validly and wrongly, and nobody would notice; so it says by which configuration
it works (`scoring_digest`), and the owner compares.
"""

import hashlib
import re
from collections import abc
from typing import Any, Final

import msgspec

from shared.errors import ConfigurationError
from shared.extenders.extender_config import ExtenderConfig
from shared.extenders.extender_fields import read_extenders
from shared.feature_gates import OBEYED, FeatureGates
from shared.framework.runtime.profiles import (
    DEFAULT_SCHEDULER_NAME,
    EXTENSION_POINTS,
    MULTI_POINT,
    PluginSet,
    ProfileConfig,
)
from shared.go_yaml import composed, dumped, value_of
from shared.limits import POD_INITIAL_BACKOFF_S, POD_MAX_BACKOFF_S
from shared.plugin_names import NODE_RESOURCES_FIT, PRIORITY_SORT, TAKE_ARGUMENTS, TAKE_NONE
from shared.runtime_options import LeaderElection
from shared.yaml_fields import (
    INT32_MAX,
    INT64_MAX,
    Field,
    Mapping,
    key_of,
    read_document,
    read_text,
)

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

_REMOVED_PLUGINS: Final = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True):
    kubeconfig: str = ""
    """Path; used when the command line names neither --kubeconfig nor --server."""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    """Bindings a second, and as many conditions and events (workers/binder/binder_assembly.py).
    0: bindings without a limit; negative: nothing has one."""
    burst: int = 0
    """So many at once after a pause; 0: 100, as in kube-scheduler, where `qps` is stated."""


class SchedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A KubeSchedulerConfiguration with kube-scheduler's defaults filled in."""

    profiles: tuple[ProfileConfig, ...] = (ProfileConfig(),)
    """At least one; names are distinct. `percentage_of_nodes_to_score` is the profile's own, or
    else that of the file."""
    parallelism: int = 16
    pod_initial_backoff_s: float = POD_INITIAL_BACKOFF_S
    """After the first failed attempt; doubles with each further one."""
    pod_max_backoff_s: float = POD_MAX_BACKOFF_S
    client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
    extenders: tuple[ExtenderConfig, ...] = ()
    notes: tuple[str, ...] = ()
    """Settings that were accepted and have no effect, each with the reason."""


RETRY_JITTER: Final = 1.2
"""client-go's JitterFactor: a retry may come so much later."""
_BACKOFF_S_MAX: Final = 2**52
"""Above all lives of pods, and a float64 has seconds and their halves."""
OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def load_configuration(path: str) -> SchedulerConfiguration:
    """The configuration in a file, kube-scheduler's defaults for an empty path; ConfigurationError names
    every problem."""
    return parse_configuration(read_text(path), path)


def overridden(text: str, overrides: abc.Mapping[str, Any]) -> str:
    """A configuration's text, or an empty one, with other values of some fields, by their paths: a
    section and its field, as in `leaderElection.leaderElect`. Raises what `YAML_FAULTS` names where it
    is no configuration."""
    root = composed(text) if text else None
    document = value_of(root) if root is not None else {"apiVersion": API_VERSION, "kind": KIND}
    for path, given in overrides.items():
        section, _, field = path.partition(".")
        stated = document.get(section)
        document[section] = {**({} if stated is None else stated), field: given}
    return dumped(document)


def parse_configuration(text: str, source: str) -> SchedulerConfiguration:
    """As `load_configuration`, of text; `source` stands in the errors, and is empty where there is
    none."""
    if not source:
        return SchedulerConfiguration()
    problems: list[str] = []
    document = read_document(text, problems)
    if not document.is_present and not problems:
        document.problem(f"is empty; begin with: apiVersion: {API_VERSION}, kind: {KIND}")
    configuration = SchedulerConfiguration() if problems else _configuration(document.mapping())
    if problems:
        raise ConfigurationError(source, problems)
    return configuration


def _configuration(root: Mapping) -> SchedulerConfiguration:
    notes: list[str] = []
    _expect(root.field("apiVersion"), API_VERSION)
    _expect(root.field("kind"), KIND)
    initial_field = root.field("podInitialBackoffSeconds")
    initial_s = initial_field.whole_number(POD_INITIAL_BACKOFF_S, least=1, most=INT64_MAX)
    max_field = root.field("podMaxBackoffSeconds")
    max_s = max_field.whole_number(POD_MAX_BACKOFF_S, least=1, most=INT64_MAX)
    if max_s < initial_s:
        max_field.problem(f"{max_s} s is less than podInitialBackoffSeconds ({initial_s} s)")
    percentage = _percentage(root.field("percentageOfNodesToScore"))
    extenders = read_extenders(root.field("extenders"), notes)
    for ignored in ("enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"):
        switch = root.field(ignored)
        if switch.truth(fallback=False):
            notes.append(f"{ignored}: no effect; berth has nothing that corresponds")
    configuration = SchedulerConfiguration(
        profiles=_without_ignored(_profiles(root.field("profiles"), percentage), extenders),
        parallelism=root.field("parallelism").whole_number(16, least=1),
        pod_initial_backoff_s=float(min(initial_s, _BACKOFF_S_MAX)),
        pod_max_backoff_s=float(min(max_s, _BACKOFF_S_MAX)),
        client_connection=_client_connection(root.field("clientConnection"), notes),
        leader_election=_leader_election(root.field("leaderElection")),
        extenders=extenders,
        notes=tuple(notes),
    )
    root.finish()
    return configuration


def _without_ignored(
    profiles: tuple[ProfileConfig, ...], extenders: tuple[ExtenderConfig, ...]
) -> tuple[ProfileConfig, ...]:
    """NodeResourcesFit leaves out what extenders count in its place, and then nothing else
    (`buildExtenders` in pkg/scheduler/scheduler.go, v1.36.2)."""
    ignored = sorted(name for extender in extenders for name in extender.ignored_by_scheduler)
    if not ignored:
        return profiles
    changed: list[ProfileConfig] = []
    for profile in profiles:
        args = profile.plugin_config.get(NODE_RESOURCES_FIT, {})
        args = {**args, "ignoredResources": ignored}
        config = {**profile.plugin_config, NODE_RESOURCES_FIT: args}
        changed.append(msgspec.structs.replace(profile, plugin_config=config))
    return tuple(changed)


def _expect(field: Field, wanted: str) -> None:
    actual = field.text("")
    if actual != wanted:
        field.problem(f"{actual!r} must be {wanted}")


def _percentage(field: Field) -> int | None:
    if not field.is_present:
        return None
    return field.whole_number(0, most=100)


def _client_connection(field: Field, notes: list[str]) -> ClientConnection:
    fields = field.mapping()
    connection = fields.read(ClientConnection, qps=fields.field("qps").number(0.0))
    if connection.content_type not in ("", "application/json"):
        notes.append("clientConnection.contentType: no effect; berth speaks JSON")
    if connection.accept_content_types not in ("", "application/json"):
        notes.append("clientConnection.acceptContentTypes: no effect; berth speaks JSON")
    return connection


def _leader_election(field: Field) -> LeaderElection:
    fields = field.mapping()
    election = fields.read(LeaderElection)
    if not election.leader_elect:
        return election
    for name in ("lease_duration_s", "renew_deadline_s", "retry_period_s"):
        if getattr(election, name) < 0:
            fields.field(key_of(name)).problem("must be longer than zero")
    if election.resource_lock != "leases":
        fields.field("resourceLock").problem(f"{election.resource_lock!r} must be leases")
    if election.lease_duration_s <= election.renew_deadline_s:
        fields.field("leaseDuration").problem("must be longer than renewDeadline")
    if election.lease_duration_s < 1:
        fields.field("leaseDuration").problem("must be 1s or longer: the API counts whole seconds")
    if election.renew_deadline_s <= election.retry_period_s * RETRY_JITTER:
        fields.field("renewDeadline").problem(
            f"must be longer than {RETRY_JITTER:g} times retryPeriod"
        )
    for name in ("resource_name", "resource_namespace"):
        text = getattr(election, name)
        if not OBJECT_NAME.fullmatch(text):
            fields.field(key_of(name)).problem(f"{text!r} is no name of a Kubernetes object")
    return election


def _profiles(field: Field, percentage: int | None) -> tuple[ProfileConfig, ...]:
    entries = list(field.items())
    if not entries:
        return (ProfileConfig(percentage_of_nodes_to_score=percentage),)
    profiles: list[ProfileConfig] = []
    places: dict[str, str] = {}
    for entry in entries:
        fallback = DEFAULT_SCHEDULER_NAME if len(entries) == 1 else ""
        profile = _profile(entry, fallback, percentage)
        name = profile.scheduler_name
        if name in places:
            entry.problem(f"schedulerName {name!r} is also that of {places[name]}")
        elif name:
            places[name] = entry.where
        profiles.append(profile)
        if _queue_sort(profile) != _queue_sort(profiles[0]):
            told = "plugins.queueSort and its plugin's args must be the same in all profiles"
            entry.problem(f"{told}: there is one queue")
    return tuple(profiles)


def _queue_sort(profile: ProfileConfig) -> tuple[PluginSet, dict[str, Any] | None]:
    plugins = profile.plugins.get("queueSort", PluginSet())
    name = plugins.enabled[0][0] if plugins.enabled else PRIORITY_SORT
    return plugins, profile.plugin_config.get(name)


def _profile(field: Field, fallback_name: str, percentage: int | None) -> ProfileConfig:
    fields = field.mapping()
    name_field = fields.field("schedulerName")
    name = name_field.text(fallback_name)
    if not name:
        name_field.problem("is missing; with several profiles each needs its own name")
    own_percentage = _percentage(fields.field("percentageOfNodesToScore"))
    profile = ProfileConfig(
        scheduler_name=name,
        plugins=_plugins(fields.field("plugins")),
        plugin_config=_plugin_config(fields.field("pluginConfig")),
        percentage_of_nodes_to_score=percentage if own_percentage is None else own_percentage,
    )
    fields.finish()
    return profile


_WEIGHED: Final = (MULTI_POINT, "score", "placementScore")


def _plugins(field: Field) -> dict[str, PluginSet]:
    fields = field.mapping()
    sets: dict[str, PluginSet] = {}
    for point in (MULTI_POINT, *EXTENSION_POINTS):
        point_field = fields.field(point)
        if not point_field.is_present:
            continue
        parts = point_field.mapping()
        least = 0 if point in _WEIGHED else -INT32_MAX - 1
        enabled = [_plugin(entry, least) for entry in parts.field("enabled").items()]
        # That there is none of the name any more is all the better.
        disabled = [
            _plugin(entry, -INT32_MAX - 1, is_disabled=True)[0]
            for entry in parts.field("disabled").items()
        ]
        parts.finish()
        if point == "queueSort" and len(enabled) > 1:
            point_field.problem("only one queue sort plugin can be enabled")
        sets[point] = PluginSet(enabled=enabled, disabled=disabled)
    fields.finish()
    return sets


def _plugin(field: Field, least: int, *, is_disabled: bool = False) -> tuple[str, int]:
    fields = field.mapping()
    name_field = fields.field("name")
    name = name_field.text("") if is_disabled else _plugin_name(name_field)
    weight = fields.field("weight").whole_number(0, least=least)
    fields.finish()
    return name, weight


def _plugin_name(field: Field) -> str:
    name = field.text("")
    if not name:
        field.problem("is missing; name the plugin")
    if name in _REMOVED_PLUGINS:
        field.problem(f"{name} was removed in {API_VERSION}; NodeVolumeLimits does its work")
    return name


def _plugin_config(field: Field) -> dict[str, dict[str, Any]]:
    configs: dict[str, dict[str, Any]] = {}
    for entry in field.items():
        fields = entry.mapping()
        name = _plugin_name(fields.field("name"))
        args_field = fields.field("args")
        args = args_field.plain()
        fields.finish()
        if name in configs:
            entry.problem(f"{name} is configured twice")
        if args is None or (not isinstance(args, dict) and name in TAKE_NONE):
            args = {}
        elif not isinstance(args, dict):
            args_field.problem("must be a mapping (key: value)")
            continue
        configs[name] = _without_type(args_field, name, args)
    return configs


def _without_type(field: Field, plugin: str, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments without apiVersion and kind, which must be the plugin's if they are there and it is
    in-tree; what others' arguments are, they know (`decodeNestedObjects` in
    staging/src/k8s.io/kube-scheduler/config/v1/types.go, v1.36.2)."""
    version, kind = args.get("apiVersion") or API_VERSION, args.get("kind") or f"{plugin}Args"
    if plugin not in TAKE_ARGUMENTS:
        if "apiVersion" not in args and kind != f"{plugin}Args":
            return args  # A word of its own.
    elif version != API_VERSION:
        field.problem(f"apiVersion {version!r} must be {API_VERSION}")
    elif kind != f"{plugin}Args":
        field.problem(f"kind {kind!r} must be {plugin}Args")
    return {key: part for key, part in args.items() if key not in ("apiVersion", "kind")}


def scoring_digest(config: SchedulerConfiguration, gates: FeatureGates) -> str:
    """Equal for configurations that come to the same, however they are written."""
    parts = [config.profiles, config.extenders, {gate: gates[gate] for gate in OBEYED}]
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:16]
