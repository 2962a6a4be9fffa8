"""DefaultBinder: binds a pod by creating its `binding` subresource. The request itself is the binder
process's; here stands only that this profile binds that way.

Rule: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go, v1.36.2.
"""

from typing import ClassVar

from shared.plugin_names import DEFAULT_BINDER


class DefaultBinder:
    """Never skips: a profile without another binder uses it for every pod."""

    NAME: ClassVar[str] = DEFAULT_BINDER
    reads_labels: ClassVar[frozenset[str]] = frozenset()

    def binder_name(self) -> str:
        """Under which the binder processes know the way of binding."""
        return self.NAME
