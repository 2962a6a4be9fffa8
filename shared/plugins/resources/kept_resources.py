"""Fit and resource scores of all rows at once, where every pod asks for another amount.

What a row adds to an answer is the same whatever the pod: it is worked out when the row changes, and
kept, for scores in float columns. A pod then costs some ten operations a score on numbers that lie side
by side, and no division of integers, which takes numpy several times as long.

The scores are those of `resources`, not nearly so. Whole numbers below 2^53 are exact as float64, and
so is the floor of a quotient a / b of such numbers if a + b < 2^53: just below the next whole number
q + 1 floats are at most (q + 1) / 2^52 apart, so a / b, which is at most q + 1 - 1 / b, is rounded up to
q + 1 only if b (q + 1) >= 2^53, but b (q + 1) <= a + b. Rows of which this is not known, and those that
lack one of the resources, are left out.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from shared.columns.rows import RowIndex
from shared.columns.schema import BASE_RESOURCES, Bools, Int64s, wrap_int64
from shared.columns.table import NodeTable
from shared.framework.normalize import SCORE_MAX
from shared.kube.api.meta_v1 import INT64_MAX
from shared.plugins.resources.one_node import balance_of_node
from shared.plugins.resources.resource_arrays import BLOCK, Columns, Floats, balance_of_two

AMOUNT_MAX: Final = ((1 << 53) - 1) // (SCORE_MAX + 1)
"""A hundred times as much, and as much again, is below 2^53. In bytes, 80 TiB."""
_EVEN: Final = SCORE_MAX + SCORE_MAX // 2


class KeptRoom:
    """Where there is room for one more pod and what it asks for (`resources.fit_reasons`)."""

    def __init__(self) -> None:
        self.reserve(0)

    def reserve(self, capacity: int) -> None:
        """Makes room for so many rows, which have to be written anew."""
        self._room: Int64s = np.zeros((1 + len(BASE_RESOURCES), capacity), np.int64)
        """For pods, and of each resource that every table has."""
        self._least = [0] * len(self._room)
        """No row has less."""

    def write(self, nodes: NodeTable, index: RowIndex) -> None:
        """Rows look like this now. Those without a node are in nobody's way."""
        count = len(BASE_RESOURCES)
        room = np.empty((1 + count, len(nodes.present[index])), np.int64)
        room[0] = nodes.allowed_pod_count[index] - nodes.pod_count[index]
        room[1:] = nodes.allocatable[:count, index] - nodes.requested[:count, index]
        room[:, ~nodes.present[index]] = INT64_MAX
        self._room[:, index] = room
        self._least = list(map(min, self._least, room.min(axis=1, initial=INT64_MAX).tolist()))

    def write_one(self, nodes: NodeTable, row: int) -> None:
        """`write` of one row."""
        if not nodes.present.item(row):
            self._room[:, row] = INT64_MAX
            return
        left = [
            nodes.allowed_pod_count.item(row) - nodes.pod_count.item(row),
            *[
                nodes.allocatable.item(resource, row) - nodes.requested.item(resource, row)
                for resource in range(len(BASE_RESOURCES))
            ],
        ]
        for line, amount in enumerate(map(wrap_int64, left)):
            if amount < self._least[line]:
                self._least[line] = amount
            self._room[line, row] = amount

    def passing(
        self, nodes: NodeTable, names: Sequence[str], amounts: Sequence[int], count: int
    ) -> Bools | None:
        """Of the first `count` rows, those that take a pod that asks for these amounts; None: all."""
        passes = self._with_room(0, 1, count)
        for name, amount in zip(names, amounts, strict=True):
            resource = nodes.resources.find(name)
            if 0 <= resource < len(BASE_RESOURCES):
                fits = self._with_room(1 + resource, amount, count)
            elif resource < 0:
                fits = np.full(count, amount <= 0)
            else:
                rows = slice(0, count)
                fits = nodes.allocatable[resource, rows] - nodes.requested[resource, rows] >= amount
            if fits is not None:
                passes = fits if passes is None else passes & fits
        return passes

    def _with_room(self, line: int, amount: int, count: int) -> Bools | None:
        if self._least[line] >= amount:
            return None
        room = self._room[line, :count]
        fits: Bools = room >= amount
        if not fits.all():
            return fits
        self._least[line] = int(room.min(initial=INT64_MAX))
        return None


