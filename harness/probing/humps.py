"""Whether samples come from two things rather than one: a valley between two peaks of their density."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST = 100  # samples below which nothing is said
BIN = 0.05  # of the logarithm: what differs by less is one thing to us
MOST_BINS = 400
LEAST_SHARE = 0.05  # of the samples on either side of the valley
DEPTH = 0.6  # of the lower peak that the valley may reach
SURE = 3.5  # standard errors by which the valley must lie below the lower peak
TAIL = 0.005  # at either end that is not looked at


def ratio(samples: NDArray[np.float64]) -> float | None:
    """How many times the slower hump's median is the faster one's; None where there is one hump.

    The logarithms are counted in bins, three neighbours added up. Of all bins with at least a twentieth of the samples on
    either side, the one is taken that lies furthest below the lower of the highest counts to its left and right, measured
    by the scatter of counts. That must be more than chance, and the valley well below the lower peak. A long
    tail has no second peak, however heavy it is.
    """
    x = np.log(samples[samples > 0])
    if len(x) < FEWEST:
        return None
    low, high = np.quantile(x, (TAIL, 1 - TAIL))
    count = int(min(np.ceil((high - low) / BIN), MOST_BINS))
    if count < 3:
        return None
    kept = x[(x >= low) & (x <= high)]
    bins, edges = np.histogram(kept, count, (low, high))
    smooth = np.convolve(bins, np.ones(3), mode="same")
    lower = np.minimum(np.maximum.accumulate(smooth), np.maximum.accumulate(smooth[::-1])[::-1])
    share = (np.cumsum(bins) - bins / 2) / len(kept)
    possible = (share >= LEAST_SHARE) & (share <= 1 - LEAST_SHARE) & (smooth <= DEPTH * lower)
    sure = np.where(possible, (lower - smooth) / np.sqrt(np.maximum(lower + smooth, 1)), 0.0)
    place = int(np.argmax(sure))
    if sure[place] < SURE:
        return None
    valley = (edges[place] + edges[place + 1]) / 2
    return float(np.exp(np.median(kept[kept > valley]) - np.median(kept[kept <= valley])))
