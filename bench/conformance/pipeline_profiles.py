"""Many scenarios' configurations in few processes: each becomes one profile of one berth.

A scenario's configuration is a profile, and berth takes any number of profiles, told apart by
schedulerName. So all scenarios with the same feature gates and the same extenders, which profiles have
in common, share a set of processes, and starting processes (a second or so of both cores) is paid a few
times and not some hundred times.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from bench.conformance.scenario import Configuration
from bench.conformance.shapes import weights_of
from shared.config import API_VERSION, KIND, parse_configuration
from shared.errors import ConfigurationError
from shared.feature_gates import FeatureGates
from shared.plugins.in_tree import InTreeRegistry

NEVER_RETRIED_S: Final = 3600
"""Attempts are made when the scenario says so; no pod may be tried again by itself."""

Json = dict[str, Any]
Gates = tuple[tuple[str, bool], ...]
"""Sorted by name."""


class Setting(NamedTuple):
    """What all profiles of a set of processes have in common."""

    gates: Gates = ()
    extenders: str = "[]"
    """As JSON."""


class Profile(NamedTuple):
    """One configuration, under the names by which pods ask for its profiles."""

    scheduler_name: str
    """Of its first profile."""
    setting: Setting
    others: dict[str, str]
    """Of its other profiles, by the name that they have in the scenario."""
    weights: dict[str, int]
    """Of the first profile's scores."""

    def name_for(self, written: str) -> str:
        """What a pod has to ask for that asks for this in the scenario; of no profile there is one of
        the first, as the corpus calls them all alike."""
        return self.others.get(written, self.scheduler_name)


class ProfileBook:
    """The profiles of a whole run."""

    def __init__(self, configurations: Iterable[Configuration]) -> None:
        self._profiles: dict[bytes, Profile | ConfigurationError] = {}
        self._documents: dict[Setting, list[Json]] = {}
        for configuration in configurations:
            key = _key(configuration.config, configuration.feature_gates)
            if key not in self._profiles:
                try:
                    self._profiles[key] = self._made(configuration)
                except ConfigurationError as error:
                    self._profiles[key] = error

    def profile_of(self, config: Json, feature_gates: dict[str, bool]) -> Profile:
        """ConfigurationError where this configuration is not supported."""
        found = self._profiles[_key(config, feature_gates)]
        if isinstance(found, ConfigurationError):
            raise found
        return found

    def document(self, setting: Setting) -> Json:
        """The configuration file of the processes that run so."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "podInitialBackoffSeconds": NEVER_RETRIED_S,
            "podMaxBackoffSeconds": NEVER_RETRIED_S,
            "profiles": self._documents[setting],
            "extenders": msgspec.json.decode(setting.extenders),
        }

    def _made(self, configuration: Configuration) -> Profile:
        gates = tuple(sorted(configuration.feature_gates.items()))
        registry = InTreeRegistry(FeatureGates(configuration.feature_gates))
        others = sorted(configuration.config.keys() - {"profiles", "extenders"})
        if others:
            told = "only profiles and extenders can differ from one scenario to the next here"
            raise ConfigurationError("config", [f"{key}: {told}" for key in others])
        extenders = configuration.config.get("extenders", [])
        setting = Setting(gates, msgspec.json.encode(extenders).decode())
        documents = self._documents.setdefault(setting, [])
        names: dict[str, str] = {}
        weights: list[dict[str, int]] = []
        for written in configuration.config.get("profiles") or [{}]:
            document = {**written, "schedulerName": f"scenario-{len(documents)}"}
            whole = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [document]}
            text = msgspec.json.encode(whole).decode()  # JSON is YAML.
            # Also to hear now what is not possible about it.
            built = registry.build(parse_configuration(text, "config").profiles[0])
            weights.append(weights_of(built.framework))
            documents.append(document)
            names[written.get("schedulerName", "")] = document["schedulerName"]
        first, *others = names
        return Profile(names[first], setting, {name: names[name] for name in others}, weights[0])


def _key(config: Json, feature_gates: dict[str, bool]) -> bytes:
    return msgspec.json.encode([config, feature_gates], order="sorted")
