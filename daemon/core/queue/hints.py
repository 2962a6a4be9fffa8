"""The table: which cluster event may help a pod that plugin P rejected.

One line for each registration: resource, actions, and the hint that looks closer; without a hint the
event always may help. The functions themselves are in the files `hints_*.py`, by what they compare.
Callers may rely on the keys: a test compares them with the plugin registry.

Rules: `EventsToRegister` of each plugin under pkg/scheduler/framework/plugins, v1.36.2. Plugins that
register Node Add without UpdateNodeTaint are given that too (`wakeups.with_implied_taint`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from daemon.core.queue import hints_node, hints_pod, hints_volume
from daemon.core.queue.cluster_event import Action, Resource, actions_of
from daemon.core.queue.hints_claim import DynamicResourcesHints
from daemon.core.queue.wakeups import ANY_EVENT, Registered, Registrations
from shared import plugin_names
from shared.errors import ConfigurationError
from shared.framework.cluster_view import ObjectStore
from shared.framework.plugin_api import EventReader
from shared.selectors.node_selector import Terms


class HintSettings(msgspec.Struct, frozen=True):
    """The parts of a profile that hints depend on."""

    added_affinity: Terms | None = None
    """NodeAffinity's addedAffinity, its required part."""
    has_hard_default_constraints: bool = False
    """Whether PodTopologySpread's default constraints include one that rejects."""
    has_toleration_comparison: bool = False
    """The feature gate TaintTolerationComparisonOperators."""
    out_of_tree: Mapping[str, tuple[Registered, ...]] = {}
    """What plugins of other packages register; see `registrations_of`."""


def default_registrations(
    objects: ObjectStore,
    settings: HintSettings = HintSettings(),  # noqa: B008  # Frozen: sharing it is safe.
) -> Registrations:
    """What the in-tree plugins register. Hints look claims and classes up in `objects`."""
    return {
        **_of_gates_and_nodes(settings),
        **_of_resources(objects),
        **_of_pods(settings),
        **_of_claims_and_limits(),
        **_of_volumes(),
        **settings.out_of_tree,
    }


def registrations_of(plugins: Iterable[Any]) -> dict[str, tuple[Registered, ...]]:
    """What plugins of other packages register: the events that they name, or else all of them (a
    plugin without EnqueueExtensions upstream). ConfigurationError for what is no event."""
    found: dict[str, tuple[Registered, ...]] = {}
    for plugin in plugins:
        name = plugin.NAME
        found[name] = ANY_EVENT
        if isinstance(plugin, EventReader):
            found[name] = tuple(_registered(name, *each) for each in plugin.events)
    return found


def _registered(plugin: str, resource: str, action: str) -> Registered:
    known = next((each for each in Resource if each.value == resource), None)
    if known is None or action not in actions_of(known):
        problem = f"events: there is no {resource} {action}; see daemon/core/queue/cluster_event.py"
        raise ConfigurationError(f"plugin {plugin}", [problem])
    return Registered(known, (Action(action),))


def _of_gates_and_nodes(settings: HintSettings) -> Registrations:
    taints = hints_node.TaintTolerationHints(has_comparison=settings.has_toleration_comparison)
    affinity = hints_node.NodeAffinityHints(settings.added_affinity)
    return {
        plugin_names.SCHEDULING_GATES: (
            Registered(
                Resource.POD,
                (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,),
                hints_node.after_own_gates,
            ),
        ),
        plugin_names.NODE_UNSCHEDULABLE: (
            Registered(
                Resource.NODE,
                (Action.ADD, Action.UPDATE_NODE_TAINT),
                hints_node.after_node_schedulable,
            ),
            Registered(
                Resource.POD,
                (Action.UPDATE_POD_TOLERATION,),
                hints_node.after_own_unschedulable_toleration,
            ),
        ),
        plugin_names.NODE_NAME: (Registered(Resource.NODE, (Action.ADD,)),),
        plugin_names.TAINT_TOLERATION: (
            Registered(
                Resource.NODE, (Action.ADD, Action.UPDATE_NODE_TAINT), taints.after_node_change
            ),
            Registered(
                Resource.POD, (Action.UPDATE_POD_TOLERATION,), hints_node.after_own_toleration
            ),
        ),
        plugin_names.NODE_AFFINITY: (
            Registered(
                Resource.NODE, (Action.ADD, Action.UPDATE_NODE_LABEL), affinity.after_node_change
            ),
        ),
        plugin_names.NODE_PORTS: (
            Registered(Resource.NODE, (Action.ADD,)),
            Registered(Resource.POD, (Action.DELETE,), hints_node.after_port_freed),
        ),
        plugin_names.NODE_DECLARED_FEATURES: (
            Registered(
                Resource.NODE,
                (Action.ADD, Action.UPDATE_NODE_DECLARED_FEATURE),
                hints_node.after_declared_features,
            ),
            Registered(Resource.POD, (Action.UPDATE,), hints_node.after_own_required_features),
        ),
    }


