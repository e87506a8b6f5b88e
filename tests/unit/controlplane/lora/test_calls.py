"""Calls to engines: one at a time per copy and adapter, waited out after failures, kept until written."""

import asyncio

import pytest

from warmroute.adapters.lora.memory import MemoryAdapterLoader, MemoryShelf
from warmroute.adapters.tasks import Tasks
from warmroute.controlplane.lora.calls import AdapterCalls, Audit, Call, Check, Heard, Lost, Verb
from warmroute.controlplane.ports import AdapterAnswer, AdapterOutcome, InstanceFact, InstancePhase
from warmroute.core import limits
from warmroute.core.machines import AdapterRoutes
from warmroute.resources.lora.places import AdapterPlace, PlaceState

AT = ("i-1", "a")
FACT = InstanceFact("i-1", "t", InstancePhase.RUNNING, 1, "127.0.0.1", 1)
WANTED = {"a": (1, "file:///a", False)}


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def wall_s(self):
        return self.now_s


class Bench:
    def __init__(self):
        self.clock = Clock()
        self.tasks = Tasks()
        self.loader = MemoryAdapterLoader()
        self.shelf = MemoryShelf()
        self.news = 0
        self.calls = AdapterCalls(
            loader=self.loader, shelf=self.shelf, tasks=self.tasks, clock=self.clock, on_news=self.count
        )

    def count(self):
        self.news += 1

    async def rest(self):
        while len(self.tasks):  # noqa: ASYNC110  (tasks that start tasks)
            await asyncio.sleep(0)

    async def begin(self, *calls, written=(), wanted=WANTED):
        self.calls.begin(calls, written, wanted)
        await self.rest()

    async def load(self, **changes):
        await self.begin(call(**changes), written=[AT])


def call(verb=Verb.LOAD, at=AT, revision=1, generation=1):
    return Call(verb, at, revision, generation, FACT, AdapterRoutes.AUTO)


@pytest.fixture
def bench():
    def run(test):
        async def body():
            await test(Bench())

        asyncio.run(body())

    return run


def test_files_are_fetched_before_anything_is_loaded(bench):
    async def test(made):
        await made.begin(call())
        assert made.loader.calls == []
        assert (made.calls.path("a", 1), made.news) == ("/a", 1)
        await made.begin(call())
        assert made.loader.engines["i-1", 1] == {"a": "/a"}

    bench(test)


def test_an_answer_is_kept_until_it_is_written_down(bench):
    async def test(made):
        await made.begin()
        await made.begin(call())
        heard = made.calls.answer(AT)
        assert (heard.is_done, heard.is_refused, heard.generation) == (True, False, 1)
        await made.begin(call())
        assert len(made.loader.calls) == 1, "not again before the first answer is written down"
        await made.begin(written=[AT])
        assert made.calls.answer(AT) is None

    bench(test)


def test_while_an_engine_is_told_something_it_is_not_told_more(bench):
    async def test(made):
        await made.begin()
        made.calls.begin([call(), call()], [], WANTED)
        assert made.calls.busy == {AT}
        made.calls.begin([call(Verb.UNLOAD)], [], WANTED)
        await made.rest()
        assert made.loader.calls == [("load", *AT)]
        assert made.calls.busy == frozenset()

    bench(test)


def test_an_adapter_is_unloaded_without_its_files(bench):
    async def test(made):
        await made.begin(call(Verb.UNLOAD), wanted={})
        assert made.loader.calls == [("unload", *AT)]
        assert made.calls.counts.by_result == {("unload", "done"): 1}

    bench(test)


def test_waits_after_failures_grow_to_a_bound(bench):
    async def test(made):
        made.loader.silent = True
        await made.begin()
        waits = []
        for _ in range(9):
            await made.load()
            begin_s = made.clock.now_s
            while not made.calls.may(AT, made.clock.now_s):
                assert made.calls.barred(made.clock.now_s) == {AT}
                made.clock.now_s += 1
            waits.append(made.clock.now_s - begin_s)
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        made.loader.silent = False
        await made.load()
        made.loader.silent = True
        await made.load()
        made.clock.now_s += 1
        assert made.calls.may(AT, made.clock.now_s), "a success begins anew"

    bench(test)


def test_a_refusal_is_known_at_once_and_silence_after_some_tries(bench):
    async def test(made):
        made.loader.silent = True
        await made.begin()
        for _ in range(limits.ADAPTER_ATTEMPTS_MAX):
            assert made.calls.refusal("a", 1) is None
            await made.load()
        assert made.calls.refusal("a", 1) == "The model server gave no answer."
        made.loader.silent = False
        await made.load()
        assert made.calls.refusal("a", 1) is None, "it was loaded after all"
        made.loader.refusals["a"] = "no"
        await made.load()
        assert made.calls.refusal("a", 1) == "no"
        assert made.calls.refusal("a", 2) is None

    bench(test)


def test_an_unload_that_fails_says_nothing_of_the_artifact(bench):
    async def test(made):
        made.loader.silent = True
        for _ in range(5):
            await made.begin(call(Verb.UNLOAD), written=[AT])
        assert made.calls.refusal("a", 1) is None

    bench(test)


def test_a_call_that_breaks_is_unclear(bench, caplog):
    async def test(made):
        await made.begin()

        def broken(*_):
            raise RuntimeError("defect")

        made.loader.on_call = broken
        await made.begin(call())
        assert made.calls.answer(AT).answer.outcome is AdapterOutcome.UNCLEAR
        assert made.calls.busy == frozenset()

    bench(test)
    assert "defect" in caplog.text


