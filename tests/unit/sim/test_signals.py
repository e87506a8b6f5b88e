"""News on its way: late, lost, and asked for again."""

from random import Random

import pytest

from warmroute.engine.prefix_cache import BlocksStored
from warmroute.engine.profile import PROFILES
from warmroute.engine.scheduler import Engine, Load
from warmroute.sim.clock import Agenda
from warmroute.sim.instance import Instance
from warmroute.sim.signals import Signals

MS = 1_000_000


class Listener:
    """Keeps what it hears, and what it takes the cache to be."""

    def __init__(self):
        self.heard, self.known, self.gaps = [], set(), 0

    def learn(self, news, now_ns):
        self.heard.append((now_ns, news))
        self.gaps += news.lost
        if news.snapshot:
            self.known.clear()
        for event in news.events:
            blocks = set(range(event.first, event.first + event.count))
            if isinstance(event, BlocksStored):
                self.known |= blocks
            else:
                self.known -= blocks


class Drawn:
    """A source of randomness that was written down."""

    def __init__(self, *values):
        self.values = list(values)

    def random(self):
        return self.values.pop(0)


class Wire:
    """Some listeners, one instance, and the signals between them."""

    def __init__(self, listeners=1, **how):
        self.listeners = [Listener() for _ in range(listeners)]
        self.agenda = Agenda()
        defaults = {"delay_ns": 0, "loss": 0.0, "resync_ns": 0, "rng": Random(1)}
        self.signals = Signals(self.listeners, self.agenda.add, **{**defaults, **how})
        self.instance = Instance(0, Engine(PROFILES["llama-3.1-8b-l4"], record=True))
        self.cache = self.instance.engine.cache
        self.number = 0

    def store(self, count=1):
        """Let the cache take in a chain of its own and tell of it."""
        self.number += 100
        hold = self.cache.pin([(self.number, count)], 0)
        self.cache.reserve(hold, count)
        self.cache.publish(hold, count)
        self.cache.release(hold)
        self.signals.publish(self.instance, self.agenda.now_ns)

    def let_happen(self):
        while len(self.agenda):
            signal = self.agenda.next()
            self.signals.happen(signal, self.agenda.now_ns)

    @property
    def content(self):
        stored = self.cache.content()
        return {block for each in stored for block in range(each.first, each.first + each.count)}


def test_news_is_heard_by_everybody_at_once_without_a_delay():
    wire = Wire(listeners=2)
    wire.store(3)
    for listener in wire.listeners:
        ((at, news),) = listener.heard
        assert (at, news.target_id, news.generation, news.lost) == (0, "instance-0", 1, False)
        assert news.events == (BlocksStored(100, 3, 0),)
    assert wire.cache.events == []


def test_news_is_as_old_as_the_delay_and_keeps_its_order():
    wire = Wire(delay_ns=50 * MS)
    wire.store()
    wire.store()
    assert wire.listeners[0].heard == []
    wire.let_happen()
    assert [(at, news.events[0].first) for at, news in wire.listeners[0].heard] == [
        (50 * MS, 100),
        (50 * MS, 200),
    ]


def test_nothing_is_told_of_nothing_or_by_an_instance_that_is_gone():
    wire = Wire()
    wire.signals.publish(wire.instance, 0)
    wire.instance.target = None
    wire.store()
    assert wire.listeners[0].heard == []


def test_a_lost_batch_is_noticed_with_the_next_one_and_only_by_who_missed_it():
    wire = Wire(listeners=2, loss=0.5, rng=Drawn(0.1, 0.9, 0.9, 0.9, 0.9, 0.9))
    for _ in range(3):
        wire.store()
    missed, heard = [[(n.events[0].first, n.lost) for _, n in each.heard] for each in wire.listeners]
    assert missed == [(200, True), (300, False)]
    assert heard == [(100, False), (200, False), (300, False)]


def test_several_lost_batches_are_one_gap():
    wire = Wire(loss=0.5, rng=Drawn(0.1, 0.1, 0.9, 0.9))
    for _ in range(4):
        wire.store()
    assert [news.lost for _, news in wire.listeners[0].heard] == [True, False]


def test_without_a_resync_a_gap_stays():
    wire = Wire(loss=0.5, rng=Drawn(0.1, 0.9))
    wire.store()
    wire.store()
    wire.let_happen()
    assert wire.listeners[0].known == {200}


