from warmroute.report.replay import replay_lines, what_if_lines
from warmroute.routing.log import AttemptTold, Began, Decided, Ended
from warmroute.sim.replay import Difference, Replay
from warmroute.sim.what_if import WhatIf

BEGAN = Began(1, "0.1.0", 1, "ff", "router-0", 1_790_000_000.0)
DECIDED = Decided(
    2_500_000_000, 1, "00000000000000ff", 4096, "0123456789abcdef" * 4, lease=3, target="i-1", generation=1,
    variant="v", strategy="PREFIX_AWARE", reason="affinity", rank=0, candidates=2,
)  # fmt: skip


def a_replay(*lines):
    replay = Replay(BEGAN)
    for line in lines:
        replay.count(line)
    return replay


def text(replay, version="0.1.0"):
    return "\n".join(replay_lines(replay, version=version))


def test_identical_decisions_are_told_with_what_they_were():
    refused = Decided(4_000_000_000, 1, refusal="all_tried")
    assert (
        text(a_replay(DECIDED, DECIDED, refused, Ended("stopped")))
        == """\
router-0 of warmroute 0.1.0, 2026-09-21 14:13:20 UTC
1.5 s in 5 lines, to the end of the router

  strategy      reason     decisions
  PREFIX_AWARE  affinity           2   66.7%
  refused       all_tried          1   33.3%

  target  decisions
  i-1             2   66.7%

3 decisions, all identical"""
    )


def test_a_log_without_decisions_is_no_error():
    assert text(a_replay()).endswith("1 lines, cut off, or still being written\n\n0 decisions, all identical")


def test_how_a_log_ends_is_told():
    assert "to its size limit" in text(a_replay(Ended("full")))


def test_another_version_is_named():
    assert "replayed by warmroute 0.2.0, which may decide otherwise on purpose" in text(a_replay(), "0.2.0")
    assert "replayed by" not in text(a_replay())


def test_a_difference_shows_what_was_asked_and_both_answers():
    replay = a_replay(Decided(1_000_000_000, 1))
    other = Decided(2_500_000_000, 1, lease=3, target="i-2", reason="overflow", rank=1)
    replay.difference = Difference(1234, DECIDED, other)
    told = text(replay).splitlines()
    at = told.index("1 decisions identical, then a difference")
    assert told[at + 1 :] == [
        "line 1,234, 1.500 s after the first:",
        (
            '  asked:    {"now_ns":2500000000,"book":1,"key":"00000000000000ff","characters":4096,'
            '"chain":"0123456789abcdef0123456789abcdef0123456789abcdef… (4 blocks)"}'
        ),
        (
            '  recorded: {"what":"decide","lease":3,"target":"i-1","generation":1,"variant":"v",'
            '"strategy":"PREFIX_AWARE","reason":"affinity","rank":0,"candidates":2}'
        ),
        '  replayed: {"what":"decide","lease":3,"target":"i-2","reason":"overflow","rank":1}',
    ]


def test_a_difference_that_is_no_decision_shows_both_lines():
    replay = a_replay()
    replay.difference = Difference(2, AttemptTold(5, 1, "completed"), None)
    assert text(replay).endswith("""
  recorded: {"what":"apply","now_ns":5,"lease":1,"event":"completed"}
  replayed: nothing""")
    replay.difference = Difference(2, Ended("full"), Ended("stopped"))
    assert text(replay).endswith("  recorded: full\n  replayed: stopped")


def test_what_another_strategy_would_have_done_is_told():
    found = WhatIf(requests=1000, elsewhere=250, without_key=3)
    found.recorded.update({"i-1": 600, "i-22": 400})
    found.imagined.update({"i-1": 500, "i-3": 500})
    assert list(what_if_lines(found, strategy="LEAST_OUTSTANDING_REQUESTS")) == [
        "",
        "LEAST_OUTSTANDING_REQUESTS: 250 of 1,000 requests (25.0%) would have gone elsewhere",
        "3 of them have no routing key in the log: their variant made none, or they had no text",
        "  target       went   would go",
        "  i-1           600        500",
        "  i-22          400          0",
        "  i-3             0        500",
    ]


def test_no_requests_are_no_share():
    assert "0 of 0 requests (0.0%)" in list(what_if_lines(WhatIf(), strategy="RANDOM"))[1]
