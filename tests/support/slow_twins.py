"""What the array functions compute, said again slowly: one node at a time, in plain Python.

Written from upstream's rules and not from those functions, in the order and with the arithmetic of the
Go code (truncating integer division, float64), so that a mistake in one is not in the other.
"""

import math
from collections.abc import Mapping, Sequence

Taint = tuple[str, str, str]
Port = tuple[str, str, int]


def truncated(dividend: int, divisor: int) -> int:
    """Go's integer division."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend >= 0) == (divisor > 0) else -quotient


class Int64(int):
    """Go's int64: sums and products wrap around."""

    def __new__(cls, number: int) -> "Int64":
        return super().__new__(cls, (number + 2**63) % 2**64 - 2**63)

    def __add__(self, other: int) -> "Int64":
        return Int64(int(self) + int(other))

    def __sub__(self, other: int) -> "Int64":
        return Int64(int(self) - int(other))

    def __mul__(self, other: int) -> "Int64":
        return Int64(int(self) * int(other))

    def __rsub__(self, other: int) -> "Int64":
        return Int64(int(other) - int(self))

    __radd__ = __add__
    __rmul__ = __mul__


def int64_of(number: float) -> Int64:
    """Go's int64(float64) on amd64."""
    return Int64(int(number)) if -(2.0**63) <= number < 2.0**63 else Int64(-(2**63))


# Resources ------------------------------------------------------------------------------------------


def fit(
    pod_count: int,
    allowed_pod_count: int,
    amounts: Sequence[int],
    requested: Sequence[int],
    allocatable: Sequence[int],
) -> tuple[list[int], bool]:
    """Positions of the reasons (0: pods, i + 1: resource i), and whether one is beyond the node."""
    reasons: list[int] = []
    unresolvable = False
    if pod_count + 1 > allowed_pod_count:
        reasons.append(0)
    for i, amount in enumerate(amounts):
        if amount > 0 and amount > allocatable[i] - requested[i]:
            reasons.append(i + 1)
            if amount > allocatable[i]:
                unresolvable = True
    return reasons, unresolvable


def least_allocated(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int]
) -> int:
    node_score = weight_sum = 0
    for i in range(len(requested)):
        if capacity[i] == 0:
            continue
        score = 0
        if requested[i] <= capacity[i]:
            score = truncated((capacity[i] - requested[i]) * 100, capacity[i])
        node_score += score * weights[i]
        weight_sum += weights[i]
    return truncated(node_score, weight_sum) if weight_sum else 0


def most_allocated(
    requested: Sequence[int], capacity: Sequence[int], weights: Sequence[int]
) -> int:
    node_score = weight_sum = 0
    for i in range(len(requested)):
        if capacity[i] == 0:
            continue
        used = min(requested[i], capacity[i])
        node_score += truncated(used * 100, capacity[i]) * weights[i]
        weight_sum += weights[i]
    return truncated(node_score, weight_sum) if weight_sum else 0


