"""Steps that take a little longer or shorter than the formula says."""

from random import Random

ONE = 1 << 20
"""A factor of 1: factors are whole numbers of this, so that times stay whole."""
FACTOR_MAX = 64
"""A step takes at most so many times as long, however unlucky the draw."""


class Jitter:
    """Draws factors on the time of steps, lognormally distributed with mean 1.

    Args:
        sigma: Of the logarithm; 0 always gives 1.
        rng: Source of randomness; nothing is drawn with a sigma of 0.
    """

    __slots__ = ("_rng", "_sigma")

    def __init__(self, sigma: float, rng: Random) -> None:
        self._sigma = sigma
        self._rng = rng

    def draw(self) -> int:
        """Return a factor in units of `ONE`, more than 0."""
        if not self._sigma:
            return ONE
        sigma = self._sigma
        factor = self._rng.lognormvariate(-sigma * sigma / 2, sigma)
        return max(1, round(min(factor, FACTOR_MAX) * ONE))


def stretched(ps: int, factor: int) -> int:
    """Return a time multiplied by a factor in units of `ONE`."""
    return ps * factor // ONE
