"""Where the answer to an invocation stands."""

from enum import Enum, auto


class Stage(Enum):
    """Where the answer stands."""

    WAITING = auto()
    """No byte yet."""
    WHOLE = auto()
    """A short plain answer, kept until it is complete."""
    ERROR = auto()
    """The instance's error answer, kept to be told in the caller's dialect."""
    FIRST_EVENT = auto()
    """A stream whose first event decides whether it is one."""
    RELAY = auto()
    """Head sent; pieces go through as they come."""
    OVER = auto()
