"""Sources of the made-up cases."""

import json
from random import Random

import pytest

from warmroute.core.errors import ConfigurationError
from warmroute.sim import shapes
from warmroute.sim.cases import CASES
from warmroute.sim.faults import FaultKind
from warmroute.workload.arrivals import NS_PER_S

FILES = {
    shapes.MT_BENCH: [json.dumps({"turns": ["x" * 450, "y" * 45]})],
    shapes.SQUALITY: [
        json.dumps(
            {
                "document": "x" * 7200,
                "questions": [{"question_text": "y" * 45, "responses": [{"response_text": "z" * 90}]}],
            }
        )
    ],
}


def source(name, **overrides):
    case = CASES[name]
    return case.source(case.parameters(overrides), Random(1), FILES.__getitem__)


def asked(name, count, **overrides):
    """Return the first requests of a case whose clients get their answers at once."""
    made = source(name, **overrides)
    came = list(made.first())
    for each in came:
        came += made.after(each, each.at_ns)
        if len(came) >= count:
            break
    return came[:count]


def test_conversations_have_their_system_prompts():
    def starts(**overrides):
        return {each.request.runs[0] for each in asked("chat", 2000, **overrides)}

    assert starts() == {(0, 128)}
    assert len(starts(systems="40")) == 40
    popular = [each.request.runs[0] for each in asked("chat", 4000, systems="40", zipf="1.5")]
    assert max(popular.count(start) for start in set(popular)) > 0.3 * len(popular)


def test_prefixes_are_shared_and_may_have_a_common_start():
    requests = [each.request for each in asked("tenants", 500, prefixes="3")]
    assert {each.runs[0] for each in requests} == {(0, 188)}
    assert len({each.runs[1] for each in requests}) == 3


def test_a_wave_has_its_mean_and_its_shape():
    times = [each.at_ns / NS_PER_S for each in source("waves", qps="10", duration_s="600").first()]
    assert len(times) == pytest.approx(6000, rel=0.05)
    up = sum(at % 60 < 30 for at in times)
    assert up / len(times) == pytest.approx(0.9, abs=0.02)
    with pytest.raises(ConfigurationError, match="wave must be sine or square, got saw"):
        source("waves", wave="saw")


def test_instances_are_scheduled_for_the_load_that_comes():
    case = CASES["autoscaling"]
    changes = case.changes(case.parameters({"qps": "12", "swing": "0.6", "instance_qps": "3"}))
    there, counts = 4, []
    for change in changes:
        there += 1 if change.kind is FaultKind.ADD else -1
        counts.append(there)
    # From 4 up to 19.2 / 3 and down to 4.8 / 3, then up again.
    assert (max(counts), min(counts)) == (7, 2)
    assert list(changes) == sorted(changes, key=lambda change: change.at_ns)
    few = case.changes(case.parameters({"instances_max": "5", "instances_min": "4"}))
    assert sum(change.kind is FaultKind.ADD for change in few) == 1


def test_the_questions_of_mt_bench_have_two_turns():
    first, second = [each.request for each in asked("mt-bench", 2, clients="1")]
    assert (first.prompt_tokens, second.prompt_tokens) == (100, 110 + first.output_tokens)


def test_stories_are_asked_their_questions():
    requests = [each.request for each in asked("rag", 20)]
    assert {(each.prompt_tokens, each.output_tokens) for each in requests} == {(1610, 20)}


def test_a_threshold_is_four_times_an_even_share_and_at_least_eight():
    case = CASES["chat"]
    assert [shapes.per_client(case.parameters({"clients": clients})) for clients in ("7", "280")] == [8, 160]