def test_after_a_gap_the_engine_tells_all_it_has():
    wire = Wire(listeners=2, delay_ns=10 * MS, loss=0.5, resync_ns=100 * MS, rng=Drawn(0.1, 0.9, 0.9, 0.9))
    wire.store(2)
    wire.store(3)
    wire.let_happen()
    missed, other = wire.listeners
    at, news = missed.heard[-1]
    # Ten milliseconds until it hears of the gap, a hundred for the answer, ten for its way.
    assert (at, news.snapshot, news.lost) == (120 * MS, True, False)
    assert missed.known == other.known == wire.content == {100, 101, 200, 201, 202}
    assert not any(news.snapshot for _, news in other.heard)


def test_metrics_are_heard_late_or_never_and_leave_no_gap():
    wire = Wire(listeners=2, delay_ns=10 * MS, loss=0.5, rng=Drawn(0.1, 0.9))
    wire.signals.poll(wire.instance, 0)
    wire.let_happen()
    missed, other = wire.listeners
    ((at, news),) = other.heard
    assert (at, news.load, news.events, news.lost) == (10 * MS, Load(0, 0, 0.0), (), False)
    assert missed.heard == []


@pytest.mark.parametrize("state", ["gone", "dead"])
def test_an_instance_that_does_not_answer_has_no_metrics(state):
    wire = Wire()
    if state == "gone":
        wire.instance.target = None
    else:
        wire.instance.alive = False
    wire.signals.poll(wire.instance, 0)
    assert wire.listeners[0].heard == []


def test_an_empty_cache_is_told_as_empty():
    wire = Wire(loss=0.5, resync_ns=MS, rng=Drawn(0.1, 0.9, 0.9))
    wire.store()
    wire.store()
    wire.cache.reserve(wire.cache.pin([(900, 1)], 0), wire.cache.available)
    wire.signals.publish(wire.instance, 0)
    wire.let_happen()
    assert wire.listeners[0].heard[-1][1].events == ()
    assert wire.listeners[0].known == set()


def test_changes_of_the_same_instant_are_told_before_everything_and_not_again():
    wire = Wire(loss=0.5, resync_ns=MS, rng=Drawn(0.1, 0.9, 0.9))
    wire.store()
    wire.store()
    hold = wire.cache.pin([(700, 1)], 0)
    wire.cache.reserve(hold, 1)
    wire.cache.publish(hold, 1)
    wire.let_happen()
    told = [(news.snapshot, [event.first for event in news.events]) for _, news in wire.listeners[0].heard]
    assert told == [(False, [200]), (False, [700]), (True, [100, 200, 700])]


def test_a_router_asks_once_at_a_time_and_again_for_a_later_gap():
    wire = Wire(loss=0.5, resync_ns=MS, rng=Drawn(0.1, 0.9, 0.1, 0.9, 0.1, 0.9))
    for _ in range(4):
        wire.store()
    wire.let_happen()
    assert [news.snapshot for _, news in wire.listeners[0].heard] == [False, False, True]
    wire.store()
    wire.store()
    wire.let_happen()
    assert [news.snapshot for _, news in wire.listeners[0].heard][3:] == [False, True]


def test_an_instance_that_died_answers_nobody():
    wire = Wire(loss=0.5, resync_ns=MS, rng=Drawn(0.1, 0.9))
    wire.store()
    wire.store()
    wire.instance.target = None
    wire.let_happen()
    assert len(wire.listeners[0].heard) == 1


@pytest.mark.parametrize("delay_ms", [0, 3, 200])
def test_a_router_that_may_ask_knows_everything_in_the_end(delay_ms):
    wire = Wire(listeners=3, delay_ns=delay_ms * MS, loss=0.3, resync_ns=20 * MS)
    for step in range(300):
        wire.agenda.add(step * 7 * MS, None)
    while len(wire.agenda):
        signal = wire.agenda.next()
        if signal is None:
            wire.store(1 + wire.number % 3)
        else:
            wire.signals.happen(signal, wire.agenda.now_ns)
    wire.signals._loss = 0.0
    for router in range(3):  # whoever missed the very last batch never finds out
        wire.signals._asked[router, wire.instance] = None
        wire.signals._replay(router, wire.instance, wire.agenda.now_ns)
    wire.let_happen()
    assert all(listener.gaps > 20 for listener in wire.listeners)
    assert all(listener.known == wire.content for listener in wire.listeners)
