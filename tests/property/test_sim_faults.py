"""Random clusters, workloads and faults: runs end, every request has an end, equal seeds have equal logs."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.engine.profile import PROFILES
from warmroute.sim.driver import simulate
from warmroute.sim.faults import Fault, FaultKind
from warmroute.sim.policies import POLICIES
from warmroute.sim.policy import Settings
from warmroute.sim.setup import Setup
from warmroute.workload.arrivals import NS_PER_S, ClosedLoop
from warmroute.workload.partitions import Partitioned
from warmroute.workload.prompts import Lengths, RenewedPrefixes

SECONDS = 12
FAULTS = st.lists(
    st.tuples(
        st.integers(0, SECONDS * NS_PER_S),
        st.sampled_from(list(FaultKind)),
        st.integers(0, 5),
        st.sampled_from([0, 10**9, 30 * 10**9]),
    ),
    max_size=4,
)
TROUBLES = st.fixed_dictionaries(
    {},
    optional={
        "signal_ns": st.sampled_from([0, 50_000_000, 10**9]),
        "signal_loss": st.sampled_from([0.1, 0.9]),
        "signal_resync_ns": st.sampled_from([1, 200_000_000]),
        "metrics_ns": st.sampled_from([50_000_000, 10**9]),
        "patience_ns": st.sampled_from([1, 40_000_000, 400_000_000]),
        "timeout_ns": st.sampled_from([1, 60_000_000, 400_000_000]),
        "jitter": st.sampled_from([0.1, 0.8]),
        "adapter_slots": st.sampled_from([1, 3]),
        "adapter_load_ns": st.sampled_from([0, 300_000_000]),
    },
)


def faults_of(drawn, instances):
    """Keep what can happen: an instance dies or drains once, and only after it was there."""
    gone, there, kept = set(), instances, []
    for at, kind, which, notice in sorted(drawn, key=lambda each: each[0]):
        if kind is FaultKind.ADD:
            there += 1
        elif which >= there or which in gone:
            continue
        else:
            gone.add(which)
        kept.append(Fault(at, kind, which, notice))
    return tuple(kept)


@settings(max_examples=60, deadline=None)
@given(
    policy=st.sampled_from(list(POLICIES)),
    instances=st.integers(1, 4),
    routers=st.integers(1, 3),
    clients=st.integers(1, 12),
    threshold=st.sampled_from([1, 3, 64]),
    blocks=st.sampled_from([150, 600, 84_375]),
    drawn=FAULTS,
    troubles=TROUBLES,
    adapters=st.sampled_from([0, 0, 2, 5]),
    seed=st.integers(0, 5),
)
def test_every_run_ends_with_everything_accounted_for(
    policy, instances, routers, clients, threshold, blocks, drawn, troubles, adapters, seed
):
    def run():
        rng = Random(seed)
        maker = RenewedPrefixes(live=4, uses=5, prefix_tokens=1024, lengths=Lengths(150, 50, 0.8), rng=rng)
        source = ClosedLoop(
            clients, maker, think=lambda: NS_PER_S // 10, ramp_ns=NS_PER_S, end_ns=SECONDS * NS_PER_S
        )
        source = Partitioned(source, Random(seed), adapters=adapters)
        setup = Setup(
            replace(PROFILES["llama-3.1-70b-8xh100"], kv_blocks=blocks),
            instances,
            source,
            overhead_ns=33_000_000,
            faults=faults_of(drawn, instances),
            seed=seed,
            **troubles,
        )
        choosers = [POLICIES[policy](Settings(1024, threshold), Random(n)) for n in range(routers)]
        return simulate(setup, choosers, Random(seed))

    result = run()
    assert all(record.outcome for record in result.records)
    for record in result.records:
        completed = record.outcome == "completed"
        assert completed == (record.first_token_ns > 0) or record.outcome == "failed"
        assert record.outcome != "cancelled" or "patience_ns" in troubles
        assert (record.attempts == 0) == (record.outcome == "rejected")
        assert record.arrival.at_ns <= record.ended_ns
        assert record.cached_tokens < record.arrival.request.prompt_tokens
    killed = any(each.kind is FaultKind.KILL for each in faults_of(drawn, instances))
    if not killed and blocks > 150 and "timeout_ns" not in troubles:
        assert "failed" not in {record.outcome for record in result.records}
    assert [record.line() for record in run().records] == [record.line() for record in result.records]
