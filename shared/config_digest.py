"""What of the configuration a scoring worker decides by, as one short text.

A worker of another host reads a configuration file of its own. One that weighs plugins otherwise than
the owner believes would place pods validly and wrongly, and nobody would notice; so it says by which
configuration it works, and the owner compares.
"""

import hashlib

import msgspec

from shared.config import SchedulerConfiguration
from shared.framework.feature_gates import OBEYED, FeatureGates


def scoring_digest(config: SchedulerConfiguration, gates: FeatureGates) -> str:
    """Equal for configurations that come to the same, however they are written."""
    parts = [config.profiles, config.extenders, {gate: gates[gate] for gate in OBEYED}]
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:16]
