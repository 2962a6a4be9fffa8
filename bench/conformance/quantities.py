"""The family `quantities`: how Kubernetes reads and writes amounts."""

from typing import Any

from shared.kube import quantity


def differences(line: dict[str, Any]) -> list[str]:
    """What `shared.kube.quantity` makes of one line, where that is not what is expected."""
    text = line["text"]
    try:
        parsed = quantity.parse(text)
    except quantity.QuantityError as error:
        return [] if "error" in line else [f"{text!r}: cannot be read: {error}"]
    if "error" in line:
        return [f"{text!r}: read as {quantity.canonical(parsed)}, expected an error"]
    got = {
        "canonical": quantity.canonical(parsed),
        "value": quantity.value(text),
        "milli_value": quantity.milli_value(text),
        "stored": as_stored(parsed),
    }
    return [
        f"{text!r}.{field}: expected {line[field]!r}, got {value!r}"
        for field, value in got.items()
        if field in line and value != line[field]
    ]


def as_stored(parsed: quantity.ExactQuantity) -> str:
    """What the API server writes back for a stated request or allocatable, which it rounds up."""
    size, rest = divmod(abs(parsed.nanos), quantity.NANOS_PER_MILLI)
    nanos = (size + (rest > 0)) * quantity.NANOS_PER_MILLI
    return quantity.canonical(
        quantity.ExactQuantity(nanos if parsed.nanos > 0 else -nanos, parsed.format)
    )
