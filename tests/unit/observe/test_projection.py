import pytest

from warmroute.core.events import FailureCause, Invocation, ShadowCopyEnded, ShadowOutcome
from warmroute.observe import catalogue
from warmroute.observe.catalogue import METRICS, SECONDS_BOUNDS
from warmroute.observe.projection import Histogram, Projection

MS = 1_000_000


def ended(**more):
    fields = {
        "request_id": "r",
        "route": "invocations",
        "started_ns": 1000 * MS,
        "endpoint": "llm",
        "variant": "v1",
        "target": "i-1",
        "strategy": "PREFIX_AWARE",
        "reason": "affinity",
        "attempts": 1,
        "status": 200,
        "outcome": "completed",
        "first_byte_ns": 1040 * MS,
        "ended_ns": 1300 * MS,
    }
    return Invocation(**(fields | more))


def values(projection, metric):
    """Return the values of a metric by its labels' values, in the catalogue's order."""
    found = {}
    for name, labels, value in projection.snapshot({}).values:
        if name == metric.name:
            assert tuple(label for label, _ in labels) == metric.labels
            found[tuple(value for _, value in labels)] = value
    return found


def histograms(projection, metric):
    found = {}
    for name, labels, counts, total in projection.snapshot({}).histograms:
        if name == metric.name:
            assert tuple(label for label, _ in labels) == metric.labels
            found[tuple(value for _, value in labels)] = (counts, total)
    return found


# --- histograms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(len(SECONDS_BOUNDS)))
def test_a_bound_belongs_to_its_own_bucket_and_what_is_above_it_to_the_next(index):
    histogram = Histogram()
    histogram.add(SECONDS_BOUNDS[index])
    histogram.add(SECONDS_BOUNDS[index] * 1.0001)
    expected = [0] * (len(SECONDS_BOUNDS) + 1)
    expected[index] = expected[index + 1] = 1
    assert histogram.counts == expected


@pytest.mark.parametrize("above", [0.0, 0.0005, 0.004, 0.2, 700.0])
@pytest.mark.parametrize("seconds", [0.0, 0.0004, *SECONDS_BOUNDS, 641.0])
def test_what_is_counted_beside_another_is_counted_where_it_would_be_by_itself(seconds, above):
    by_itself, beside = Histogram(), Histogram()
    bucket = Histogram().add(seconds + above)
    by_itself.add(seconds)
    beside.add_below(seconds, bucket)
    assert (beside.counts, beside.total) == (by_itself.counts, by_itself.total)


def test_the_last_bucket_has_no_bound_and_the_sum_is_kept():
    histogram = Histogram()
    histogram.add(1e9)
    histogram.add(0.5)
    assert histogram.counts[-1] == 1
    assert histogram.total == 1e9 + 0.5


# --- invocations --------------------------------------------------------------------------------


def test_nothing_counted_is_nothing_told():
    counters = Projection().snapshot({})
    assert (counters.values, counters.histograms) == ((), ())


def test_an_invocation_counts_in_every_metric_it_belongs_to():
    projection = Projection()
    projection.invocation_ended(ended())
    assert values(projection, catalogue.INVOCATIONS) == {("invocations", "llm", "v1", "completed", ""): 1}
    assert values(projection, catalogue.DECISIONS) == {("llm", "v1", "PREFIX_AWARE", "affinity"): 1}
    assert values(projection, catalogue.TARGET_INVOCATIONS) == {("llm", "v1", "i-1"): 1}


def test_metrics_with_fewer_labels_add_up_what_others_tell_apart():
    projection = Projection()
    projection.invocation_ended(ended())
    projection.invocation_ended(ended(target="i-2"))
    projection.invocation_ended(ended(target="i-2", reason="overflow"))
    projection.invocation_ended(ended(outcome="failed", problem="model_error"))
    assert values(projection, catalogue.INVOCATIONS) == {
        ("invocations", "llm", "v1", "completed", ""): 3,
        ("invocations", "llm", "v1", "failed", "model_error"): 1,
    }
    assert values(projection, catalogue.DECISIONS) == {
        ("llm", "v1", "PREFIX_AWARE", "affinity"): 3,
        ("llm", "v1", "PREFIX_AWARE", "overflow"): 1,
    }
    assert values(projection, catalogue.TARGET_INVOCATIONS) == {
        ("llm", "v1", "i-1"): 2,
        ("llm", "v1", "i-2"): 2,
    }


def test_an_invocation_that_no_target_took_is_no_decision():
    projection = Projection()
    projection.invocation_ended(
        ended(
            endpoint="",
            variant="",
            target="",
            strategy="",
            reason="",
            outcome="rejected",
            problem="bad_request",
            first_byte_ns=0,
        )  # fmt: skip
    )
    assert values(projection, catalogue.INVOCATIONS) == {
        ("invocations", "", "", "rejected", "bad_request"): 1
    }
    assert not values(projection, catalogue.DECISIONS)
    assert not values(projection, catalogue.TARGET_INVOCATIONS)
    assert not projection.snapshot({}).histograms