def _of_resources(objects: ObjectStore) -> Registrations:
    fit = hints_node.NodeResourcesFitHints(objects)
    devices = DynamicResourcesHints(objects)
    return {
        plugin_names.NODE_RESOURCES_FIT: (
            Registered(
                Resource.POD, (Action.DELETE, Action.UPDATE_POD_SCALE_DOWN), fit.after_pod_event
            ),
            Registered(
                Resource.NODE,
                (Action.ADD, Action.UPDATE_NODE_ALLOCATABLE),
                fit.after_node_change,
            ),
            Registered(Resource.DEVICE_CLASS, (Action.ADD, Action.UPDATE), fit.after_device_class),
        ),
        plugin_names.DYNAMIC_RESOURCES: (
            Registered(
                Resource.NODE,
                (Action.ADD, Action.UPDATE_NODE_ALLOCATABLE, Action.UPDATE_NODE_LABEL),
            ),
            Registered(
                Resource.RESOURCE_CLAIM,
                (Action.ADD, Action.UPDATE),
                devices.after_claim_change,
                reads_identity=True,
            ),
            Registered(
                Resource.POD,
                (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,),
                devices.after_own_generated_claim,
            ),
            Registered(Resource.DEVICE_CLASS, (Action.ADD, Action.UPDATE)),
            Registered(Resource.RESOURCE_SLICE, (Action.ADD, Action.UPDATE)),
        ),
    }


def _of_pods(settings: HintSettings) -> Registrations:
    spread = hints_pod.PodTopologySpreadHints(
        has_hard_defaults=settings.has_hard_default_constraints
    )
    return {
        plugin_names.POD_TOPOLOGY_SPREAD: (
            Registered(
                Resource.POD,
                (
                    Action.ADD,
                    Action.DELETE,
                    Action.UPDATE_POD_LABEL,
                    Action.UPDATE_POD_TOLERATION,
                ),
                spread.after_pod_change,
            ),
            Registered(
                Resource.NODE,
                (
                    Action.ADD,
                    Action.DELETE,
                    Action.UPDATE_NODE_LABEL,
                    Action.UPDATE_NODE_TAINT,
                ),
                spread.after_node_change,
            ),
        ),
        plugin_names.INTER_POD_AFFINITY: (
            Registered(
                Resource.POD,
                (Action.ADD, Action.DELETE, Action.UPDATE_POD_LABEL),
                hints_pod.affinity_after_pod_change,
            ),
            Registered(
                Resource.NODE,
                (Action.ADD, Action.UPDATE_NODE_LABEL),
                hints_pod.affinity_after_node_change,
            ),
        ),
    }


def _of_claims_and_limits() -> Registrations:
    return {
        plugin_names.VOLUME_RESTRICTIONS: (
            Registered(Resource.POD, (Action.DELETE,), hints_volume.restrictions_after_pod_deleted),
            Registered(Resource.NODE, (Action.ADD,)),
            Registered(
                Resource.PERSISTENT_VOLUME_CLAIM, (Action.ADD,), hints_volume.after_named_claim
            ),
        ),
        plugin_names.NODE_VOLUME_LIMITS: (
            Registered(Resource.CSI_NODE, (Action.ADD,)),
            Registered(Resource.CSI_NODE, (Action.UPDATE,), hints_volume.limits_after_csi_node),
            Registered(Resource.POD, (Action.DELETE,), hints_volume.limits_after_pod_deleted),
            Registered(
                Resource.PERSISTENT_VOLUME_CLAIM,
                (Action.ADD,),
                hints_volume.after_own_claim,
                reads_identity=True,
            ),
            Registered(
                Resource.VOLUME_ATTACHMENT,
                (Action.DELETE,),
                hints_volume.limits_after_detached,
            ),
        ),
    }


def _of_volumes() -> Registrations:
    return {
        plugin_names.VOLUME_BINDING: (
            Registered(
                Resource.STORAGE_CLASS,
                (Action.ADD, Action.UPDATE),
                hints_volume.binding_after_storage_class,
            ),
            Registered(
                Resource.PERSISTENT_VOLUME_CLAIM,
                (Action.ADD, Action.UPDATE),
                hints_volume.after_own_claim,
                reads_identity=True,
            ),
            Registered(Resource.PERSISTENT_VOLUME, (Action.ADD, Action.UPDATE)),
            Registered(Resource.NODE, (Action.ADD, Action.UPDATE_NODE_LABEL)),
            Registered(
                Resource.CSI_NODE,
                (Action.ADD, Action.UPDATE),
                hints_volume.binding_after_csi_node,
            ),
            Registered(
                Resource.CSI_DRIVER, (Action.UPDATE,), hints_volume.binding_after_csi_driver
            ),
            Registered(
                Resource.CSI_STORAGE_CAPACITY,
                (Action.ADD, Action.UPDATE),
                hints_volume.binding_after_storage_capacity,
            ),
        ),
        plugin_names.VOLUME_ZONE: (
            Registered(
                Resource.STORAGE_CLASS, (Action.ADD,), hints_volume.zone_after_storage_class
            ),
            Registered(Resource.NODE, (Action.ADD, Action.UPDATE_NODE_LABEL)),
            Registered(
                Resource.PERSISTENT_VOLUME_CLAIM,
                (Action.ADD, Action.UPDATE),
                hints_volume.after_named_claim,
            ),
            Registered(
                Resource.PERSISTENT_VOLUME,
                (Action.ADD, Action.UPDATE),
                hints_volume.zone_after_volume,
            ),
        ),
    }
