"""Arguments of PodTopologySpread: constraints for pods that state none.

Shapes and rules: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go, v1.36.2.
"""

from typing import Final

import msgspec

from shared.framework.plugin_args import QUALIFIED_NAME, ArgsStruct
from shared.kube.api.core_v1 import TopologySpreadConstraint

SYSTEM_DEFAULTING: Final = "System"
LIST_DEFAULTING: Final = "List"
SPREAD_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")


class DefaultConstraint(TopologySpreadConstraint):
    """A topology spread constraint of the profile; its selector follows from each pod."""

    max_skew: int = 0


class PodTopologySpreadArgs(ArgsStruct):
    default_constraints: list[DefaultConstraint] = msgspec.field(default_factory=list)
    """For pods that state none. Only with defaultingType List."""
    defaulting_type: str = ""
    """System (or empty): spread over host names and zones, softly. List: `default_constraints`."""

    @property
    def is_system_defaulting(self) -> bool:
        return self.defaulting_type in ("", SYSTEM_DEFAULTING)


def spread_problems(args: PodTopologySpreadArgs) -> list[str]:
    """What is wrong with PodTopologySpread's arguments."""
    problems: list[str] = []
    if not args.is_system_defaulting and args.defaulting_type != LIST_DEFAULTING:
        problems.append(
            f"defaultingType: {args.defaulting_type!r} is not one of {LIST_DEFAULTING}, "
            f"{SYSTEM_DEFAULTING}"
        )
    if args.is_system_defaulting and args.default_constraints:
        problems.append(
            f"defaultingType: must be {LIST_DEFAULTING} where defaultConstraints are given"
        )
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(args.default_constraints):
        path = f"defaultConstraints[{i}]"
        problems += _constraint_problems(constraint, path)
        pair = constraint.topology_key, constraint.when_unsatisfiable
        if pair in seen:
            problems.append(f"{path}: {{{', '.join(pair)}}} stands there twice")
        seen.add(pair)
    return problems


def _constraint_problems(constraint: DefaultConstraint, path: str) -> list[str]:
    problems: list[str] = []
    if constraint.max_skew <= 0:
        problems.append(f"{path}.maxSkew: {constraint.max_skew} must be above 0")
    if QUALIFIED_NAME.fullmatch(constraint.topology_key) is None:
        problems.append(
            f"{path}.topologyKey: {constraint.topology_key!r} cannot be the key of a label"
        )
    if constraint.when_unsatisfiable not in SPREAD_ACTIONS:
        problems.append(
            f"{path}.whenUnsatisfiable: {constraint.when_unsatisfiable!r} is not one of "
            f"{', '.join(SPREAD_ACTIONS)}"
        )
    if constraint.label_selector is not None:
        problems.append(
            f"{path}.labelSelector: must not be stated, it follows from each pod's services and "
            "controller; remove it"
        )
    return problems