def test_tokens_of_prompts_count_where_the_engine_says_how_many_it_had():
    projection = Projection()
    projection.invocation_ended(ended(prompt_tokens=900, cached_tokens=800, output_tokens=5))
    projection.invocation_ended(ended(prompt_tokens=100, cached_tokens=0, reason="overflow"))
    projection.invocation_ended(ended(prompt_tokens=7_000, output_tokens=5))
    projection.invocation_ended(ended(target="i-2", prompt_tokens=50, cached_tokens=0))
    projection.invocation_ended(ended(target="i-3"))
    assert values(projection, catalogue.PROMPT_TOKENS) == {
        ("llm", "v1", "i-1"): 1000,
        ("llm", "v1", "i-2"): 50,
    }
    assert values(projection, catalogue.CACHED_TOKENS) == {
        ("llm", "v1", "i-1"): 800,
        ("llm", "v1", "i-2"): 0,
    }


def test_times_are_from_the_whole_request_to_the_first_byte_and_to_the_end():
    projection = Projection()
    projection.invocation_ended(ended())
    ((labels, (counts, total)),) = histograms(projection, catalogue.FIRST_BYTE).items()
    assert labels == ("llm", "v1", "invocations")
    assert total == pytest.approx(0.040)
    assert counts[SECONDS_BOUNDS.index(0.05)] == 1
    ((labels, (counts, total)),) = histograms(projection, catalogue.DURATION).items()
    assert total == pytest.approx(0.300)
    assert sum(counts) == 1


def test_times_are_added_up_over_targets():
    projection = Projection()
    projection.invocation_ended(ended(target="i-1"))
    projection.invocation_ended(ended(target="i-2", ended_ns=2000 * MS))
    ((counts, total),) = histograms(projection, catalogue.DURATION).values()
    assert sum(counts) == 2
    assert total == pytest.approx(1.3)


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_only_complete_answers_have_a_duration(outcome):
    projection = Projection()
    projection.invocation_ended(ended(outcome=outcome))
    assert histograms(projection, catalogue.FIRST_BYTE)
    assert not histograms(projection, catalogue.DURATION)


def test_without_a_first_byte_there_is_no_time_to_it():
    projection = Projection()
    projection.invocation_ended(ended(outcome="failed", first_byte_ns=0))
    assert not histograms(projection, catalogue.FIRST_BYTE)


# --- attempts and counters ----------------------------------------------------------------------


def test_a_failed_attempt_counts_and_is_a_retry_only_where_another_followed():
    projection = Projection()
    projection.attempt_failed("i-1", FailureCause.CONNECT_FAILED, again=True)
    projection.attempt_failed("i-1", FailureCause.CONNECT_FAILED, again=False)
    projection.attempt_failed("i-2", FailureCause.CLOSED, again=False)
    assert values(projection, catalogue.ATTEMPT_FAILURES) == {
        ("i-1", "connect_failed"): 2,
        ("i-2", "closed"): 1,
    }
    assert values(projection, catalogue.RETRIES) == {("i-1", "connect_failed"): 1}


def test_a_counter_grows_by_one_or_by_what_is_asked():
    projection = Projection()
    projection.count(catalogue.EJECTIONS, ("i-1", "closed"))
    projection.count(catalogue.EJECTIONS, ("i-1", "closed"), 2)
    assert values(projection, catalogue.EJECTIONS) == {("i-1", "closed"): 3}


# --- what SageMaker's metrics count ---------------------------------------------------------------
PLAIN = ("llm", "v1", "", "")
LORA = ("llm", "v1", "base", "lora")


def served(**more):
    return ended(dispatched_ns=1010 * MS, model_status=200, **more)


def counted(record, metric):
    projection = Projection()
    projection.invocation_ended(record)
    return values(projection, metric)


def test_an_invocation_is_counted_by_what_was_invoked():
    assert counted(served(), catalogue.MODEL_INVOCATIONS) == {PLAIN: 1}
    lora = served(component="base", adapter="lora")
    assert counted(lora, catalogue.MODEL_INVOCATIONS) == {LORA: 1}


def test_what_reached_no_model_server_is_none_of_its_invocations():
    refused = ended(attempts=0, target="", outcome="failed", problem="no_capacity", first_byte_ns=0)
    for metric in (catalogue.MODEL_INVOCATIONS, catalogue.MODEL_ERRORS, catalogue.NO_CAPACITY_FAILURES):
        assert counted(refused, metric) == {}


def test_a_component_without_a_copy_is_counted_as_sagemaker_does():
    refused = ended(
        attempts=0, target="", outcome="failed", problem="no_copy", component="base", adapter="lora"
    )
    assert counted(refused, catalogue.NO_CAPACITY_FAILURES) == {LORA: 1}


