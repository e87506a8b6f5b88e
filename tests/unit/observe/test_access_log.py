import json

import pytest

from warmroute.core.events import Invocation
from warmroute.observe.access_log import MEMBERS, AccessLines

MS = 1_000_000


def record(**more):
    fields = {
        "request_id": "r-1",
        "route": "invocations",
        "started_ns": 1000 * MS,
        "ended_ns": 1250 * MS,
        "status": 200,
        "outcome": "completed",
    }
    return Invocation(**(fields | more))


def read(invocation, wall_s=1_790_000_000.0):
    line = AccessLines().line(invocation, wall_s)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_a_line_tells_all_about_an_invocation_that_was_served():
    served = record(
        endpoint="llm", variant="v1", target="i-1", strategy="PREFIX_AWARE", reason="affinity", rank=0,
        principal="root", in_flight=4, attempts=2, bytes_in=100, bytes_out=200,
        first_byte_ns=1040 * MS + 1_499, dispatched_ns=1001 * MS,
    )  # fmt: skip
    assert read(served, 1_790_000_000.12345) == {
        "time": 1_790_000_000.123,
        "id": "r-1",
        "route": "invocations",
        "status": 200,
        "outcome": "completed",
        "ms": 250.0,
        "first_byte_ms": 40.001,
        "bytes_in": 100,
        "bytes_out": 200,
        "principal": "root",
        "endpoint": "llm",
        "variant": "v1",
        "target": "i-1",
        "strategy": "PREFIX_AWARE",
        "reason": "affinity",
        "rank": 0,
        "in_flight": 4,
        "attempts": 2,
    }


def test_what_did_not_happen_is_left_out():
    told = read(record(status=400, outcome="rejected", problem="bad_request"))
    assert told == {
        "time": 1_790_000_000.0,
        "id": "r-1",
        "route": "invocations",
        "status": 400,
        "outcome": "rejected",
        "ms": 250.0,
        "bytes_in": 0,
        "bytes_out": 0,
        "problem": "bad_request",
    }


def test_the_tokens_that_an_engine_reports_are_told_as_far_as_it_does():
    told = read(record(prompt_tokens=900, cached_tokens=0, output_tokens=7))
    assert [told[name] for name in ("prompt_tokens", "cached_tokens", "output_tokens")] == [900, 0, 7]
    assert "cached_tokens" not in read(record(prompt_tokens=900, output_tokens=7))
    told = read(record(output_tokens=0))
    assert told["output_tokens"] == 0
    assert "prompt_tokens" not in told


def test_an_idle_target_is_told_as_0_in_flight():
    assert read(record(attempts=1, in_flight=0))["in_flight"] == 0


def test_a_failure_names_problem_and_cause():
    told = read(record(status=424, outcome="failed", problem="model_died", cause="closed", attempts=1))
    assert (told["problem"], told["cause"]) == ("model_died", "closed")


def test_a_client_that_went_before_any_answer_has_status_0():
    assert read(record(status=0, outcome="cancelled"))["status"] == 0


@pytest.mark.parametrize("text", ["a\nb", 'a"b', "\x00", "é"])
def test_no_text_can_break_the_line(text):
    assert read(record(principal=text))["principal"] == text


def test_a_line_knows_every_member_that_is_documented():
    everything = record(
        endpoint="e", component="c", adapter="a", session="new", variant="v", target="i", strategy="s",
        reason="r",
        principal="p", problem="x", cause="c",
        rank=1, attempts=1, first_byte_ns=1001 * MS,
        prompt_tokens=1, cached_tokens=1, output_tokens=1,
    )  # fmt: skip
    assert list(read(everything)) == list(MEMBERS)


def test_the_labels_of_one_invocation_never_stick_to_the_next():
    lines = AccessLines()
    first = json.loads(lines.line(record(target="i-1", problem="bad_request"), 1.0))
    second = json.loads(lines.line(record(target="i-2"), 1.0))
    again = json.loads(lines.line(record(target="i-1", problem="bad_request"), 1.0))
    assert first == again
    assert (second["target"], "problem" in second) == ("i-2", False)


def test_the_kept_labels_are_bounded():
    lines = AccessLines()
    for number in range(10_000):
        assert json.loads(lines.line(record(target=f"i-{number}"), 1.0))["target"] == f"i-{number}"
    assert len(lines) <= 4096
