"""A router's own record of what it sent."""

from tests.unit.sim.baselines.stage import stored
from warmroute.sim.baselines.history import History
from warmroute.sim.policy import News


def test_what_was_sent_is_found_as_far_as_prompts_agree():
    record = History()
    record.sent(((0, 20), (100, 40)), 50)
    assert record.match(((0, 20), (100, 40)), 60) == 50
    assert record.match(((0, 20), (900, 5)), 25) == 20
    assert record.match(((0, 5), (900, 5)), 10) == 5
    assert record.match(((500, 5),), 5) == 0


def test_a_longer_prompt_extends_what_is_known():
    record = History()
    record.sent(((0, 100),), 30)
    record.sent(((0, 100),), 70)
    assert record.match(((0, 100),), 100) == 70


def test_the_least_recently_sent_is_forgotten_first_and_its_end_before_its_start():
    record = History(100)
    record.sent(((0, 60),), 60)
    record.sent(((1000, 40),), 40)
    record.sent(((0, 60),), 60)
    record.sent(((2000, 10),), 10)
    assert record.match(((1000, 40),), 40) == 30
    assert record.match(((0, 60),), 60) == 60


def test_of_a_prompt_longer_than_the_record_the_start_is_kept():
    record = History(10)
    record.sent(((0, 60),), 60)
    assert record.match(((0, 60),), 60) == 10


def test_a_record_without_limit_forgets_nothing():
    record = History()
    for first in range(0, 10**8, 10**5):
        record.sent(((first, 9000),), 9000)
    assert record.match(((0, 9000),), 9000) == 9000


def test_what_engines_tell_is_ignored():
    record = History()
    record.heard(News("a", 1, (stored(0, 10),)))
    assert record.match(((0, 10),), 10) == 0