@pytest.mark.parametrize(
    ("record", "client", "server", "errors"),
    [
        (served(), 0, 0, 0),
        (ended(model_status=404), 1, 0, 1),
        (ended(model_status=400, outcome="failed", problem="model_error"), 1, 0, 1),
        (ended(model_status=503, outcome="failed", problem="model_error"), 0, 1, 1),
        (ended(model_status=302, outcome="failed", problem="model_error"), 0, 0, 1),
        (ended(outcome="failed", problem="model_timeout"), 0, 0, 1),
        (ended(outcome="failed", problem="instance_unreachable"), 0, 0, 1),
        (ended(model_status=200, outcome="failed", problem="request_timeout", broken=True), 0, 0, 0),
        (ended(outcome="cancelled"), 0, 0, 0),
    ],
)
def test_errors_of_a_model_are_told_apart_by_its_answer(record, client, server, errors):
    found = [
        sum(counted(record, metric).values())
        for metric in (catalogue.MODEL_CLIENT_ERRORS, catalogue.MODEL_SERVER_ERRORS, catalogue.MODEL_ERRORS)
    ]
    assert found == [client, server, errors]


def test_an_answer_that_broke_after_its_head_is_a_mid_stream_error():
    broken = ended(model_status=200, outcome="failed", problem="model_died", broken=True)
    assert counted(broken, catalogue.MID_STREAM_ERRORS) == {PLAIN: 1}
    assert counted(served(), catalogue.MID_STREAM_ERRORS) == {}


def test_the_models_time_and_ours_add_up_to_the_whole():
    projection = Projection()
    projection.invocation_ended(served())
    assert histograms(projection, catalogue.MODEL_LATENCY)[PLAIN][1] == pytest.approx(0.290)
    assert histograms(projection, catalogue.MODEL_FIRST_BYTE)[PLAIN][1] == pytest.approx(0.030)
    assert values(projection, catalogue.OVERHEAD)[PLAIN] == pytest.approx(0.010)


def test_sessions_are_counted_by_what_became_of_them():
    projection = Projection()
    for session in ("opened", "resumed", "resumed", ""):
        projection.invocation_ended(ended(component="base", session=session))
    at = ("llm", "v1", "base")
    assert values(projection, catalogue.SESSION_INVOCATIONS) == {(*at, "opened"): 1, (*at, "resumed"): 2}


def test_totals_never_go_back():
    projection = Projection()
    projection.invocation_ended(ended())
    before = projection.snapshot({})
    projection.invocation_ended(ended())
    after = {(name, labels): value for name, labels, value in projection.snapshot({}).values}
    assert all(after[name, labels] == 2 * value for name, labels, value in before.values)


def test_totals_that_are_told_twice_are_the_same():
    projection = Projection()
    projection.invocation_ended(ended(prompt_tokens=10, cached_tokens=5))
    assert projection.snapshot({}) == projection.snapshot({})


def test_gauges_are_told_as_they_stand():
    projection = Projection()
    gauges = {(catalogue.OPEN_LEASES, ()): 3, (catalogue.IN_FLIGHT, ("llm", "v1", "i-1")): 2.0}
    assert set(projection.snapshot(gauges).values) == {
        ("warmroute_open_leases", (), 3),
        ("warmroute_in_flight", (("endpoint", "llm"), ("variant", "v1"), ("target", "i-1")), 2.0),
    }


def test_labels_that_do_not_fit_a_metric_are_a_defect():
    with pytest.raises(ValueError, match="argument"):
        Projection().snapshot({(catalogue.IN_FLIGHT, ("llm",)): 1})


def test_every_name_that_is_told_is_in_the_catalogue():
    projection = Projection()
    projection.invocation_ended(ended())
    projection.attempt_failed("i-1", FailureCause.CLOSED, again=True)
    counters = projection.snapshot({(catalogue.CONNECTIONS, ()): 1})
    told = {name for name, *_ in (*counters.values, *counters.histograms)}
    assert told <= {metric.name for metric in METRICS}


def test_copies_for_a_shadow_are_counted_by_outcome_and_status_and_timed():
    projection = Projection()
    done = ShadowCopyEnded("e", "s", ShadowOutcome.COMPLETED, 200, first_byte_ns=10**7, total_ns=10**8)
    for copy in (done, done, ShadowCopyEnded("e", "s", ShadowOutcome.DROPPED_FULL)):
        projection.shadow_copy_ended(copy)
    counters = projection.snapshot({})
    values = {tuple(value for _, value in labels): count for _, labels, count in counters.values}
    assert values == {("e", "s", "completed", "200"): 2, ("e", "s", "dropped_full", ""): 1}
    sums = {name: total for name, _, _, total in counters.histograms}
    assert sums["warmroute_shadow_first_byte_seconds"] == pytest.approx(0.02)
    assert sums["warmroute_shadow_duration_seconds"] == pytest.approx(0.2)
