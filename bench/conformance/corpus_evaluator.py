"""The seam between the corpus and whatever is being tested: the engine alone, or the pipeline."""

from typing import Any, Final, NamedTuple, Protocol

from bench.conformance.scenario import Scenario


class Unseen:
    """Stands for a field that is there, but that this evaluator cannot see in this decision."""

    def __repr__(self) -> str:
        return "something unseen"


UNSEEN: Final = Unseen()


class Outcome(NamedTuple):
    """What was decided, in the shape of the corpus' `expected`."""

    decisions: list[dict[str, Any]]
    """Fields that an evaluator cannot see are absent from each; `observes` says which those are."""
    nodes: dict[str, dict[str, Any]]
    weights: dict[str, int]


class Evaluator(Protocol):
    """Decides a scenario."""

    asks_extenders: bool
    """False: scenarios with extenders are counted as left out."""
    observes: frozenset[str]
    """The fields of a decision that this evaluator can tell; others are counted as left out."""

    def run(self, scenario: Scenario, *, is_compact: bool) -> Outcome:
        """Decides all attempts; `is_compact` asks for result, node, count, total and message only.

        Raises ConfigurationError where the scenario's configuration is not supported.
        """
        ...
