"""`berth check-config`: what a configuration file comes to, or everything that is wrong with it.

What is printed is itself a KubeSchedulerConfiguration that means the same, with every plugin spelt
out at its extension points; what does not fit into such a file stands above it in comments.
"""

from typing import Any, Final

import yaml

from daemon.commands.installation import installation_problems
from shared.config import API_VERSION, KIND, SchedulerConfiguration, load_configuration
from shared.errors import ConfigurationError
from shared.framework.profiles import MULTI_POINT, ProfileConfig
from shared.framework.registry import BuiltProfile, Registry

_EVERYTHING: Final = [{"name": "*"}]


def check(path: str) -> tuple[SchedulerConfiguration, list[BuiltProfile]]:
    """The configuration and its profiles; ConfigurationError with all problems."""
    configuration = load_configuration(path)
    registry = Registry()
    built: list[BuiltProfile] = []
    problems: list[str] = []
    for profile in configuration.profiles:
        try:
            built.append(registry.build(profile))
        except ConfigurationError as error:
            problems += [f"{error.source}: {one}" for one in error.problems]
    if problems:
        raise ConfigurationError(path or "the default configuration", problems)
    return configuration, built


def effective_yaml(path: str) -> str:
    """The effective configuration; an empty path stands for the defaults."""
    configuration, built = check(path)
    problems = installation_problems()
    if problems:
        raise ConfigurationError("this installation", problems)
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "parallelism": configuration.parallelism,
        "podInitialBackoffSeconds": int(configuration.pod_initial_backoff_s),
        "podMaxBackoffSeconds": int(configuration.pod_max_backoff_s),
        "clientConnection": {"kubeconfig": configuration.client_connection.kubeconfig},
        "leaderElection": {"leaderElect": configuration.leader_election.leader_elect},
        "profiles": [
            _profile(profile, made)
            for profile, made in zip(configuration.profiles, built, strict=True)
        ],
    }
    comments = _comments(configuration, built)
    return comments + yaml.safe_dump(document, sort_keys=False, default_flow_style=False)


def missing_plugins(built: list[BuiltProfile]) -> dict[str, tuple[str, ...]]:
    """Profile -> plugins that kube-scheduler would run in it and that berth does not have yet."""
    return {made.scheduler_name: made.missing for made in built if made.missing}


def _comments(configuration: SchedulerConfiguration, built: list[BuiltProfile]) -> str:
    lines = [f"{note}" for note in configuration.notes]
    for made in built:
        where = f"profile {made.scheduler_name}"
        lines += [f"{where}: {note}" for note in made.notes]
        lines += [
            f"{where}: {name}: not built yet; pods are placed without it" for name in made.missing
        ]
        if made.percentage_of_nodes_to_score is None:
            lines.append(f"{where}: every node is scored (percentageOfNodesToScore is not set)")
    return "".join(f"# {line}\n" for line in lines)


def _profile(profile: ProfileConfig, made: BuiltProfile) -> dict[str, Any]:
    weights = {entry.plugin.NAME: entry.weight for entry in made.framework.scores}
    points: dict[str, Any] = {MULTI_POINT: {"disabled": _EVERYTHING}}
    for point, plugins in made.plugins_at.items():
        # PreScore runs for the plugins of Score, so it is not configured by itself. A stand-in for a
        # plugin that is not built yet is none that a file could name.
        names = [plugin.NAME for plugin in plugins if plugin.NAME not in made.missing]
        if not names or point == "preScore":
            continue
        enabled: list[dict[str, Any]] = [{"name": name} for name in names]
        if point == "score":
            enabled = [
                {**entry, "weight": weights[name]}
                for entry, name in zip(enabled, names, strict=True)
            ]
        points[point] = {"enabled": enabled}
    shown: dict[str, Any] = {"schedulerName": profile.scheduler_name}
    if made.percentage_of_nodes_to_score is not None:
        shown["percentageOfNodesToScore"] = made.percentage_of_nodes_to_score
    shown["plugins"] = points
    if profile.plugin_config:
        shown["pluginConfig"] = [
            {"name": name, "args": args} for name, args in profile.plugin_config.items()
        ]
    return shown
