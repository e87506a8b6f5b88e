"""The driver: times worked out by hand, ends of every kind, faults, and the checks themselves."""

import os
import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest

from warmroute.core.decision import Refusal, Refused
from warmroute.core.events import FailureCause
from warmroute.engine.profile import PROFILES
from warmroute.engine.step import StepCost
from warmroute.sim.driver import Simulation, simulate
from warmroute.sim.faults import Fault, FaultKind
from warmroute.sim.policies import POLICIES
from warmroute.sim.policy import Settings
from warmroute.sim.setup import Setup
from warmroute.workload.arrivals import NS_PER_S, Arrival, ClosedLoop, Recorded
from warmroute.workload.partitions import Partitioned
from warmroute.workload.prompts import Lengths, RenewedPrefixes, Request

BIG = PROFILES["llama-3.1-70b-8xh100"]
COST = StepCost(BIG)
MS = 1_000_000


def choosers(name="LEAST_OUTSTANDING_REQUESTS", count=1, threshold=8):
    settings = Settings(prefix_length=4096, concurrency_threshold=threshold)
    return [POLICIES[name](settings, Random(number)) for number in range(count)]


def request(number=0, prompt=100, output=10):
    return Request(prompt, output, ((number * 10_000, (prompt + output) // 16 + 1),))


def recorded(*times, **lengths):
    return Recorded([Arrival(at, request(number, **lengths), number) for number, at in enumerate(times)])


def busy(seed=1, clients=12, seconds=20):
    rng = Random(seed)
    maker = RenewedPrefixes(live=10, uses=6, prefix_tokens=4096, lengths=Lengths(200, 60, 0.4), rng=rng)
    return ClosedLoop(clients, maker, think=lambda: 0, ramp_ns=NS_PER_S, end_ns=seconds * NS_PER_S)


def run(setup, routers=None, **more):
    return simulate(setup, routers or choosers(), Random(1), **more)


def test_a_request_takes_overhead_prompt_and_tokens():
    setup = Setup(BIG, 1, recorded(5 * MS), overhead_ns=33 * MS, token_overhead_ns=5_000)
    (record,) = run(setup).records
    overhead = 33 * MS + 100 * 5_000
    first = COST.mixed_ps([(100, 0)], decoding=0, context=0)
    rest = COST.decode_ps(9, decoding=1, context=101)
    assert (record.arrival.at_ns, record.dispatched_ns) == (5 * MS, 5 * MS)
    assert record.first_token_ns - 5 * MS == overhead + -(-first // 1000)
    assert record.ended_ns - 5 * MS == pytest.approx(overhead + (first + rest) / 1000, abs=2)
    assert (record.outcome, record.reason, record.cached_tokens) == ("completed", "only_candidate", 0)


def test_all_arrivals_of_one_time_are_in_the_same_step():
    ends = {record.first_token_ns for record in run(Setup(BIG, 1, recorded(0, 0, 0))).records}
    assert ends == {-(-COST.mixed_ps([(100, 0)] * 3, decoding=0, context=0) // 1000)}


def test_an_arrival_cuts_a_run_of_decode_steps_short():
    records = run(Setup(BIG, 1, recorded(0, 50 * MS, output=200))).records
    assert records[1].first_token_ns - 50 * MS < 30 * MS


def test_cached_and_ideal_tokens_are_told_apart():
    source = Recorded([Arrival(at, request(0, prompt=160)) for at in (0, NS_PER_S, 2 * NS_PER_S)])
    records = run(Setup(BIG, 3, source)).records
    assert [record.ideal_tokens for record in records] == [0, 144, 144]
    assert min(record.cached_tokens for record in records) == 0


def test_a_request_that_fits_into_no_cache_is_refused_by_its_model():
    result = run(Setup(replace(BIG, kv_blocks=8), 2, recorded(0, 1, prompt=120)))
    assert [record.outcome for record in result.records] == ["failed", "failed"]


def test_the_stopwatch_measures_decisions_and_changes_nothing():
    ticks = iter(range(0, 10**9, 7))
    measured = run(Setup(BIG, 3, busy()), stopwatch=lambda: next(ticks))
    assert (measured.decisions, measured.decision_ns) == (len(measured.records), 7 * len(measured.records))
    assert log(measured) == log(run(Setup(BIG, 3, busy())))


# --- giving up --------------------------------------------------------------------------------


def prefill(*prompts):
    return -(-COST.mixed_ps([(prompt, 0) for prompt in prompts], decoding=0, context=0) // 1000)


def test_a_client_without_a_first_token_gives_up_and_its_engine_stops():
    source = Recorded([Arrival(0, request(0, prompt=16_000, output=5)), Arrival(50 * MS, request(1))])
    made = choosers()
    result = run(Setup(BIG, 1, source, patience_ns=300 * MS), made)
    first, second = result.records
    assert (first.outcome, first.ended_ns, first.first_token_ns) == ("cancelled", 300 * MS, 0)
    # The step under way is ended; the second half of the long prompt is never computed.
    assert second.first_token_ns == pytest.approx(prefill(8192) + prefill(100), abs=2)
    assert (second.outcome, made[0].open_leases()) == ("completed", 0)


def test_who_has_a_first_token_in_time_stays_to_the_end():
    (record,) = run(Setup(BIG, 1, recorded(0, output=500), patience_ns=20 * MS)).records
    assert (record.outcome, record.ended_ns > 5 * NS_PER_S) == ("completed", True)


def test_giving_up_on_the_way_to_an_instance_leaves_it_alone():
    setup = Setup(BIG, 1, recorded(0), overhead_ns=33 * MS, patience_ns=10 * MS)
    result = run(setup)
    assert [(each.outcome, each.ended_ns) for each in result.records] == [("cancelled", 10 * MS)]
    assert result.ended_ns == 10 * MS


def test_a_client_may_give_up_before_a_dead_instance_is_found_out():
    fault = Fault(0, FaultKind.KILL, instance=0, notice_ns=NS_PER_S)
    result = run(Setup(BIG, 1, recorded(MS), faults=(fault,), patience_ns=MS // 2))
    assert [(each.outcome, each.attempts) for each in result.records] == [("cancelled", 1)]


def test_a_client_that_gave_up_asks_again():
    def ask(patience_ns):
        return run(Setup(BIG, 1, busy(clients=30, seconds=5), patience_ns=patience_ns)).records

    patient, impatient = ask(0), ask(200 * MS)
    given_up = [record for record in impatient if record.outcome == "cancelled"]
    assert {record.ended_ns - record.arrival.at_ns for record in given_up} == {200 * MS}
    assert len(impatient) > len(patient)


def test_a_router_that_waits_too_long_fails_the_request_and_tries_nobody_else():
    source = recorded(0, 0, prompt=16_000)
    result = run(Setup(BIG, 2, source, timeout_ns=300 * MS))
    assert [(each.outcome, each.attempts, each.ended_ns) for each in result.records] == [
        ("failed", 1, 300 * MS),
    ] * 2  # fmt: skip


def test_timeouts_count_against_an_instance():
    class Watched(Leaky):
        def apply(self, event, now_ns):
            causes.append(getattr(event, "cause", None))
            self.inner.apply(event, now_ns)

    causes = []
    run(Setup(BIG, 1, recorded(0, prompt=16_000), timeout_ns=300 * MS), [Watched(choosers()[0])])
    assert causes == [FailureCause.FIRST_BYTE_TIMEOUT]


def test_a_timeout_of_an_attempt_that_is_over_does_nothing():
    (record,) = run(Setup(BIG, 1, recorded(0, output=500), timeout_ns=20 * MS)).records
    assert record.outcome == "completed"


# --- jitter and adapters ----------------------------------------------------------------------


def test_jitter_moves_ends_by_the_seed_and_by_the_instance():
    def ends(**how):
        records = run(Setup(BIG, 2, recorded(0, 0), jitter=0.1, **how)).records
        return [record.first_token_ns for record in records]

    assert ends() == ends() != ends(seed=1)
    one, other = ends()
    assert one != other
    assert one != prefill(100)
    assert one == pytest.approx(prefill(100), rel=0.5)


def named(*adapters, gap_ns=NS_PER_S):
    requests = [replace(request(number), adapter=name) for number, name in enumerate(adapters)]
    return Recorded([Arrival(number * gap_ns, each) for number, each in enumerate(requests)])


def test_the_first_request_with_an_adapter_waits_for_its_load():
    result = run(Setup(BIG, 1, named("a", "a", "b", "a"), adapter_load_ns=300 * MS))
    waited = [record.first_token_ns - record.arrival.at_ns for record in result.records]
    assert waited == pytest.approx([300 * MS + prefill(100), prefill(100)] + [300 * MS + prefill(100)] * 2)
    assert result.adapter_loads == 3


def test_routers_hear_which_adapters_an_instance_has():
    class Watched(Leaky):
        def apply_targets(self, version, targets):
            told.append([target.adapters for target in targets])
            self.inner.apply_targets(version, targets)

    told = []
    setup = Setup(BIG, 1, named("b", "a"), adapter_slots=2, signal_ns=50 * MS)
    run(setup, [Watched(choosers()[0])])
    assert told == [[()], [("b",)], [("a", "b")]]


def test_requests_for_an_adapter_go_to_an_instance_that_has_it():
    result = run(Setup(BIG, 4, named(*"aabbaabb"), adapter_slots=4), choosers("RANDOM"))
    homes = {"a": set(), "b": set()}
    for record in result.records:
        homes[record.arrival.request.adapter].add(record.target)
    assert [len(each) for each in homes.values()] == [1, 1]
    assert result.adapter_loads == 2


@pytest.mark.parametrize("signal_ns", [0, 50 * MS, NS_PER_S])
def test_polls_end_with_the_requests(signal_ns):
    setup = Setup(BIG, 2, busy(seconds=1), metrics_ns=100 * MS, signal_ns=signal_ns)
    simulation = Simulation(setup, choosers("KV_AWARE"), Random(1))
    *_, end = simulation.steps()
    assert end < simulation.run.ended_ns + 100 * MS + signal_ns


def test_routers_that_want_it_poll_metrics_while_something_goes_on():
    class Watched(Leaky):
        def learn(self, news, now_ns):
            if news.load is not None:
                heard.append((now_ns, news.load.running))
            self.inner.learn(news, now_ns)

    heard = []
    setup = Setup(BIG, 1, recorded(0, output=20), metrics_ns=100 * MS, signal_ns=50 * MS)
    (record,) = run(setup, [Watched(choosers("KV_AWARE")[0])]).records
    assert heard[:3] == [(50 * MS, 0), (150 * MS, 1), (250 * MS, 1)]
    assert heard[-1][0] < record.ended_ns + 200 * MS
    heard.clear()
    run(setup, [Watched(choosers("RANDOM")[0])])
    assert heard == []


# --- faults -----------------------------------------------------------------------------------


def test_a_killed_instance_fails_what_it_has_and_what_nobody_ran_goes_elsewhere():
    fault = Fault(10 * NS_PER_S, FaultKind.KILL, instance=1, notice_ns=2 * NS_PER_S)
    result = run(Setup(BIG, 3, busy(), overhead_ns=33 * MS, faults=(fault,)))
    failed = [record for record in result.records if record.outcome == "failed"]
    assert failed
    assert {(record.target, record.ended_ns) for record in failed} == {("instance-1", 10 * NS_PER_S)}
    retried = [record for record in result.records if record.attempts > 1]
    assert retried
    assert {record.outcome for record in retried} == {"completed"}
    late = [record for record in result.records if record.arrival.at_ns > 13 * NS_PER_S]
    assert {record.target for record in late} == {"instance-0", "instance-2"}


def test_a_draining_instance_finishes_what_it_has():
    fault = Fault(10 * NS_PER_S, FaultKind.DRAIN, instance=0)
    result = run(Setup(BIG, 3, busy(), faults=(fault,)))
    assert {record.outcome for record in result.records} == {"completed"}
    mine = [record for record in result.records if record.target == "instance-0"]
    assert max(record.dispatched_ns for record in mine) <= 10 * NS_PER_S
    assert max(record.ended_ns for record in mine) > 10 * NS_PER_S


def test_a_draining_instance_is_gone_when_it_is_idle():
    class Watched(Leaky):
        def apply_targets(self, version, targets):
            told.append([f"{target.target_id} {target.state.value}" for target in targets])
            self.inner.apply_targets(version, targets)

    told = []
    faults = (Fault(MS, FaultKind.DRAIN, instance=0), Fault(NS_PER_S, FaultKind.DRAIN, instance=1))
    run(Setup(BIG, 2, recorded(0), faults=faults), [Watched(choosers()[0])])
    busy_one, idle_one = "instance-0", "instance-1"
    if told[1][0] != "instance-0 draining":  # which one had the request
        assert told[1:] == [["instance-1 in_service"], []]
    else:
        assert told[1:] == [
            [f"{busy_one} draining", f"{idle_one} in_service"], [f"{idle_one} in_service"], [],
        ]  # fmt: skip


def test_an_added_instance_takes_its_part():
    result = run(Setup(BIG, 2, busy(), faults=(Fault(10 * NS_PER_S, FaultKind.ADD),)))
    assert result.targets == ["instance-0", "instance-1", "instance-2"]
    mine = [record for record in result.records if record.target == "instance-2"]
    assert min(record.dispatched_ns for record in mine) >= 10 * NS_PER_S


def test_without_any_instance_requests_are_rejected():
    fault = Fault(0, FaultKind.KILL, instance=0)
    result = run(Setup(BIG, 1, recorded(MS), faults=(fault,)))
    assert [(record.outcome, record.reason) for record in result.records] == [("rejected", "no_target")]


def test_a_client_that_was_rejected_rests():
    fault = Fault(0, FaultKind.KILL, instance=0)
    result = run(Setup(BIG, 1, busy(clients=1, seconds=4), faults=(fault,)))
    assert [record.arrival.at_ns // NS_PER_S for record in result.records] == [0, 1, 2, 3]


def test_a_request_that_found_nobody_else_has_failed():
    fault = Fault(0, FaultKind.KILL, instance=0, notice_ns=NS_PER_S)
    result = run(Setup(BIG, 1, recorded(MS), faults=(fault,)))
    assert [(record.outcome, record.attempts) for record in result.records] == [("failed", 1)]


def test_a_request_on_its_way_to_an_instance_that_dies_fails():
    fault = Fault(10 * MS, FaultKind.KILL, instance=0)
    result = run(Setup(BIG, 1, recorded(0), overhead_ns=33 * MS, faults=(fault,)))
    assert [(record.outcome, record.ended_ns) for record in result.records] == [("failed", 10 * MS)]


def test_ejected_instances_come_back_at_their_deadline():
    # Nobody is told of the death: the routers find out by themselves, again and again.
    fault = Fault(5 * NS_PER_S, FaultKind.KILL, instance=0, notice_ns=60 * NS_PER_S)
    result = run(Setup(BIG, 2, busy(), faults=(fault,)))
    assert len({record.dispatched_ns // NS_PER_S for record in result.records if record.attempts > 1}) > 2


# --- determinism ------------------------------------------------------------------------------


def log(result):
    return "\n".join(record.line() for record in result.records)


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_seed_gives_the_same_log(name):
    setups = [Setup(BIG, 3, busy(), overhead_ns=33 * MS) for _ in range(2)]
    first, second = [run(setup, choosers(name, count=2)) for setup in setups]
    assert log(first) == log(second)
    assert log(run(Setup(BIG, 3, busy(seed=2)), choosers(name, count=2))) != log(first)


def troubled():
    """Everything that is random or goes wrong, at once."""
    faults = (
        Fault(5 * NS_PER_S, FaultKind.KILL, instance=1, notice_ns=NS_PER_S),
        Fault(7 * NS_PER_S, FaultKind.ADD),
        Fault(12 * NS_PER_S, FaultKind.DRAIN, instance=0),
    )
    source = Partitioned(busy(clients=12), Random(5), adapters=4, salts=2)
    return Setup(
        replace(BIG, kv_blocks=2_000), 3, source, faults=faults, adapter_slots=2,
        signal_ns=50 * MS, signal_loss=0.2, signal_resync_ns=100 * MS, metrics_ns=70 * MS,
        patience_ns=600 * MS, timeout_ns=800 * MS, jitter=0.1, adapter_load_ns=50 * MS, seed=3,
    )  # fmt: skip


def test_everything_that_can_go_wrong_does_in_the_run_that_is_compared():
    result = run(troubled(), choosers("KV_AWARE", count=2))
    assert {record.outcome for record in result.records} == {"completed", "failed", "cancelled"}
    assert (result.evicted_blocks > 0, result.adapter_loads > 0) == (True, True)


def test_the_logs_of_all_policies_are_the_same_under_any_hash_seed():
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import importlib.util as u\n"
        "s = u.spec_from_file_location('t', sys.argv[2])\n"
        "t = u.module_from_spec(s); s.loader.exec_module(t)\n"
        "for name in t.POLICIES: print(name, t.log(t.run(t.troubled(), t.choosers(name, 2))))\n"
    )
    logs = [
        subprocess.run(
            [sys.executable, "-c", script, "src", __file__],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "77")
    ]  # fmt: skip
    assert logs[0] == logs[1]
    assert logs[0].count("\n") > 50 * len(POLICIES)


def test_several_routers_each_keep_their_own_counts():
    routers = choosers("PREFIX_AWARE", count=3, threshold=1)
    result = run(Setup(BIG, 3, busy()), routers)
    assert {record.outcome for record in result.records} == {"completed"}
    assert [router.open_leases() for router in routers] == [0, 0, 0]


# --- the checks -------------------------------------------------------------------------------


class Leaky:
    """A chooser that says something wrong about its leases."""

    def __init__(self, inner, **lies):
        self.inner, self.lies = inner, lies

    def __getattr__(self, name):
        return (lambda: self.lies[name]) if name in self.lies else getattr(self.inner, name)


@pytest.mark.parametrize(
    ("lies", "message"),
    [
        ({"open_leases": 3}, "1 requests in flight and 3 open leases"),
        ({"in_flight": {"instance-0": -1}}, "a negative count"),
        ({"in_flight": {"instance-0": 2}}, "2 counted, 1 open leases"),
    ],
)
def test_a_broken_invariant_stops_the_run(lies, message):
    with pytest.raises(AssertionError, match=message):
        run(Setup(BIG, 1, recorded(0)), [Leaky(choosers()[0], **lies)])


def test_a_chooser_may_refuse():
    class Never(Leaky):
        def decide(self, *_):
            return Refused(Refusal.ALL_EJECTED)

    result = run(Setup(BIG, 1, recorded(0)), [Never(choosers()[0])])
    assert [record.reason for record in result.records] == ["all_ejected"]


def test_a_run_can_be_watched_and_left():
    simulation = Simulation(Setup(BIG, 1, busy()), choosers(), Random(1))
    times = [at for at, _ in zip(simulation.steps(), range(10), strict=False)]
    assert times == sorted(times)
    assert simulation.run.records