def broken_line(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    for i in range(len(shape)):
        if utilization <= shape[i][0]:
            if i == 0:
                return shape[0][1]
            (left, low), (right, high) = shape[i - 1], shape[i]
            return low + truncated((high - low) * (utilization - left), right - left)
    return shape[-1][1]


def requested_to_capacity_ratio(
    requested: Sequence[int],
    capacity: Sequence[int],
    weights: Sequence[int],
    shape: Sequence[tuple[int, int]],
) -> int:
    node_score = weight_sum = 0
    for i in range(len(requested)):
        if capacity[i] == 0:
            continue
        if requested[i] > capacity[i]:
            score = broken_line(shape, 100)
        else:
            score = broken_line(shape, truncated(requested[i] * 100, capacity[i]))
        if score > 0:
            node_score += score * weights[i]
            weight_sum += weights[i]
    if weight_sum == 0:
        return 0
    return go_round(float(node_score) / float(weight_sum))


def go_round(number: float) -> int:
    """math.Round: half away from zero."""
    whole = math.floor(abs(number))
    if abs(number) - whole >= 0.5:
        whole += 1
    return int(math.copysign(whole, number))


def balanced(requested: Sequence[int], capacity: Sequence[int]) -> int:
    fractions = []
    total = 0.0
    for i in range(len(requested)):
        if capacity[i] == 0:
            continue
        fraction = float(requested[i]) / float(capacity[i])
        if fraction > 1:
            fraction = 1.0
        total += fraction
        fractions.append(fraction)
    std = 0.0
    if len(fractions) == 2:
        std = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = total / float(len(fractions))
        sum_of_squares = 0.0
        for fraction in fractions:
            sum_of_squares = sum_of_squares + (fraction - mean) * (fraction - mean)
        std = math.sqrt(sum_of_squares / float(len(fractions)))
    return int64_of((1 - std) * 100.0)


def balance_change(used: Sequence[int], amounts: Sequence[int], capacity: Sequence[int]) -> int:
    with_pod = balanced([u + a for u, a in zip(used, amounts, strict=True)], capacity)
    without = balanced(used, capacity)
    return 50 + truncated(50 + with_pod - without, 2)


# Normalising ----------------------------------------------------------------------------------------


def default_normalize(scores: Sequence[int], *, is_reversed: bool) -> list[int]:
    maximum = 0
    for score in scores:
        if score > maximum:
            maximum = score
    if maximum == 0:
        return [100 for _ in scores] if is_reversed else list(scores)
    normalized = []
    for score in scores:
        scaled = truncated(100 * score, maximum)
        normalized.append(100 - scaled if is_reversed else scaled)
    return normalized


# Labels ---------------------------------------------------------------------------------------------


def requirement_holds(
    labels: Mapping[str, str], key: str, operator: str, values: Sequence[str]
) -> bool:
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if key not in labels:
        return False
    number = go_int64(labels[key])
    bound = go_int64(values[0])
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def go_int64(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64): sign and ASCII digits, nothing else."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or any(c not in "0123456789" for c in digits):
        return None
    digits = digits.lstrip("0")[:20] or "0"  # Longer ones are out of range, too.
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if -(2**63) <= number < 2**63 else None


def term_matches(
    name: str,
    labels: Mapping[str, str],
    expressions: Sequence[tuple[str, str, Sequence[str]]],
    fields: Sequence[tuple[str, str]],
) -> bool:
    """`fields` are (operator, node name) pairs; a term with neither matches nothing."""
    if not expressions and not fields:
        return False
    for key, operator, values in expressions:
        if not requirement_holds(labels, key, operator, values):
            return False
    return all((name == wanted) == (operator == "In") for operator, wanted in fields)


# Taints, ports, images ------------------------------------------------------------------------------


def toleration_covers(toleration: Mapping[str, str], taint: Taint) -> bool:
    key, value, effect = taint
    if toleration.get("effect", "") not in ("", effect):
        return False
    if toleration.get("key", "") not in ("", key):
        return False
    operator = toleration.get("operator", "")
    if operator == "Exists":
        return True
    return operator in ("", "Equal") and toleration.get("value", "") == value


def repelling_taint(taints: Sequence[Taint], tolerations: Sequence[Mapping[str, str]]) -> bool:
    for taint in taints:
        if taint[2] not in ("NoSchedule", "NoExecute"):
            continue
        if not any(toleration_covers(t, taint) for t in tolerations):
            return True
    return False


def unwelcome_taints(taints: Sequence[Taint], tolerations: Sequence[Mapping[str, str]]) -> int:
    soft = [t for t in tolerations if t.get("effect", "") in ("", "PreferNoSchedule")]
    count = 0
    for taint in taints:
        if taint[2] == "PreferNoSchedule" and not any(toleration_covers(t, taint) for t in soft):
            count += 1
    return count


def ports_conflict(wanted: Sequence[Port], used: Sequence[Port]) -> bool:
    for ip, protocol, port in wanted:
        for used_ip, used_protocol, used_port in used:
            if (protocol, port) != (used_protocol, used_port):
                continue
            if ip in ("0.0.0.0", used_ip) or used_ip == "0.0.0.0":
                return True
    return False


def image_score(
    pod_images: Sequence[str],
    container_count: int,
    node_images: Sequence[str],
    sizes: Mapping[str, int],
    all_nodes_images: Sequence[Sequence[str]],
) -> int:
    total = Int64(0)
    for image in pod_images:
        if image in node_images:
            spread = float(sum(image in images for images in all_nodes_images))
            spread /= float(len(all_nodes_images))
            total += int64_of(float(sizes[image]) * spread)
    low, high = 23 * 1024 * 1024, 1000 * 1024 * 1024 * container_count
    if total < low:
        total = Int64(low)
    elif total > high:
        total = Int64(high)
    return truncated(100 * (total - low), high - low)
