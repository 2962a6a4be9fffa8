"""Which kinds of objects changed since a moment, for whoever keeps what depends on some of them."""

from shared.framework.cluster_view import ObjectStore


def kinds_changed(objects: ObjectStore, version: int) -> frozenset[str] | None:
    """Kinds of which an object changed after `version`; None: nobody remembers."""
    changes = objects.changes_since(version)
    return None if changes is None else frozenset(kind for kind, _ in changes)


def has_say(changed: frozenset[str] | None, read: frozenset[str] | None) -> bool:
    """Whether some kind of object both changed and is read."""
    if changed is None or read is None:
        return read is None or bool(read)
    return bool(changed & read)
