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
        "stored": quantity.canonical(quantity.rounded_up_to_milli(parsed)),
    }
    return [
        f"{text!r}.{field}: expected {line[field]!r}, got {value!r}"
        for field, value in got.items()
        if field in line and value != line[field]
    ]
