"""Leases for one LoRA adapter on one target."""


class AdapterCount:
    """Leases for one adapter on one target.

    Attributes:
        in_flight: Open ones.
        taken: All there ever were, of the present generation.
    """

    __slots__ = ("in_flight", "taken")

    def __init__(self) -> None:
        self.in_flight = 0
        self.taken = 0
