from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from warmroute.core.decision import NO_PROMPT
from warmroute.core.events import CacheCleared, Completed, Failed, FailureCause, FirstToken
from warmroute.core.fleet import Endpoint, Fleet, Routing, Target, Variant
from warmroute.routing.log import (
    FORMAT,
    AttemptTold,
    Began,
    DeadlineMet,
    Decided,
    Ended,
    FleetApplied,
    VariantChosen,
    decode,
    encode,
)
from warmroute.routing.recorder import RecordedRouter
from warmroute.routing.sessions import Session
from warmroute.sim.replay import Player, ReplayError, read, replay, seed_of

BEGAN = Began(FORMAT, "0.1.0", 1, "ff", "router-0", 10.0)


def recorded():
    """Return the lines of a router that lived through every kind of call."""
    lines = [BEGAN]
    router = RecordedRouter(Random(255), lambda line: lines.append(line) or True)
    targets = tuple(Target(name, name, 1, "h", 80) for name in ("i-1", "i-2", "i-3"))
    fleet = Fleet(
        1, "us-east-1", "0" * 12, (Endpoint("llm", True, (Variant("v", 1.0, Routing(), targets),)),)
    )
    router.apply_fleet(fleet)
    leases = []
    for now_ns in range(1000, 1010):
        book = router.choose_variant(router.endpoints["llm"], None)
        leases.append(router.decide(book, NO_PROMPT, now_ns).lease)
    router.choose_variant(router.endpoints["llm"], "other")
    router.apply(FirstToken(leases[0]), 2000)
    router.open_session(leases[0], "s", 10**12, 2001)
    router.close_session(leases[0], "s")
    router.adopt_session("llm", "t", Session("v", "i-1", 1, 10**12), 2001)
    router.learn(CacheCleared("i-1", 1), 2002)
    for lease in leases[:3]:
        router.apply(Completed(lease), 2003)
    router.apply(Failed(leases[3], FailureCause.CONNECT_FAILED), 2004)
    router.on_deadline(10**10)
    everywhere = tuple(target.target_id for target in targets)
    router.decide(book, NO_PROMPT, 10**10, everywhere)
    lines.append(Ended("stopped"))
    return lines


def data_of(lines):
    return encode(lines).splitlines(keepends=True)


LINES = recorded()
FIRST_DECISION = next(number for number, line in enumerate(LINES) if isinstance(line, Decided))


def test_a_log_replays_to_identical_decisions():
    found = replay(data_of(LINES))
    assert found.difference is None
    assert found.began == BEGAN
    assert (found.lines, found.decisions, found.ended) == (len(LINES), 11, "stopped")
    assert found.reasons == {("RANDOM", "random"): 10, ("", "all_tried"): 1}
    assert sum(found.targets.values()) == 10
    assert (found.first_ns, found.last_ns) == (1000, 10**10)


def test_a_log_that_is_full_or_has_no_end_replays_as_far_as_it_goes():
    assert replay(data_of([*LINES[:-1], Ended("full")])).ended == "full"
    cut = replay(data_of(LINES[:-1]))
    assert (cut.ended, cut.difference, cut.decisions) == ("", None, 11)


def test_a_changed_decision_is_found_with_both_and_its_line():
    line = LINES[FIRST_DECISION]
    others = {"i-1", "i-2", "i-3"} - {line.target}
    fields = {name: getattr(line, name) for name in line.__struct_fields__}
    changed = Decided(**fields | {"target": others.pop()})
    found = replay(data_of([*LINES[:FIRST_DECISION], changed, *LINES[FIRST_DECISION + 1 :]]))
    assert found.difference.number == FIRST_DECISION + 1
    assert found.difference.recorded == changed
    assert found.difference.replayed == line
    assert found.decisions == 0


def test_another_seed_decides_otherwise():
    found = replay(data_of([Began(FORMAT, "0.1.0", 1, "fe"), *LINES[1:]]))
    assert isinstance(found.difference.recorded, Decided)


def test_a_missing_line_is_found_by_what_it_changed():
    ends = [number for number, line in enumerate(LINES) if isinstance(line, AttemptTold) and line.change]
    found = replay(data_of([*LINES[: ends[0]], *LINES[ends[0] + 1 :]]))
    assert isinstance(found.difference.recorded, DeadlineMet)
    assert found.difference.replayed is None


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_last_line_that_was_cut_off_is_left_out(cut):
    data = data_of(LINES[:-1])
    found = replay([*data[:-1], data[-1][:-cut]])
    assert found.difference is None
    assert found.lines == len(LINES) - (1 if cut == 1 else 2)


def test_nothing_but_a_first_line_is_a_log_without_decisions():
    found = replay(data_of([BEGAN]))
    assert (found.lines, found.decisions, found.difference) == (1, 0, None)


# --- what cannot be replayed ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "it is empty"),
        ([b'{"time":1.5,"id":"x"}\n'], "does not begin like a decision log"),
        ([b"\x00\x01"], "does not begin like a decision log"),
        ([b'{"what":"log","format":9}\n'], "format 9; this version reads 1 to 2"),
        ([encode([BEGAN]), b"rubbish\n", encode([LINES[1]])], "line 2: it is no line of a decision log"),
        ([encode([BEGAN]), b'{"what":"deci\n'], "line 2: it is no line of a decision log"),
        ([encode([BEGAN]), encode([BEGAN])], "line 2: another log begins here"),
        ([encode([Began(FORMAT, "0.1.0", 1, "seed")])], "line 1: the seed must be a hexadecimal number"),
    ],
)
def test_what_is_no_log_is_refused_with_the_reason(data, message):
    with pytest.raises(ReplayError, match=message):
        replay(data)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (VariantChosen("nobody"), "line 2: it speaks of 'nobody'"),
        (Decided(1, 7), "line 2: it speaks of 7"),
        (AttemptTold(1, 7, "completed"), "line 2: it speaks of 7"),
    ],
)
def test_a_log_that_speaks_of_what_it_never_told_is_refused(line, message):
    with pytest.raises(ReplayError, match=message):
        replay(data_of([BEGAN, line]))


def test_hashes_that_are_none_are_refused():
    line = Decided(1, 1, key="xyz")
    with pytest.raises(ReplayError, match="16 hexadecimal digits each"):
        replay(data_of([*LINES[:3], line]))


def test_a_state_that_no_router_can_be_in_is_refused(monkeypatch):
    player = Player(BEGAN)

    def broken(_fleet):
        raise AssertionError("negative in-flight count")

    monkeypatch.setattr(player, "_router", SimpleNamespace(apply_fleet=broken))
    with pytest.raises(Exception, match="cannot be in this state: negative in-flight count"):
        player.play(LINES[1])


# --- parts ------------------------------------------------------------------------------------


def test_lines_are_read_with_their_numbers():
    assert list(read(data_of(LINES))) == list(enumerate(LINES, 1))


def test_the_seed_is_read_as_it_was_written():
    assert seed_of(BEGAN) == 255
    assert seed_of(Began(FORMAT, "", 1, f"{2**64 - 1:016x}")) == 2**64 - 1


def test_a_fleet_that_was_too_old_is_too_old_again():
    line = LINES[1]
    again = FleetApplied(replace(line.fleet, region="eu-west-1"), applied=False)
    assert decode(encode([again])) == again
    assert replay(data_of([BEGAN, line, again])).difference is None
