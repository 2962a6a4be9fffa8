"""YAML of workload files and their templates, which are long."""

from typing import Any, Final

import yaml

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML was built with it: ten times as fast."""


def read_yaml(text: str) -> Any:
    """The document; one of YAML_FAULTS where it is none."""
    return yaml.load(text, _LOADER)  # noqa: S506 # A safe loader, of either make.
