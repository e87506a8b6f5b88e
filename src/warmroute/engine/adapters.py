"""LoRA adapters of one engine: it has room for some and loads the others when they are asked for.

As in vLLM: a sequence whose adapter has no room waits, and those behind it may pass; an adapter that a
running sequence uses stays; of the others the least recently used gives way. A load holds the engine up.
"""

from collections import OrderedDict


class AdapterSlots:
    """The adapters that are loaded.

    Args:
        slots: How many there can be, at least 1.
        load_ps: How long a load takes, in picoseconds.
    """

    __slots__ = ("_idle", "_slots", "_used", "load_ps", "loads")

    def __init__(self, slots: int = 1, load_ps: int = 0) -> None:
        self.load_ps = load_ps
        self.loads = 0
        """Loads so far."""
        self._slots = slots
        self._used: dict[str, int] = {}
        # Least recently used first.
        self._idle: OrderedDict[str, None] = OrderedDict()

    @property
    def loaded(self) -> tuple[str, ...]:
        """Names of all that are loaded, those in use first."""
        return (*self._used, *self._idle)

    def has_room_for(self, name: str) -> bool:
        """Return whether an adapter is loaded or can be without taking one away from a running sequence."""
        return name in self._used or name in self._idle or len(self._used) < self._slots

    def take(self, name: str) -> int:
        """Count one more running sequence with an adapter, for which there must be room.

        Returns:
            How long the engine loads it, in picoseconds.
        """
        assert self.has_room_for(name), "an adapter without room for it"
        if name in self._used:
            self._used[name] += 1
            return 0
        self._used[name] = 1
        if name in self._idle:
            del self._idle[name]
            return 0
        if len(self._used) + len(self._idle) > self._slots:
            self._idle.popitem(last=False)
        self.loads += 1
        return self.load_ps

    def give_back(self, name: str) -> None:
        """Count one running sequence with an adapter less."""
        self._used[name] -= 1
        if not self._used[name]:
            del self._used[name]
            self._idle[name] = None