class KeptScores:
    """Columns by resource, one number a row."""

    is_nonzero: ClassVar[bool] = False
    """As in `requested_and_allocatable`, from which it comes."""

    def __init__(self, names: Sequence[str], weights: Sequence[int]) -> None:
        """`names` of the resources."""
        self.names = names
        self._weights = weights
        self.reserve(0)

    def reserve(self, capacity: int) -> None:
        """Makes room for so many rows, which have to be written anew."""
        shape = (len(self.names), capacity)
        self.left_out: Bools = np.zeros(capacity, np.bool_)
        """Shape (rows,): what is said of the row has no meaning."""
        self.has_left_out = False
        """There was such a row."""
        self._sizes: Floats = np.ones(shape)
        self._amounts: Floats = np.zeros(shape)
        self._least_free: list[float] = [math.inf] * len(self.names)
        """No row has less of the resource that is not used."""
        self._share: Floats = np.empty(min(capacity, BLOCK))
        self._other: Floats = np.empty(min(capacity, BLOCK))

    def write(self, index: RowIndex, used: Columns, sizes: Columns) -> None:
        """Rows look like this now, without the pod."""
        amounts, capacities = np.array(used), np.array(sizes)
        is_out = (amounts < 0) | (amounts > AMOUNT_MAX)
        is_out |= (capacities <= 0) | (capacities > AMOUNT_MAX)
        out = is_out.any(axis=0)
        self.left_out[index] = out
        self.has_left_out |= bool(out.any())
        taken, whole = np.where(out, 0.0, amounts), np.where(out, 1.0, capacities)
        least = (whole - taken).min(axis=1, initial=math.inf).tolist()
        self._least_free = list(map(min, self._least_free, least))
        self._sizes[:, index] = whole
        self._keep(index, taken, whole)

    def write_one(self, row: int, used: Sequence[int], sizes: Sequence[int]) -> None:
        """`write` of one row."""
        is_out = False
        for i, (amount, size) in enumerate(zip(used, sizes, strict=True)):
            if not (0 <= amount <= AMOUNT_MAX and 0 < size <= AMOUNT_MAX):
                is_out = True
            if size - amount < self._least_free[i]:
                self._least_free[i] = size - amount
            self._sizes[i, row] = size
        self.left_out[row] = is_out
        if is_out:
            self.has_left_out = True
            used, sizes = (0,) * len(used), (1,) * len(sizes)
            self._sizes[:, row] = 1.0
        self._keep_one(row, used, sizes)

    def rated(self, amounts: Sequence[int], rows: slice) -> Floats:
        """With a pod that asks for these amounts, none of which is above AMOUNT_MAX. At most BLOCK rows;
        valid until the next call."""
        raise NotImplementedError

    def _keep(self, index: RowIndex, used: Floats, sizes: Floats) -> None:
        """Of rows that are not left out, or 0 used of 1."""
        raise NotImplementedError

    def _keep_one(self, row: int, used: Sequence[int], sizes: Sequence[int]) -> None:
        """`_keep` of one row."""
        raise NotImplementedError


class KeptLeastAllocated(KeptScores):
    """`resources.least_allocated`. Of each resource what is free, times 100, is kept: negative where
    the node is overcommitted."""

    is_nonzero: ClassVar[bool] = True

    def rated(self, amounts: Sequence[int], rows: slice) -> Floats:
        count = rows.stop - rows.start
        total = self._shares(0, amounts[0], self._share[:count], rows)
        for i in range(1, len(amounts)):
            total += self._shares(i, amounts[i], self._other[:count], rows)
        total /= sum(self._weights)
        return np.floor(total, out=total)

    def _shares(self, resource: int, amount: int, out: Floats, rows: slice) -> Floats:
        """How much is free of one resource, in hundredths, times its weight."""
        np.subtract(self._amounts[resource, rows], float(amount * SCORE_MAX), out=out)
        if self._least_free[resource] < amount:
            np.maximum(out, 0.0, out=out)
        out /= self._sizes[resource, rows]
        np.floor(out, out=out)
        if self._weights[resource] != 1:
            out *= self._weights[resource]
        return out

    def _keep(self, index: RowIndex, used: Floats, sizes: Floats) -> None:
        self._amounts[:, index] = (sizes - used) * SCORE_MAX

    def _keep_one(self, row: int, used: Sequence[int], sizes: Sequence[int]) -> None:
        for i, (amount, size) in enumerate(zip(used, sizes, strict=True)):
            self._amounts[i, row] = (size - amount) * SCORE_MAX


class KeptBalance(KeptScores):
    """`resources.balance_change` of two resources. What is used is kept, and how well balanced the
    node is without the pod."""

    def reserve(self, capacity: int) -> None:
        super().reserve(capacity)
        self._unbalanced: Floats = np.zeros(capacity)
        """How well balanced the node is, taken from 150: half of the sum of that and of how well it
        would be is the score."""

    def rated(self, amounts: Sequence[int], rows: slice) -> Floats:
        count = rows.stop - rows.start
        share, other = self._share[:count], self._other[:count]
        for i, shares in enumerate((share, other)):
            np.add(self._amounts[i, rows], float(amounts[i]), out=shares)
            shares /= self._sizes[i, rows]
            if self._least_free[i] < amounts[i]:
                np.minimum(shares, 1.0, out=shares)
        change = balance_of_two(share, other)
        change += self._unbalanced[rows]
        change *= 0.5
        return np.floor(change, out=change)

    def _keep(self, index: RowIndex, used: Floats, sizes: Floats) -> None:
        self._amounts[:, index] = used
        shares = np.minimum(used / sizes, 1.0)
        self._unbalanced[index] = _EVEN - balance_of_two(shares[0], shares[1])

    def _keep_one(self, row: int, used: Sequence[int], sizes: Sequence[int]) -> None:
        self._amounts[0, row], self._amounts[1, row] = used
        self._unbalanced[row] = _EVEN - balance_of_node(used, sizes)