def test_files_that_cannot_be_had_are_asked_for_again_much_later(bench):
    async def test(made):
        made.shelf.refusals["file:///a"] = "not there"
        await made.begin()
        assert made.calls.refusal("a", 1) == "not there"
        made.shelf.refusals.clear()
        await made.begin()
        assert made.calls.path("a", 1) is None
        made.clock.now_s += limits.ADAPTER_AGAIN_S_MAX
        await made.begin()
        assert made.calls.path("a", 1) == "/a"

    bench(test)


def test_files_that_take_too_long_are_refused(bench, monkeypatch):
    monkeypatch.setattr(limits, "ADAPTER_FETCH_S", 0.0)

    async def test(made):
        async def fetch(*_, **__):
            await asyncio.sleep(60)

        made.shelf = None
        made.calls._shelf = type("Slow", (), {"fetch": staticmethod(fetch)})()
        await made.begin()
        assert "took longer than 0 s" in made.calls.refusal("a", 1)

    bench(test)


def test_adapters_that_are_gone_are_forgotten(bench):
    async def test(made):
        made.loader.refusals["a"] = "no"
        await made.begin()
        await made.load()
        await made.begin(wanted={})
        assert made.calls.refusal("a", 1) is None
        assert made.calls.may(AT, made.clock.now_s)

    bench(test)


def test_files_are_tidied_when_every_path_in_use_is_known(bench):
    async def test(made):
        await made.begin()
        made.calls.tidy({("a", 0)})
        await made.rest()
        assert made.shelf.kept == {}, "revision 0 may be loaded from somewhere"
        made.calls.tidy(frozenset())
        await made.rest()
        assert made.shelf.kept == {"a": frozenset({"/a"})}
        await made.begin(wanted={})
        made.calls.tidy(frozenset())
        await made.rest()
        assert made.shelf.kept == {}
        assert made.calls.path("a", 1) is None

    bench(test)


@pytest.mark.parametrize(
    ("verb", "state", "revision", "fits"),
    [
        (Verb.LOAD, PlaceState.LOADING, 1, True),
        (Verb.LOAD, PlaceState.LOADING, 2, False),
        (Verb.LOAD, PlaceState.LEAVING, 1, False),
        (Verb.UNLOAD, PlaceState.LEAVING, 1, True),
        (Verb.UNLOAD, PlaceState.SERVING, 1, False),
    ],
)
def test_an_answer_fits_what_is_still_to_be_done(verb, state, revision, fits):
    heard = Heard(call(verb), AdapterAnswer(AdapterOutcome.DONE))
    assert heard.fits(AdapterPlace("a", revision, state, 1.0)) is fits


@pytest.mark.parametrize(
    ("state", "generation", "since_s", "fits"),
    [
        (PlaceState.SERVING, 1, 4.0, True),
        (PlaceState.SERVING, 1, 5.0, False),
        (PlaceState.SERVING, 2, 4.0, False),
        (PlaceState.LEAVING, 1, 4.0, False),
    ],
)
def test_a_loss_is_about_what_served_when_it_was_asked_for(state, generation, since_s, fits):
    assert Lost(1, 5.0).fits(AdapterPlace("a", 1, state, since_s, generation)) is fits


def check(*adapters, generation=1):
    return Check("i-1", generation, FACT, AdapterRoutes.AUTO, frozenset(adapters))


def test_engines_are_asked_from_time_to_time_what_they_have(bench):
    async def test(made):
        await made.begin()
        await made.load()
        asked = []
        loaded = made.loader.loaded

        async def count(fact, routes):
            asked.append(made.clock.now_s)
            return await loaded(fact, routes)

        made.calls._loader = type("Counting", (), {"loaded": staticmethod(count)})()
        for _ in range(70):
            made.calls.verify([check("a")])
            await made.rest()
            made.clock.now_s += 1
        assert asked == [130.0, 160.0]
        assert made.calls.lost(AT) is None
        made.loader.engines.clear()
        made.clock.now_s += limits.ADAPTER_VERIFY_S
        made.calls.verify([check("a")])
        await made.rest()
        assert made.calls.lost(AT) == Lost(1, made.clock.now_s)
        await made.begin(written=[AT])
        assert made.calls.lost(AT) is None

    bench(test)


def audit(*strays, generation=1):
    return Audit("i-1", generation, FACT, AdapterRoutes.AUTO, frozenset(strays))


def test_what_was_left_on_an_engine_is_unloaded_once(bench):
    async def test(made):
        made.loader.engines["i-1", 1] = {"a": "/old", "other": "/o"}
        for _ in range(2):
            made.calls.audit([audit("a", "b")], {("i-1", 1)})
            assert len(made.loader.calls) == 0 or made.calls.is_audited("i-1", 1)
            await made.rest()
        assert made.loader.calls == [("unload", "i-1", "a")]
        assert made.calls.is_audited("i-1", 1)
        assert not made.calls.is_audited("i-1", 2)
        made.calls.audit([], set())
        assert not made.calls.is_audited("i-1", 1), "copies that are gone are forgotten"

    bench(test)


def test_an_engine_that_does_not_say_what_it_has_is_taken_as_it_is(bench):
    async def test(made):
        made.loader.silent = True
        made.calls.audit([audit("a")], {("i-1", 1)})
        await made.rest()
        assert made.calls.is_audited("i-1", 1)

    bench(test)


def test_a_copy_that_left_during_its_audit_is_not_remembered(bench):
    async def test(made):
        made.calls.audit([audit("a")], {("i-1", 1)})
        made.calls.audit([], set())
        await made.rest()
        assert not made.calls.is_audited("i-1", 1)

    bench(test)
