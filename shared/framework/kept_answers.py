"""What a plugin says of every row whatever pod is asked about, of those that can say it apart.

The engine keeps that half (`shared/engine/kept_rows.py`); a plugin without them is asked about each row.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

from shared.columns.rows import RowIndex
from shared.columns.schema import Int64s
from shared.columns.table import NodeTable
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo

if TYPE_CHECKING:
    from shared.plugins.resources.kept_resources import KeptScores


class RoomAsked(NamedTuple):
    """What a pod needs room for on a node, beside being one more."""

    names: Sequence[str]
    amounts: Sequence[int]
    """Above 0."""


@runtime_checkable
class RoomFilter(Protocol):
    """A filter that lets a pod pass where there is room for it, and never rejects it as a whole."""

    NAME: ClassVar[str]

    def room_asked(self, pod: PodInfo, cluster: ClusterView) -> RoomAsked | None:
        """None: for this pod the filter looks at more."""
        ...

    def has_room(self, asked: RoomAsked, nodes: NodeTable, row: int) -> bool: ...


class KeptScore(NamedTuple):
    """What is kept for a score, and where it comes from."""

    scores: "KeptScores"
    names: tuple[str, ...]
    """Of the resources."""
    columns: Callable[[NodeTable, Sequence[str], RowIndex], tuple[list[Int64s], list[Int64s]]]
    """What is used of each, and how much there is."""
    columns_one: Callable[[NodeTable, Sequence[str], int], tuple[list[int], list[int]]]
    """The same of one row."""


@runtime_checkable
class ScoreKeeper(Protocol):
    """A score that depends on requests and on what the node has and has given away, not normalised."""

    NAME: ClassVar[str]

    def keep_score(self) -> KeptScore | None:
        """None: the plugin's arguments ask for more."""
        ...

    def amounts_asked(self, pod: PodInfo) -> Sequence[int] | None:
        """Of the resources in `keep_score`; None where PreScore skips the pod."""
        ...
