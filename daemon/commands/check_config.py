"""`berth check-config`: what a configuration file comes to, or everything that is wrong with it.

What is printed is itself a KubeSchedulerConfiguration that means the same, with every plugin spelt
out at its extension points; what does not fit into such a file stands above it in comments.
"""

import re
from typing import Any, Final, NamedTuple

import yaml

from daemon.commands.installation import installation_problems
from shared.config import API_VERSION, KIND, SchedulerConfiguration, parse_configuration
from shared.errors import ConfigurationError
from shared.extenders.extender_fields import shown_extender
from shared.feature_gates import OBEYED_UPSTREAM, FeatureGates, parse_feature_gates
from shared.framework.runtime.profiles import (
    DEFAULT_SCHEDULER_NAME,
    MULTI_POINT,
    ProfileConfig,
    is_named,
    runs_anyway,
)
from shared.framework.runtime.registry import BuiltProfile
from shared.go_yaml import composed, dumped
from shared.plugins.in_tree import InTreeRegistry
from shared.yaml_fields import as_written, read_text

_EVERYTHING: Final = [{"name": "*"}]
_PART: Final = re.compile(r"[^.\[\]: ]+")


class Checked(NamedTuple):
    configuration: SchedulerConfiguration
    profiles: list[BuiltProfile]
    gates: FeatureGates


def check(path: str, feature_gates: str = "") -> Checked:
    """The file's configuration, or the defaults; ConfigurationError with all problems."""
    return check_text(read_text(path), path, feature_gates)


def check_text(text: str, source: str, feature_gates: str) -> Checked:
    """As `check`, of text; `source` stands in the errors."""
    configuration = parse_configuration(text, source)
    gates = parse_feature_gates(feature_gates)
    registry = InTreeRegistry(gates)
    built: list[BuiltProfile] = []
    refused: dict[int, ConfigurationError] = {}
    for index, profile in enumerate(configuration.profiles):
        try:
            built.append(registry.build(profile))
        except ConfigurationError as error:
            refused[index] = error
    if refused:
        root = composed(text) if text else None
        problems = [
            f"{error.source}: {_with_line(root, index, problem)}"
            for index, error in refused.items()
            for problem in error.problems
        ]
        raise ConfigurationError(source or "the default configuration", problems)
    return Checked(configuration, built, gates)


def _with_line(root: yaml.Node | None, index: int, problem: str) -> str:
    """A problem of one profile, `PATH: what` or `PATH: PATH: what`, with the line that its place begins
    in, as far as the path leads: in `a.b[NAME].c` it goes by the entry of a list with that name."""
    path, _, what = problem.partition(": ")
    inner, colon, rest = what.partition(": ")
    if colon and " " not in inner:
        path, what = f"{path}: {inner}", rest
    node = _under(_under(root, "profiles"), str(index))
    for part in _PART.findall(path):
        following = _under(node, part)
        if following is None:
            break
        node = following
    return problem if node is None else f"{path} (line {node.start_mark.line + 1}): {what}"


def notes_of(checked: Checked) -> list[str]:
    """What may not be meant so: settings of both that were accepted and have no effect, and a lease for
    which berth would wait though no other schedules these pods."""
    configuration, built, gates = checked
    notes = list(configuration.notes)
    for gate in gates.without_effect:
        is_lost = gate.partition("=")[0] in OBEYED_UPSTREAM
        lost = ", though kube-scheduler would obey it" if is_lost else ""
        notes.append(f"--feature-gates {gate}: no effect{lost}")
    names = [made.scheduler_name for made in built]
    if configuration.leader_election.is_kube_schedulers and DEFAULT_SCHEDULER_NAME not in names:
        remedy = "give leaderElection a resourceName of its own, or berth waits while one runs"
        notes.append(f"the lease is kube-scheduler's; {remedy}")
    return notes + [f"profile {made.scheduler_name}: {n}" for made in built for n in made.notes]


def effective_yaml(path: str, feature_gates: str = "") -> str:
    """The effective configuration; an empty path stands for the defaults."""
    return shown(check(path, feature_gates))


def shown(checked: Checked) -> str:
    """The effective configuration as a file, with what does not fit into one in comments."""
    if problems := installation_problems():
        raise ConfigurationError("this installation", problems)
    notes = notes_of(checked) + [
        f"profile {each.scheduler_name}: every node is scored (percentageOfNodesToScore is not set)"
        for each in checked.configuration.profiles
        if each.percentage_of_nodes_to_score is None
    ]
    return "".join(f"# {note}\n" for note in notes) + dumped(effective_document(checked))


def effective_document(checked: Checked) -> dict[str, Any]:
    """The effective configuration as a KubeSchedulerConfiguration."""
    configuration, built, _ = checked
    extenders = [shown_extender(extender) for extender in configuration.extenders]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "parallelism": configuration.parallelism,
        "podInitialBackoffSeconds": int(configuration.pod_initial_backoff_s),
        "podMaxBackoffSeconds": int(configuration.pod_max_backoff_s),
        "clientConnection": {
            "kubeconfig": configuration.client_connection.kubeconfig,
            "qps": configuration.client_connection.qps,
            "burst": configuration.client_connection.burst,
        },
        "leaderElection": as_written(configuration.leader_election),
        **({"extenders": extenders} if extenders else {}),
        "profiles": [
            _profile(profile, made)
            for profile, made in zip(configuration.profiles, built, strict=True)
        ],
    }


def _profile(profile: ProfileConfig, made: BuiltProfile) -> dict[str, Any]:
    weights = {
        "score": {entry.plugin.NAME: entry.weight for entry in made.framework.scores},
        "placementScore": {p.NAME: weight for p, weight in made.framework.placement_scores},
    }
    points: dict[str, Any] = {MULTI_POINT: {"disabled": _EVERYTHING}}
    for point, plugins in made.plugins_at.items():
        names = [
            plugin.NAME
            for plugin in (*plugins, *runs_anyway(point, made.plugins_at))
            if is_named(plugin, point)
        ]
        if not names:
            continue
        weighed = weights.get(point, {})
        points[point] = {
            "enabled": [
                {"name": name, **({"weight": weighed[name]} if weighed else {})} for name in names
            ]
        }
    shown: dict[str, Any] = {"schedulerName": profile.scheduler_name}
    if profile.percentage_of_nodes_to_score is not None:
        shown["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    shown["plugins"] = points
    if profile.plugin_config:
        shown["pluginConfig"] = [
            {"name": name, "args": args} for name, args in profile.plugin_config.items()
        ]
    return shown


def _under(node: yaml.Node | None, part: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode):
        each: yaml.Node
        for position, each in enumerate(node.value):
            if part in (str(position), getattr(_under(each, "name"), "value", None)):
                return each
    return None
