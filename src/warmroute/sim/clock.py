"""Virtual time: what happens when, in one order whatever the process."""

from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


class Agenda(Generic[T]):
    """Things to come, by their times in nanoseconds; those of one time in the order they were added."""

    __slots__ = ("_count", "_heap", "now_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self._heap: list[tuple[int, int, T]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, at_ns: int, what: T) -> None:
        """Note something for a time that is not past."""
        assert at_ns >= self.now_ns, f"an event for {at_ns} ns at {self.now_ns} ns"
        heappush(self._heap, (at_ns, self._count, what))
        self._count += 1

    def next(self) -> T:
        """Let time go on to the next thing, of at least one, and return it."""
        self.now_ns, _, what = heappop(self._heap)
        return what

    @property
    def more_now(self) -> bool:
        """Whether something else is to happen at the present time."""
        return bool(self._heap) and self._heap[0][0] == self.now_ns
