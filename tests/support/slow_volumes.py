"""What arrays tell of volumes, said again slowly: one node, one volume, one pod at a time.

Written from upstream's rules, as `slow_twins.py` is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Affinity = Sequence[tuple[str, Sequence[str]]] | None
"""Alternatives, each "label in values"; None: anywhere."""


@dataclass
class SlowVolume:
    name: str
    size: int
    affinity: Affinity = None
    claim: str = ""
    """The claim that has it; empty: none."""
    mode: str = "Filesystem"
    access_modes: tuple[str, ...] = ("ReadWriteOnce",)
    labels: Mapping[str, str] = field(default_factory=dict)
    is_available: bool = True
    is_deleted: bool = False


@dataclass
class SlowClaim:
    name: str
    size: int
    mode: str = "Filesystem"
    access_modes: tuple[str, ...] = ("ReadWriteOnce",)
    selector: Mapping[str, str] | None = None


def reaches(affinity: Affinity, labels: Mapping[str, str]) -> bool:
    if affinity is None:
        return True
    return any(labels.get(key) in values for key, values in affinity)


def find_volume(
    claim: SlowClaim,
    volumes: Sequence[SlowVolume],
    labels: Mapping[str, str],
    excluded: Sequence[str],
) -> str | None:
    """FindMatchingVolume: the name of the volume that the claim gets on a node with these labels."""
    smallest: SlowVolume | None = None
    for volume in volumes:
        if volume.name in excluded:
            continue
        if volume.claim and volume.claim != claim.name:
            continue
        if volume.size < claim.size or volume.mode != claim.mode or volume.is_deleted:
            continue
        is_within_reach = reaches(volume.affinity, labels)
        if volume.claim == claim.name:
            return volume.name if is_within_reach else None
        if not volume.is_available or not is_within_reach:
            continue
        if claim.selector is not None and any(
            volume.labels.get(key) != value for key, value in claim.selector.items()
        ):
            continue
        if not set(claim.access_modes) <= set(volume.access_modes):
            continue
        if smallest is None or smallest.size > volume.size:
            smallest = volume
    return None if smallest is None else smallest.name


def find_volumes(
    claims: Sequence[SlowClaim], volumes: Sequence[SlowVolume], labels: Mapping[str, str]
) -> list[str | None]:
    """One claim after the other, none getting what another has."""
    chosen: list[str | None] = []
    for claim in claims:
        excluded = [name for name in chosen if name is not None]
        chosen.append(find_volume(claim, volumes, labels, excluded))
    return chosen


def zones_fit(volume_labels: Sequence[Mapping[str, str]], node: Mapping[str, str]) -> bool:
    """VolumeZone for the bound volumes of a pod."""
    general = {
        "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    }
    keys = [*general, *general.values()]
    if not any(key in node for key in keys):
        return True
    for labels in volume_labels:
        for key in keys:
            if key not in labels:
                continue
            zones = [zone.strip() for zone in labels[key].split("__")]
            if "" in zones:
                continue
            value = node.get(key)
            if value is None:
                value = node.get(general.get(key, key))
            if value is None or value not in zones:
                return False
    return True


def exceeds_limit(
    new: Sequence[tuple[str, str]],
    pods: Sequence[Sequence[tuple[str, str]]],
    attached: Sequence[tuple[str, str]],
    limits: Mapping[str, int],
) -> bool:
    """NodeVolumeLimits on one node; volumes are (driver, handle)."""
    in_use = {volume for pod in pods for volume in pod}
    wanted = {volume for volume in new if volume not in in_use}
    for driver, limit in limits.items():
        count = len({volume for volume in wanted if volume[0] == driver})
        if not count:
            continue
        there = len({volume for volume in in_use | set(attached) if volume[0] == driver})
        if there + count > limit:
            return True
    return False
