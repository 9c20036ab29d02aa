"""Ranges of numbers for their storage in 8 bits, and how far numbers are from others. `minuet quantize` has the same
rules (tools/minuet/library/magnitudes.cc), so that both find the same ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_BINS = 4096
#: The ranges that are tried for the least error are these parts of the largest magnitude.
_TRIED_RANGES = 256

Floats = np.ndarray[Any, np.dtype[np.float32]]


class Magnitudes:
    """Counts the magnitudes of numbers in bins of equal width. The width doubles where a number needs it, so that the
    numbers are read once."""

    def __init__(self) -> None:
        self._bins = np.zeros(_BINS, np.int64)
        self._width = 0.0  # 0 as long as all numbers are 0.
        self._largest = 0.0
        self._count = self._zeros = 0
        self._has_negative = False

    def add(self, values: Floats) -> bool:
        """Adds numbers. Returns False, and adds nothing, if one of them is infinite or NaN."""
        magnitudes = np.abs(values.ravel()).astype(np.float64)
        largest = float(magnitudes.max(initial=0.0))
        if not math.isfinite(largest):
            return False
        self._has_negative |= bool((values < 0).any())
        self._largest = max(self._largest, largest)
        self._width = self._width or largest / _BINS
        while largest > self._width * _BINS:
            self._bins[: _BINS // 2] = self._bins.reshape(-1, 2).sum(1)
            self._bins[_BINS // 2 :] = 0
            self._width *= 2
        magnitudes = magnitudes[magnitudes > 0]
        self._count += values.size
        self._zeros += values.size - magnitudes.size
        places = np.minimum((magnitudes / self._width).astype(np.int64), _BINS - 1)
        self._bins += np.bincount(places, minlength=_BINS)
        return True

    def range(self, calibration: str, percentile: float) -> float:
        """Returns the range, or 0 if all numbers are 0.

        Args:
            calibration: "max", "percentile" or "mse".
            percentile: above 0 and at most 100, for "percentile" alone.
        """
        if self._largest == 0 or calibration == "max":
            return self._largest
        return self._percentile_range(percentile) if calibration == "percentile" else self._least_error_range()

    def _percentile_range(self, percentile: float) -> float:
        """Returns the upper end of the bin at which the wanted part of the numbers is counted."""
        counted = self._zeros + np.cumsum(self._bins)
        # A range of 0 would be none, so that the first number above 0 counts in any case.
        enough = (counted > self._zeros) & (counted >= self._count * percentile / 100)
        return min(self._largest, self._width * (int(enough.argmax()) + 1))

    def _least_error_range(self) -> float:
        tried = [self._largest * part / _TRIED_RANGES for part in range(_TRIED_RANGES, 0, -1)]
        return min(tried, key=self._squared_error)

    def _squared_error(self, range_: float) -> float:
        """Returns the sum of the squared errors of numbers that are stored with this range. A number is taken to lie in
        the middle of its bin, and errors of rounding to be spread evenly."""
        step = range_ / (127 if self._has_negative else 255)
        excess = (np.arange(_BINS) + 0.5) * self._width - range_
        errors = self._bins * np.where(excess > 0, excess * excess, step * step / 12)
        return float(np.cumsum(errors)[-1])  # sum() adds in another order than the tool.


class Difference:
    """Compares numbers with reference numbers, in float64."""

    def __init__(self) -> None:
        self._error = self._reference = self._given = self._product = 0.0
        #: Is false if there were more numbers on one side. Then no number is compared with its own reference.
        self.has_same_size = True

    def add(self, reference: Floats, given: Floats) -> None:
        """Adds numbers to the comparison."""
        self.has_same_size &= reference.size == given.size
        if not self.has_same_size:
            return
        one, other = (values.ravel().astype(np.float64) for values in (reference, given))
        error = other - one
        self._error += float(error @ error)
        self._reference += float(one @ one)
        self._given += float(other @ other)
        self._product += float(one @ other)

    @property
    def relative(self) -> float:
        """The norm of the errors, divided by that of the reference numbers. It is 0 if both are 0, and infinite if only
        the latter is, or if the sizes differ."""
        if not self.has_same_size:
            return math.inf
        if self._error == 0:
            return 0.0
        return math.sqrt(self._error / self._reference) if self._reference else math.inf

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both, or 1 if one of them is 0, or NaN if the sizes differ."""
        if not self.has_same_size:
            return math.nan
        if self._reference == 0 or self._given == 0:
            return 1.0
        return self._product / math.sqrt(self._reference * self._given)
