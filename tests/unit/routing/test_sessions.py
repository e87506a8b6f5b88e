import pytest

from warmroute.core.decision import NEW_SESSION
from warmroute.core.limits import SESSION_ID_CHARACTERS_MAX, SESSION_S_MAX, SESSIONS_MAX
from warmroute.routing.sessions import Session, SessionTable

NOW = 10**12
SECOND = 10**9
LIFE_MAX = int(SESSION_S_MAX) * SECOND


def pinned(target_id="1", *, life_ns=SECOND, generation=1, variant="v"):
    return Session(variant, target_id, generation, NOW + life_ns)


def opened(table, session_id="s", session=None, *, endpoint="e", now_ns=NOW):
    return table.open(endpoint, session_id, session or pinned(), now_ns)


# --- opening and closing ----------------------------------------------------------------------
def test_an_open_session_is_found_with_its_target():
    table = SessionTable()
    assert opened(table)
    assert table.find("e", "s") == Session("v", "1", 1, NOW + SECOND)


@pytest.mark.parametrize(
    ("endpoint", "session_id"), [("e", "S"), ("e", ""), ("e", "ss"), ("es", ""), ("", "es")]
)
def test_another_id_or_endpoint_is_not_found(endpoint, session_id):
    table = SessionTable()
    opened(table)
    assert table.find(endpoint, session_id) is None


def test_the_same_id_on_two_endpoints_is_two_sessions():
    table = SessionTable()
    opened(table, session=pinned("1"), endpoint="1")
    opened(table, session=pinned("11"), endpoint="11")
    assert [table.find(endpoint, "s").target_id for endpoint in ("1", "11")] == ["1", "11"]
    table.close("1", "s")
    assert table.find("11", "s") is not None


def test_a_closed_session_is_not_found():
    table = SessionTable()
    opened(table)
    table.close("e", "s")
    assert (table.find("e", "s"), len(table)) == (None, 0)


def test_closing_a_session_that_is_not_open_is_no_error():
    table = SessionTable()
    table.close("e", "s")
    assert len(table) == 0


def test_an_id_that_is_opened_again_is_pinned_anew():
    table = SessionTable()
    opened(table, session=pinned("1"))
    assert opened(table, session=pinned("2", life_ns=2 * SECOND))
    assert table.find("e", "s").target_id == "2"
    assert len(table) == 1
    table.expire(NOW + SECOND)
    assert len(table) == 1, "the old deadline is void"


@pytest.mark.parametrize("session_id", ["", NEW_SESSION, "s" * (SESSION_ID_CHARACTERS_MAX + 1)])
def test_what_is_no_session_id_opens_nothing(session_id):
    table = SessionTable()
    assert not opened(table, session_id)
    assert len(table) == 0


def test_the_longest_id_opens_a_session():
    assert opened(SessionTable(), "s" * SESSION_ID_CHARACTERS_MAX)


# --- deadlines --------------------------------------------------------------------------------
@pytest.mark.parametrize(("life_ns", "opens"), [(-1, False), (0, False), (1, True)])
def test_a_session_that_is_over_before_it_begins_is_not_opened(life_ns, opens):
    assert opened(SessionTable(), session=pinned(life_ns=life_ns)) is opens


@pytest.mark.parametrize(
    ("ahead_ns", "kept_ns"), [(LIFE_MAX, LIFE_MAX), (LIFE_MAX + 1, LIFE_MAX), (10**18, LIFE_MAX)]
)
def test_no_session_is_longer_than_the_longest(ahead_ns, kept_ns):
    table = SessionTable()
    opened(table, session=pinned(life_ns=ahead_ns))
    assert table.find("e", "s").deadline_ns == NOW + kept_ns
    assert table.next_deadline_ns() == NOW + kept_ns


@pytest.mark.parametrize(("late_ns", "left"), [(-1, 1), (0, 0), (1, 0)])
def test_a_session_is_forgotten_at_its_deadline(late_ns, left):
    table = SessionTable()
    opened(table)
    table.expire(NOW + SECOND + late_ns)
    assert len(table) == left


def test_sessions_are_forgotten_in_order_of_their_deadlines():
    table = SessionTable()
    for seconds in (5, 1, 3, 2, 4):
        opened(table, str(seconds), pinned(life_ns=seconds * SECOND))
    left = []
    while (deadline_ns := table.next_deadline_ns()) is not None:
        table.expire(deadline_ns)
        left.append(len(table))
    assert left == [4, 3, 2, 1, 0]


def test_without_a_session_there_is_no_deadline():
    table = SessionTable()
    assert table.next_deadline_ns() is None
    opened(table)
    table.close("e", "s")
    assert table.next_deadline_ns() is None


# --- bounds -----------------------------------------------------------------------------------
def test_a_full_table_opens_no_further_session_and_pins_open_ones_anew():
    table = SessionTable(2)
    assert [opened(table, str(n)) for n in range(3)] == [True, True, False]
    assert opened(table, "1", pinned("2"))
    assert (len(table), table.find("e", "1").target_id) == (2, "2")


def test_a_full_table_has_room_again_when_a_session_is_closed():
    table = SessionTable(2)
    opened(table, "1")
    opened(table, "2")
    table.close("e", "1")
    assert not table.full(NOW)
    assert opened(table, "3")


def test_a_full_table_looks_for_sessions_that_are_over_before_it_refuses():
    table = SessionTable(2)
    opened(table, "1")
    opened(table, "2", pinned(life_ns=3 * SECOND))
    assert table.full(NOW)
    assert not table.full(NOW + SECOND)
    assert opened(table, "3", pinned(life_ns=2 * SECOND), now_ns=NOW + SECOND)
    assert table.find("e", "1") is None


def test_a_table_holds_the_named_number_of_sessions():
    table = SessionTable()
    assert all(opened(table, str(n)) for n in range(SESSIONS_MAX))
    assert not opened(table, "one more")


def test_sessions_that_are_closed_early_do_not_pile_up():
    table = SessionTable()
    opened(table, "kept", pinned(life_ns=LIFE_MAX))
    for n in range(10_000):
        opened(table, str(n), pinned(life_ns=LIFE_MAX - n))
        table.close("e", str(n))
    assert len(table._ends) < 100
    assert table.next_deadline_ns() == NOW + LIFE_MAX


def test_sessions_that_are_pinned_anew_over_and_over_do_not_pile_up():
    table = SessionTable()
    for n in range(10_000):
        opened(table, session=pinned(life_ns=n + 1))
    assert len(table._ends) < 100
    assert table.next_deadline_ns() == NOW + 10_000


# --- what a target carries ----------------------------------------------------------------------
def test_the_sessions_of_a_target_are_counted_by_generation():
    table = SessionTable()
    opened(table, "1", pinned("1"))
    opened(table, "2", pinned("1"))
    opened(table, "3", pinned("1", generation=2))
    opened(table, "4", pinned("11"))
    assert [table.pinned_to("1", 1), table.pinned_to("1", 2), table.pinned_to("11", 1)] == [2, 1, 1]
    table.close("e", "1")
    opened(table, "2", pinned("11"))
    assert [table.pinned_to("1", 1), table.pinned_to("11", 1)] == [0, 2]
    table.expire(NOW + SECOND)
    assert table.pinned_to("11", 1) == 0
    assert table._pinned == {}, "nothing is kept about targets without a session"
