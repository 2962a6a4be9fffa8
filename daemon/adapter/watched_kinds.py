"""Which kinds are listed and watched, by the options: what gates leave out, and what plugins add."""

from shared.feature_gates import parse_feature_gates
from shared.kube.custom_resources import custom_kind
from shared.kube.foreign_groups import kinds_with
from shared.kube.resources import ResourceKind
from shared.runtime_options import RuntimeOptions


def watched_kinds(options: RuntimeOptions) -> list[ResourceKind]:
    """In the order in which they are started."""
    gates = parse_feature_gates(options.feature_gates)
    kinds = kinds_with(options.pod_groups)
    known = [kind for kind in kinds if not kind.feature_gate or gates[kind.feature_gate]]
    return known + [custom_kind(name) for name in options.custom_kinds]
