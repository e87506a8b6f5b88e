from contextlib import contextmanager

import pytest

from warmroute.adapters.store.memory import MemoryStore
from warmroute.controlplane.ports import StoreConflict, StoreUnavailable
from warmroute.controlplane.transactions import run
from warmroute.core import limits


class Contested(MemoryStore):
    """Raises the given errors, one per transaction, at its end."""

    def __init__(self, *errors):
        super().__init__()
        self.errors = list(errors)

    @contextmanager
    def transaction(self):
        with super().transaction() as transaction:
            yield transaction
            if self.errors:
                raise self.errors.pop(0)


def count(transaction):
    number = int(transaction.note("n") or 0) + 1
    transaction.set_note("n", str(number))
    return number


def test_what_the_work_returns_is_returned_and_written_once():
    store = MemoryStore()
    assert [run(store, count), run(store, count)] == [1, 2]


def test_a_conflict_runs_the_whole_work_again_on_what_is_there_then():
    store = Contested(*[StoreConflict("came between")] * (limits.STORE_TRIES_MAX - 1))
    assert run(store, count) == 1
    assert run(store, lambda transaction: transaction.note("n")) == "1"


def test_conflicts_without_end_are_an_error():
    store = Contested(*[StoreConflict("came between")] * limits.STORE_TRIES_MAX)
    with pytest.raises(StoreConflict, match="came between"):
        run(store, count)
    assert run(store, count) == 1


def test_a_store_that_cannot_be_used_is_not_tried_again():
    store = Contested(StoreUnavailable("gone"), AssertionError("a second try"))
    with pytest.raises(StoreUnavailable, match="gone"):
        run(store, count)
    assert len(store.errors) == 1


def test_errors_of_the_work_pass_through():
    with pytest.raises(ZeroDivisionError):
        run(MemoryStore(), lambda transaction: 1 // 0)
