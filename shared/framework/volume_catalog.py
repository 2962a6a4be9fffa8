"""VolumeCatalog: persistent volumes by storage class, ready to be matched with claims.

Kept with the view and brought up to date by the store's changes: a cluster has tens of thousands of
volumes, and the next pod finds all but a few of them as the last one did. Holds the latest of each
volume, what is assumed of it included. A volume whose capacity cannot be read is left out.
"""

from typing import Final

from shared.errors import ObjectError
from shared.framework.cluster_view import ClusterView
from shared.kernels.volumes import Candidate, candidate, volume_class

VOLUMES: Final = "persistentvolumes"
_KEY: Final = "volume catalog"


class VolumeCatalog:
    """See the module."""

    def __init__(self, cluster: ClusterView) -> None:
        self._objects = cluster.objects
        self._version = -1
        self._by_class: dict[str, dict[str, Candidate]] = {}
        self._class_of: dict[str, str] = {}
        self._lists: dict[str, tuple[Candidate, ...]] = {}
        """By class; made when asked for."""

    def candidates(self, class_name: str) -> tuple[Candidate, ...]:
        """The volumes of a storage class, in the order in which they came."""
        found = self._lists.get(class_name)
        if found is None:
            found = self._lists[class_name] = tuple(self._by_class.get(class_name, {}).values())
        return found

    def catch_up(self) -> None:
        """Brings the catalog to the store's present state."""
        changed = self._objects.changes_since(self._version) if self._version >= 0 else None
        if changed is None:
            self._by_class.clear()
            self._class_of.clear()
            self._lists.clear()
            for name in self._objects.all(VOLUMES):
                self._read(name)
        else:
            for name in dict.fromkeys(key for kind, key in changed if kind == VOLUMES):
                self._read(name)
        self._version = self._objects.version

    def _read(self, name: str) -> None:
        volume = self._objects.latest(VOLUMES, name)
        before = self._class_of.get(name)
        try:
            found = None if volume is None else candidate(volume)
        except ObjectError:
            found = None
        now = None if found is None else volume_class(found.volume)
        if before is not None:
            self._lists.pop(before, None)
            if before != now:
                del self._by_class[before][name], self._class_of[name]
        if found is not None and now is not None:
            self._lists.pop(now, None)
            self._class_of[name] = now
            self._by_class.setdefault(now, {})[name] = found


def volume_catalog(cluster: ClusterView) -> VolumeCatalog:
    """The view's catalog, up to date."""
    catalog = cluster.kept.get(_KEY)
    if catalog is None:
        catalog = cluster.kept[_KEY] = VolumeCatalog(cluster)
    assert isinstance(catalog, VolumeCatalog), "kept under another's name"
    catalog.catch_up()
    return catalog
