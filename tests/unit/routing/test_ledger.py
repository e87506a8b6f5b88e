import pytest

from warmroute.core.events import FailureCause
from warmroute.core.fleet import Target, TargetState
from warmroute.core.ids import InstanceId, TargetId
from warmroute.routing.ledger import Ledger, TargetRow

BOOK = object()


def target(generation=1, *, name="1", state=TargetState.IN_SERVICE, port=80, adapters=()):
    return Target(TargetId(name), InstanceId(name), generation, "host", port, state=state, adapters=adapters)


def test_a_row_starts_idle_healthy_and_present():
    row = TargetRow(target(name="i-é"))
    assert (row.name, row.in_flight, row.gone) == ("i-é".encode(), 0, False)
    assert not row.health.ejected


def test_a_lease_reserves_a_place_on_the_present_generation():
    ledger, row = Ledger(), TargetRow(target(3))
    lease = ledger.take(row, BOOK)
    assert (lease.target, lease.generation, lease.book, lease.released) == (row.target, 3, BOOK, False)
    assert (row.in_flight, ledger.open_leases) == (1, 1)


def test_a_released_lease_frees_its_place():
    ledger, row = Ledger(), TargetRow(target())
    lease = ledger.take(row, BOOK)
    assert ledger.release(lease, row)
    assert lease.released
    assert (row.in_flight, ledger.open_leases, ledger.void_releases) == (0, 0, 0)


def test_leases_may_be_released_in_any_order():
    ledger, row = Ledger(), TargetRow(target())
    leases = [ledger.take(row, BOOK) for _ in range(3)]
    for lease, left in zip([leases[1], leases[2], leases[0]], [2, 1, 0], strict=True):
        ledger.release(lease, row)
        assert row.in_flight == left


def test_releasing_a_lease_twice_is_a_broken_assumption():
    ledger, row = Ledger(), TargetRow(target())
    ledger.take(row, BOOK)
    lease = ledger.take(row, BOOK)
    ledger.release(lease, row)
    with pytest.raises(AssertionError, match="released twice"):
        ledger.release(lease, row)
    assert (row.in_flight, ledger.open_leases) == (1, 1)


def test_a_lease_of_another_ledger_is_a_broken_assumption():
    row = TargetRow(target())
    lease = Ledger().take(row, BOOK)
    with pytest.raises(AssertionError, match="more leases released than taken"):
        Ledger().release(lease, row)


def test_a_count_below_zero_is_a_broken_assumption():
    ledger, row = Ledger(), TargetRow(target())
    lease = ledger.take(row, BOOK)
    with pytest.raises(AssertionError, match="negative in-flight count on 1"):
        ledger.release(lease, TargetRow(target()))


def test_a_new_generation_starts_without_leases_and_without_a_past():
    row = TargetRow(target(1))
    Ledger().take(row, BOOK)
    row.health.fail(FailureCause.CONNECT_FAILED, now_ns=0, others_ejected=0, targets=1)
    row.renew(target(2))
    assert (row.in_flight, row.health.ejected) == (0, False)


def test_a_lease_of_an_older_generation_is_void():
    ledger, row = Ledger(), TargetRow(target(1))
    old = ledger.take(row, BOOK)
    row.renew(target(2))
    ledger.take(row, BOOK)
    assert not ledger.release(old, row)
    assert (row.in_flight, ledger.open_leases, ledger.void_releases) == (1, 1, 1)


def test_a_lease_on_a_forgotten_target_is_void():
    ledger, row = Ledger(), TargetRow(target())
    assert not ledger.release(ledger.take(row, BOOK), None)
    assert (ledger.open_leases, ledger.void_releases) == (0, 1)


def test_a_new_description_of_the_same_generation_keeps_leases_and_health():
    row = TargetRow(target(1))
    Ledger().take(row, BOOK)
    health = row.health
    row.gone = True
    row.renew(target(1, port=81))
    assert (row.in_flight, row.target.port, row.gone) == (1, 81, False)
    assert row.health is health


def test_a_row_describes_itself_for_people():
    row = TargetRow(target(2, state=TargetState.DRAINING))
    assert repr(row) == "<1 #2 draining, 0 in flight>"
    row.health.ejected = True
    row.gone = True
    assert repr(row) == "<1 #2 gone, ejected, 0 in flight>"


def test_a_probe_is_the_open_lease_of_a_target_on_probation():
    row = TargetRow(target())
    lease = Ledger().take(row, BOOK)
    row.probe = lease
    assert not row.probing
    row.health.parole()
    assert row.probing
    row.probe = None
    assert not row.probing


def test_a_new_generation_has_no_probe():
    row = TargetRow(target(1))
    row.health.parole()
    row.probe = Ledger().take(row, BOOK)
    row.renew(target(2))
    assert row.probe is None
    assert not row.probing


# --- adapters -----------------------------------------------------------------------------------------
def counts(row):
    """Leases open and taken, by adapter."""
    return {name: (count.in_flight, count.taken) for name, count in (row.adapters or {}).items()}


def test_leases_are_counted_by_adapter():
    ledger, row = Ledger(), TargetRow(target(adapters=("1", "11")))
    leases = [ledger.take(row, BOOK, adapter) for adapter in ("1", "11", "1", "")]
    assert counts(row) == {"1": (2, 2), "11": (1, 1)}
    assert row.in_flight == 4
    for lease in leases:
        assert ledger.release(lease, row)
    assert counts(row) == {"1": (0, 2), "11": (0, 1)}
    assert row.in_flight == 0


def test_an_adapter_that_is_not_loaded_is_counted_as_long_as_it_has_a_lease():
    ledger, row = Ledger(), TargetRow(target())
    first, second = ledger.take(row, BOOK, "1"), ledger.take(row, BOOK, "1")
    ledger.release(first, row)
    assert counts(row) == {"1": (1, 2)}
    ledger.release(second, row)
    assert counts(row) == {}


def test_an_adapter_that_is_unloaded_is_forgotten_when_it_has_no_lease():
    ledger, row = Ledger(), TargetRow(target(adapters=("1", "11", "2")))
    held = ledger.take(row, BOOK, "1")
    for adapter in ("11", "2"):
        ledger.release(ledger.take(row, BOOK, adapter), row)
    row.renew(target(adapters=("2",)))
    assert counts(row) == {"1": (1, 1), "2": (0, 1)}
    ledger.release(held, row)
    assert counts(row) == {"2": (0, 1)}


def test_a_new_generation_has_no_counts_and_old_leases_do_not_touch_them():
    ledger, row = Ledger(), TargetRow(target(adapters=("1",)))
    old = ledger.take(row, BOOK, "1")
    row.renew(target(2, adapters=("1",)))
    assert counts(row) == {}
    ledger.take(row, BOOK, "1")
    assert not ledger.release(old, row)
    assert counts(row) == {"1": (1, 1)}
