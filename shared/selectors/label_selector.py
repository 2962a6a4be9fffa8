"""Label selectors of pods and namespaces: parsed once, matched against the labels of one object.

Nodes are selected by columns (`node_selector.py`); pods share few distinct classes, so a selector
is matched once against each class, in plain Python.

Rules: `LabelSelectorAsSelector` in staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go and
pkg/labels/selector.go, v1.36. An absent selector selects nothing, an empty one everything.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from shared.errors import OperationalError, as_one_error
from shared.kube.api.meta_v1 import LabelSelector, LabelSelectorRequirement
from shared.selectors.requirement import (
    OPERATORS,
    Requirement,
    equal_to,
    key_problems,
    read_requirement,
    value_problems,
)

Labels = Mapping[str, str]
Need = tuple[str, str | None]
"""A label, and the value that it has; None: any."""

NEEDS_MAX: Final = 16
"""From more values on, of which a label has one, any will do."""
_OPERATORS: Final = OPERATORS[:4]
"""Labels of nodes alone are compared as numbers."""


class SelectorError(OperationalError):
    """A selector that the API server would not have let in."""


class Selector(NamedTuple):
    """All of it must hold."""

    requirements: tuple[Requirement, ...]
    selects_nothing: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything for lack of any condition (`Selector.Empty` upstream)."""
        return not self.requirements and not self.selects_nothing

    @property
    def needs(self) -> tuple[Need, ...] | None:
        """Whatever it selects has one of these; None where that may have any labels."""
        if self.selects_nothing:
            return ()
        for key, values, is_wanted, _ in self.requirements:
            if is_wanted:
                is_any = values is None or len(values) > NEEDS_MAX
                return ((key, None),) if is_any else tuple((key, value) for value in values or ())
        return None

    def matches(self, labels: Labels) -> bool:
        if self.selects_nothing:
            return False
        for each in self.requirements:  # noqa: SIM110  # Of each class of pods; a generator costs as much.
            if not each.holds(labels.get(each.key)):
                return False
        return True

    def and_equal(self, labels: Labels) -> "Selector":
        return Selector((*equal_to(labels), *self.requirements), self.selects_nothing)

    def and_selector(self, other: "Selector") -> "Selector":
        """Both sets of conditions; of one that selects nothing there are none."""
        if other.selects_nothing:
            return self
        return Selector((*self.requirements, *other.requirements), self.selects_nothing)


NOTHING: Final = Selector((), selects_nothing=True)
EVERYTHING: Final = Selector(())


def parse_label_selector(selector: LabelSelector | None) -> Selector:
    """Raises SelectorError for an operator that does not exist, values that do not suit it, or what
    cannot be a key or a value."""
    if selector is None:
        return NOTHING
    labels = selector.match_labels or {}
    for key, value in labels.items():
        problems = key_problems(key) + value_problems(key, (value,))
        if problems:
            raise SelectorError(as_one_error(problems))
    return Selector((*equal_to(labels), *map(_requirement, selector.match_expressions or ())))


def _requirement(expression: LabelSelectorRequirement) -> Requirement:
    if expression.operator not in _OPERATORS:
        raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
    # Upstream hands on a copy of the values, and a copy of none is no list.
    found = read_requirement(replace(expression, values=expression.values or None))
    if isinstance(found, list):
        raise SelectorError(as_one_error(found))
    if found.values is None:
        return found
    # Of thousands, and asked for each class of pods.
    return found._replace(values=frozenset(found.values))


Item = TypeVar("Item")


class SelectorIndex(Generic[Item]):
    """What brings a selector, or several, by a label that those whom it selects must have: who comes
    asks for those that may mean it, and is held against no other of what are thousands at times."""

    __slots__ = ("_by_need", "_of_anybody")

    def __init__(self) -> None:
        self._by_need: dict[Need, list[Item]] = {}
        self._of_anybody: list[Item] = []

    def add(self, selector: Selector, item: Item) -> None:
        """The item is about those whom the selector selects."""
        needs = selector.needs
        if needs is None:
            self._of_anybody.append(item)
            return
        for need in needs:
            self._by_need.setdefault(need, []).append(item)

    def about(self, labels: Labels) -> Iterator[Item]:
        """Those that may select these labels; as often as they were added for that."""
        yield from self._of_anybody
        if self._by_need:
            for key, value in labels.items():
                yield from self._by_need.get((key, value), ())
                yield from self._by_need.get((key, None), ())
