"""Random clusters, workloads and faults: runs end, every request has an end, equal seeds have equal logs."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.engine.profile import PROFILES
from warmroute.sim.driver import Setup, simulate
from warmroute.sim.faults import Fault, FaultKind
from warmroute.sim.policies import POLICIES
from warmroute.sim.policy import Settings
from warmroute.workload.arrivals import NS_PER_S, ClosedLoop
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
    seed=st.integers(0, 5),
)
def test_every_run_ends_with_everything_accounted_for(
    policy, instances, routers, clients, threshold, blocks, drawn, seed
):
    def run():
        rng = Random(seed)
        maker = RenewedPrefixes(live=4, uses=5, prefix_tokens=1024, lengths=Lengths(150, 50, 0.8), rng=rng)
        source = ClosedLoop(
            clients, maker, think=lambda: NS_PER_S // 10, ramp_ns=NS_PER_S, end_ns=SECONDS * NS_PER_S
        )
        setup = Setup(
            replace(PROFILES["llama-3.1-70b-8xh100"], kv_blocks=blocks),
            instances,
            source,
            overhead_ns=33_000_000,
            faults=faults_of(drawn, instances),
        )
        choosers = [POLICIES[policy](Settings(1024, threshold), Random(n)) for n in range(routers)]
        return simulate(setup, choosers, Random(seed))

    result = run()
    assert all(record.outcome for record in result.records)
    for record in result.records:
        completed = record.outcome == "completed"
        assert completed == (record.first_token_ns > 0) or record.outcome == "failed"
        assert (record.attempts == 0) == (record.outcome == "rejected")
        assert record.arrival.at_ns <= record.ended_ns
        assert record.cached_tokens < record.arrival.request.prompt_tokens
    if not any(each.kind is FaultKind.KILL for each in faults_of(drawn, instances)) and blocks > 150:
        assert {record.outcome for record in result.records} <= {"completed", "rejected"}
    assert [record.line() for record in run().records] == [record.line() for record in result.records]
