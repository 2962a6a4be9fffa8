"""One condition on one label, as selectors of nodes and of pods have it: read, and asked of a value.

Rules: NewRequirement and `Requirement.Matches` in apimachinery's pkg/labels/selector.go, and the texts
of pkg/util/validation/field/errors.go there, v1.36.2.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from shared.kube.api.meta_v1 import INT64_MAX, LabelSelectorRequirement
from shared.kube.resource_names import QUALIFIED_NAME

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
LABEL_VALUE_LENGTH_MAX: Final = 63
LABEL_VALUE: Final = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
NO_LABEL_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    "(e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{LABEL_VALUE}')"
)
_LABEL_VALUE: Final = re.compile(LABEL_VALUE, re.ASCII)
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)
"""More digits are beyond 64 bits, and thousands of them Python refuses to read."""
_HTML: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
"""What Go's encoding/json escapes beside what it has to."""


class Requirement(NamedTuple):
    key: str
    values: Collection[str] | None
    """None: any value."""
    is_wanted: bool = True
    """False turns it round: NotIn, DoesNotExist."""
    numbers: range | None = None
    """Of Gt and Lt: the value is one of these."""

    def holds(self, value: str | None) -> bool:
        """Of who has this value; None: has no such label."""
        if value is None:
            return not self.is_wanted
        if self.numbers is not None:
            number = parse_int64(value)
            return number is not None and number in self.numbers
        return (self.values is None or value in self.values) is self.is_wanted


def equal_to(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """All of these labels are there, with these values."""
    return tuple(Requirement(key, (value,)) for key, value in labels.items())


def read_requirement(stated: LabelSelectorRequirement) -> Requirement | list[str]:
    """The requirement, or all that is wrong with it, each with its path."""
    operator, values = stated.operator, stated.values or []
    if operator not in OPERATORS:
        return [unsupported(operator, OPERATORS)]
    problems = key_problems(stated.key)
    is_number = operator in ("Gt", "Lt")
    if is_number:
        is_wrong, told = len(values) != 1, "for 'Gt', 'Lt' operators, exactly one value is required"
    elif operator in ("In", "NotIn"):
        is_wrong, told = not values, "for 'in', 'notin' operators, values set can't be empty"
    else:
        is_wrong, told = bool(values), "values set must be empty for exists and does not exist"
    if is_wrong:
        problems.append(invalid("values", stated.values, told))
    if is_number:
        told = "for 'Gt', 'Lt' operators, the value must be an integer"
        problems += (
            invalid(f"values[{i}]", value, told)
            for i, value in enumerate(values)
            if parse_int64(value) is None
        )
    problems += value_problems(stated.key, values)
    if problems:
        return problems
    is_wanted = operator not in ("NotIn", "DoesNotExist")
    match operator:
        case "Gt":
            return Requirement(stated.key, None, numbers=range(int(values[0]) + 1, INT64_MAX + 1))
        case "Lt":
            return Requirement(stated.key, None, numbers=range(-INT64_MAX - 1, int(values[0])))
        case _:
            return Requirement(stated.key, tuple(values) or None, is_wanted)


def key_problems(key: str) -> list[str]:
    """What keeps it from being the key of a label. Not in upstream's words, as the API server lets in
    none of these."""
    is_one = QUALIFIED_NAME.fullmatch(key) is not None
    return [] if is_one else [invalid("key", key, "cannot be the key of a label")]


def value_problems(key: str, values: Collection[str]) -> list[str]:
    """What keeps them from being values of the label."""
    problems = []
    for i, value in enumerate(values):
        is_long = len(value.encode()) > LABEL_VALUE_LENGTH_MAX
        wrong = [f"must be no more than {LABEL_VALUE_LENGTH_MAX} bytes"] if is_long else []
        if _LABEL_VALUE.fullmatch(value) is None:
            wrong.append(NO_LABEL_VALUE)
        if wrong:
            problems.append(invalid(f"values[{i}][{key}]", value, "; ".join(wrong)))
    return problems


def invalid(path: str, value: str | list[str] | None, told: str) -> str:
    """A field's error. Values are shown as JSON, a single one as Go's %q shows letters that can be
    printed."""
    shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not isinstance(value, str):
        shown = shown.translate(_HTML)
    return f"{path}: Invalid value: {shown}: {told}"


def unsupported(operator: str, supported: Collection[str]) -> str:
    """An operator's error."""
    shown = json.dumps(operator, ensure_ascii=False).translate(_HTML)
    known = ", ".join(f'"{each}"' for each in supported)
    return f"operator: Unsupported value: {shown}: supported values: {known}"


def parse_int64(text: str) -> int | None:
    """As Go's strconv.ParseInt(text, 10, 64); None where that fails."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None
