"""A value within the model's bounds that is refused all the same."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Meaning:
    """Why a value is refused.

    Attributes:
        operation: Which.
        dotted: The node, or the end of it.
        text: What the error's message holds.
        applies: To which values.
        code: Of the error.
    """

    operation: str
    dotted: str
    text: str
    applies: Callable[[Any], bool] = lambda value: True
    code: str = "ValidationException"


def is_not(*allowed):
    """Return a test for every value but these."""
    return lambda value: value not in allowed
