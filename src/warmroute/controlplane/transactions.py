"""Runs a transaction, again when another one came between."""

from collections.abc import Callable
from typing import TypeVar

from warmroute.controlplane.ports import Store, StoreConflict, Transaction
from warmroute.core import limits

T = TypeVar("T")


def run(store: Store, work: Callable[[Transaction], T]) -> T:
    """Return what ``work`` returns, once its writes are committed.

    Args:
        store: Where.
        work: Reads and writes, and does nothing else that counts: it may be called up to
            ``STORE_TRIES_MAX`` times, and only the last call's writes stay.

    Raises:
        StoreUnavailable: The store cannot be used, or something came between every time.
    """
    for _ in range(limits.STORE_TRIES_MAX - 1):
        try:
            return _once(store, work)
        except StoreConflict:
            continue
    return _once(store, work)


def _once(store: Store, work: Callable[[Transaction], T]) -> T:
    with store.transaction() as transaction:
        return work(transaction)
