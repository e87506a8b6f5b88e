"""Rendezvous (highest random weight) order of targets for a key.

Every router process, on any machine and after any restart, computes the same order without state;
a target that joins or leaves moves only the keys it wins or won.

Source: Thaler and Ravishankar, "A name-based mapping scheme for rendezvous" (1996). The weight is
xxh3-64 of the target's name, seeded with the key: part of key version 1, never changed silently.
"""

from collections.abc import Sequence

from xxhash import xxh3_64_intdigest


def weights(key: int, names: Sequence[bytes]) -> list[int]:
    """Return each target's weight for a key.

    Args:
        key: 64-bit routing key.
        names: Target names.

    Returns:
        One 64-bit weight per name, in the names' order.

    Cost:
        About 0.2 µs per name.
    """
    return [xxh3_64_intdigest(name, key) for name in names]


def order(weights_of_names: Sequence[int]) -> list[int]:
    """Return the positions of the names from the highest weight to the lowest.

    Equal weights (one in 2**64) keep the order of the names.
    """
    return sorted(range(len(weights_of_names)), key=weights_of_names.__getitem__, reverse=True)
