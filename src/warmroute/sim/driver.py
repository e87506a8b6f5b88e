"""Runs clients, routers and engines in virtual time, and checks at every step that nothing gets lost.

The routers are the live code; instances are engine models. A request arrives, a router decides at
once, the instance's own overhead passes, the engine queues it. Nothing here decides anything.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

from warmroute.core.decision import Lease, Refused
from warmroute.core.events import Cancelled, Completed, Failed, FailureCause, FirstToken
from warmroute.core.fleet import TargetState
from warmroute.engine.adapters import AdapterSlots
from warmroute.engine.jitter import Jitter
from warmroute.engine.prefix_cache import PrefixCache
from warmroute.engine.scheduler import Engine, Finished
from warmroute.engine.scheduler import Sequence as EngineSequence
from warmroute.routing.retry import RetryBudget, may_try_again
from warmroute.sim.clock import Agenda
from warmroute.sim.faults import Fault, FaultKind
from warmroute.sim.happenings import (
    Came,
    DeadlineEnds,
    Happening,
    NotReached,
    PatienceEnds,
    Polled,
    Reached,
    RequestHappening,
    StepsEnd,
    TimeoutEnds,
    Told,
)
from warmroute.sim.instance import Attempt, Instance
from warmroute.sim.policy import Chooser
from warmroute.sim.records import OUTCOMES, Record, Run
from warmroute.sim.setup import Setup
from warmroute.sim.signals import Heard, Replayed, Signals
from warmroute.workload.arrivals import Arrival

CONNECT_REFUSED_NS = 1_000_000
"""How long it takes to find out that nobody listens."""
REST_NS = 1_000_000_000
"""A client whose request failed or was rejected rests so long: with no think time it would try for ever."""
IDEAL_BLOCKS = 1 << 60
"""A cache without limits."""


class Simulation:
    """One run.

    Args:
        setup: Everything but the policy.
        choosers: The routers; an invocation goes to any of them.
        rng: Which router an invocation reaches.
        stopwatch: Returns nanoseconds of a real clock, to measure decisions; part of no decision.
    """

    def __init__(
        self,
        setup: Setup,
        choosers: Sequence[Chooser],
        rng: Random,
        *,
        stopwatch: Callable[[], int] | None = None,
    ) -> None:
        self.run = Run()
        self._setup = setup
        self._choosers = choosers
        self._rng = rng
        self._stopwatch = stopwatch
        self._agenda: Agenda[Happening] = Agenda()
        self._signals = Signals(
            [chooser for chooser in choosers if chooser.wants_events],
            self._agenda.add,
            delay_ns=setup.signal_ns,
            loss=setup.signal_loss,
            resync_ns=setup.signal_resync_ns,
            rng=setup.stream("signals"),
        )
        self._instances = [self._new_instance(number) for number in range(setup.instances)]
        self._by_name: dict[str, Instance] = {}
        self._version = 0
        self._budget = RetryBudget()
        self._ideal = PrefixCache(IDEAL_BLOCKS)
        self._dirty: dict[Instance, None] = {}
        self._listed: Iterator[Arrival] = iter(())
        self._coming = 0
        self._ended = dict.fromkeys(OUTCOMES, 0)
        # Whether anything has happened since the last check that leases could have changed with.
        self._touched = True
        for instance in self._instances:
            self._announce(instance)

    # --- the loop ---------------------------------------------------------------------------
    def steps(self) -> Iterator[int]:
        """Run to the end; yields the virtual time, in nanoseconds, after everything that happens at it."""
        self._tell()
        for fault in self._setup.faults:
            self._agenda.add(fault.at_ns, fault)
        self._listed = iter(self._setup.source.first())
        self._next_listed()
        if self._setup.metrics_ns and self._signals.wanted:
            self._agenda.add(0, Polled())
        agenda = self._agenda
        while len(agenda):
            self._happen(agenda.next())
            while agenda.more_now:
                self._happen(agenda.next())
            for instance in self._dirty:
                self._wake(instance)
            self._dirty.clear()
            self._check()
            yield agenda.now_ns
        self._close()

    def _happen(self, event: Happening) -> None:
        match event:
            case StepsEnd(instance):
                self._steps_end(instance)
            case Came() | Reached() | NotReached() | PatienceEnds() | TimeoutEnds():
                self._happen_to_request(event)
            case Heard() | Replayed():
                self._signals.happen(event, self._agenda.now_ns)
            case DeadlineEnds(chooser):
                self._touched = True
                chooser.on_deadline(self._agenda.now_ns)
                self._watch(chooser)
            case Told():
                self._tell()
            case Polled():
                self._poll()
            case Fault():
                self._fault(event)

    # --- requests ---------------------------------------------------------------------------
    def _happen_to_request(self, event: RequestHappening) -> None:
        match event:
            case Came(arrival, from_list):
                self._coming -= 1
                self._came(arrival)
                if from_list:
                    self._next_listed()
            case Reached(attempt, lease):
                if lease is attempt.lease:  # else its instance has died, or nobody waits for it any more
                    self._reached(attempt, lease)
            case NotReached(attempt, lease):
                if lease is attempt.lease:
                    self._failed(attempt, FailureCause.CONNECT_FAILED)
            case PatienceEnds(attempt):
                self._patience_ends(attempt)
            case TimeoutEnds(attempt, lease):
                self._timeout_ends(attempt, lease)

    def _next_listed(self) -> None:
        arrival = next(self._listed, None)
        if arrival is not None:
            self._comes(arrival, from_list=True)

    def _comes(self, arrival: Arrival, *, from_list: bool) -> None:
        self._coming += 1
        self._agenda.add(max(arrival.at_ns, self._agenda.now_ns), Came(arrival, from_list=from_list))

    def _came(self, arrival: Arrival) -> None:
        record = Record(len(self.run.records), arrival)
        self.run.records.append(record)
        record.ideal_tokens = self._ideal_tokens(arrival)
        routers = self._choosers
        chooser = routers[int(self._rng.random() * len(routers))] if len(routers) > 1 else routers[0]
        self._budget.invocation(self._agenda.now_ns)
        attempt = Attempt(record, chooser, chooser.asked(arrival.request))
        if self._setup.patience_ns:
            self._agenda.add(self._agenda.now_ns + self._setup.patience_ns, PatienceEnds(attempt))
        self._decide(attempt)

    def _ideal_tokens(self, arrival: Arrival) -> int:
        request, block = arrival.request, self._setup.profile.block_tokens
        total = (request.prompt_tokens + request.output_tokens - 1) // block
        found, _ = self._ideal.match(request.runs, total)
        hold = self._ideal.pin(request.runs, found)
        self._ideal.reserve(hold, total - found)
        self._ideal.publish(hold, total)
        self._ideal.release(hold)
        return min(found, (request.prompt_tokens - 1) // block) * block

    def _decide(self, attempt: Attempt) -> None:
        self._touched = True
        now_ns = self._agenda.now_ns
        record, request = attempt.record, attempt.record.arrival.request
        began = self._stopwatch() if self._stopwatch else 0
        decision = attempt.chooser.decide(request, attempt.asked, now_ns, attempt.tried)
        if self._stopwatch:
            self.run.decision_ns += self._stopwatch() - began
        self.run.decisions += 1
        if isinstance(decision, Refused):
            record.reason = decision.refusal.value
            self._over(record, "failed" if record.attempts else "rejected")
            return
        record.attempts += 1
        record.target = decision.target.target_id
        record.reason = decision.reason.value
        record.rank = decision.rank
        record.dispatched_ns = now_ns
        instance = self._by_name[record.target]
        attempt.lease, attempt.instance = decision.lease, instance
        if not instance.alive:
            self._agenda.add(now_ns + CONNECT_REFUSED_NS, NotReached(attempt, decision.lease))
            return
        instance.open[record.number] = attempt
        if self._setup.timeout_ns:
            self._agenda.add(now_ns + self._setup.timeout_ns, TimeoutEnds(attempt, decision.lease))
        overhead = self._setup.overhead_ns + self._setup.token_overhead_ns * request.prompt_tokens
        self._agenda.add(now_ns + overhead, Reached(attempt, decision.lease))

    def _reached(self, attempt: Attempt, lease: Lease) -> None:
        instance, record = attempt.instance, attempt.record
        assert instance is not None, "an attempt with a lease has an instance"
        request = record.arrival.request
        if not instance.engine.fits(request.prompt_tokens, request.output_tokens):
            self._take_back(attempt)
            # The model's own refusal: an answer, and no failure of the instance.
            self._release(attempt, Completed(lease))
            self._over(record, "failed")
            return
        sequence = EngineSequence(
            record.number,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            runs=request.runs,
            adapter=request.adapter,
        )
        attempt.sequence = sequence
        instance.engine.submit(sequence, self._agenda.now_ns * 1000)
        self._dirty[instance] = None

    def _steps_end(self, instance: Instance) -> None:
        engine, now_ns = instance.engine, self._agenda.now_ns
        if not instance.alive or engine.ends_ps is None or engine.ends_ps > now_ns * 1000:
            return  # an arrival cut these steps short, and a newer event ends them
        for output in engine.advance():
            sequence = output.sequence
            attempt = instance.open[sequence.number]
            lease, record = attempt.lease, attempt.record
            assert lease is not None, "an attempt in an engine has a lease"
            if isinstance(output, Finished):
                attempt.sequence = None
                self._take_back(attempt)
                told = Completed(lease, sequence.prompt_tokens, record.cached_tokens, sequence.output_tokens)
                self._release(attempt, told)
                self._over(record, "completed")
            else:
                record.first_token_ns = now_ns
                record.cached_tokens = sequence.cached_tokens or 0
                attempt.chooser.apply(FirstToken(lease), now_ns)
        if engine.cache.events:
            # Before the next request of whoever got the last token, which may come in the same instant.
            self._signals.publish(instance, now_ns)
        self._dirty[instance] = None

    def _wake(self, instance: Instance) -> None:
        """Let an engine plan, now that everything of this time has happened, and note when it is due."""
        if not instance.alive:
            return
        instance.engine.plan(self._agenda.now_ns * 1000)
        if instance.engine.cache.events:
            self._signals.publish(instance, self._agenda.now_ns)
        if instance.engine.adapters.loads != instance.loads_known:
            self._tell_adapters(instance)
        ends_ps = instance.engine.ends_ps
        if ends_ps is not None and (wakes_ns := -(-ends_ps // 1000)) != instance.wakes_ns:
            instance.wakes_ns = wakes_ns
            self._agenda.add(wakes_ns, StepsEnd(instance))

    # --- ends -------------------------------------------------------------------------------
    def _patience_ends(self, attempt: Attempt) -> None:
        record, lease = attempt.record, attempt.lease
        if record.outcome or record.first_token_ns:
            return
        assert lease is not None, "an invocation on its way has a lease"
        self._take_back(attempt)
        self._release(attempt, Cancelled(lease))
        self._over(record, "cancelled")

    def _timeout_ends(self, attempt: Attempt, lease: Lease) -> None:
        if lease is attempt.lease and not attempt.record.first_token_ns:
            self._take_back(attempt)
            self._failed(attempt, FailureCause.FIRST_BYTE_TIMEOUT)

    def _take_back(self, attempt: Attempt) -> None:
        """Take an attempt from its instance, whose engine stops working on it."""
        instance, sequence = attempt.instance, attempt.sequence
        attempt.instance = attempt.sequence = None
        if instance is None or instance.open.pop(attempt.record.number, None) is None:
            return  # nobody listened there
        if sequence is not None:
            instance.engine.abort(sequence, self._agenda.now_ns * 1000)
            self._dirty[instance] = None
        target = instance.target
        if target is not None and target.state is TargetState.DRAINING and not instance.open:
            instance.target = None
            self._agenda.add(self._agenda.now_ns, Told())

    def _release(self, attempt: Attempt, event: Completed | Failed | Cancelled) -> None:
        self._touched = True
        attempt.lease = attempt.instance = attempt.sequence = None
        attempt.chooser.apply(event, self._agenda.now_ns)

    def _failed(self, attempt: Attempt, cause: FailureCause) -> None:
        assert attempt.lease is not None, "an attempt that fails has a lease"
        now_ns = self._agenda.now_ns
        target = attempt.lease.target.target_id
        self._release(attempt, Failed(attempt.lease, cause))
        self._watch(attempt.chooser)
        attempt.tried = (*attempt.tried, target)
        attempts = attempt.record.attempts
        if may_try_again(cause, attempts=attempts, budget=self._budget, now_ns=now_ns):
            self._decide(attempt)
        else:
            self._over(attempt.record, "failed")

    def _watch(self, chooser: Chooser) -> None:
        deadline_ns = chooser.next_deadline_ns()
        if deadline_ns is not None:
            self._agenda.add(max(deadline_ns, self._agenda.now_ns), DeadlineEnds(chooser))

    def _over(self, record: Record, outcome: str) -> None:
        now_ns = self._agenda.now_ns
        assert not record.outcome, "an invocation ends once"
        record.outcome = outcome
        record.ended_ns = now_ns
        self._ended[outcome] += 1
        if outcome == "completed":
            in_order = record.arrival.at_ns <= record.dispatched_ns <= record.first_token_ns <= now_ns
            assert in_order, f"the times of request {record.number} are out of order: {record.line()}"
        self.run.ended_ns = now_ns
        resumes_ns = now_ns if outcome in ("completed", "cancelled") else now_ns + REST_NS
        for following in self._setup.source.after(record.arrival, resumes_ns):
            self._comes(following, from_list=False)

    # --- the fleet --------------------------------------------------------------------------
    def _new_instance(self, number: int) -> Instance:
        setup = self._setup
        engine = Engine(
            setup.profile,
            record=self._signals.wanted,
            jitter=Jitter(setup.jitter, setup.stream(f"engine {number}")) if setup.jitter else None,
            adapters=AdapterSlots(setup.adapter_slots, setup.adapter_load_ns * 1000),
        )
        return Instance(number, engine)

    def _announce(self, instance: Instance) -> None:
        assert instance.target is not None, "a new instance has a target"
        self._by_name[instance.target.target_id] = instance
        self.run.targets.append(instance.target.target_id)

    def _tell(self) -> None:
        self._touched = True
        self._version += 1
        targets = tuple(each.target for each in self._instances if each.target is not None)
        for chooser in self._choosers:
            chooser.apply_targets(self._version, targets)

    def _poll(self) -> None:
        for instance in self._instances:
            self._signals.poll(instance, self._agenda.now_ns)
        if self._coming or sum(self._ended.values()) < len(self.run.records):
            self._agenda.add(self._agenda.now_ns + self._setup.metrics_ns, Polled())

    def _tell_adapters(self, instance: Instance) -> None:
        """Let the routers know, sooner or later, which adapters an engine has."""
        adapters = instance.engine.adapters
        instance.loads_known = adapters.loads
        if instance.target is not None:
            instance.target = replace(instance.target, adapters=tuple(sorted(adapters.loaded)))
            self._agenda.add(self._agenda.now_ns + self._setup.signal_ns, Told())

    def _fault(self, fault: Fault) -> None:
        if fault.kind is FaultKind.ADD:
            instance = self._new_instance(len(self._instances))
            self._instances.append(instance)
            self._announce(instance)
            self._tell()
            return
        if fault.instance >= len(self._instances):
            return
        instance = self._instances[fault.instance]
        if fault.kind is FaultKind.KILL:
            self._kill(instance, fault.notice_ns)
        elif instance.target is not None:
            draining = replace(instance.target, state=TargetState.DRAINING)
            instance.target = draining if instance.open else None
            self._tell()

    def _kill(self, instance: Instance, notice_ns: int) -> None:
        instance.alive = False
        instance.target = None
        lost, instance.open = list(instance.open.values()), {}
        for attempt in lost:
            self._failed(attempt, FailureCause.CLOSED)
        self._agenda.add(self._agenda.now_ns + notice_ns, Told())

    # --- invariants -------------------------------------------------------------------------
    def _check(self) -> None:
        if not self._touched:
            return
        self._touched = False
        in_flight = len(self.run.records) - sum(self._ended.values())
        leases = sum([chooser.open_leases() for chooser in self._choosers])
        assert in_flight == leases, (
            f"at {self._agenda.now_ns} ns: {in_flight} requests in flight and {leases} open leases"
        )
        counted = 0
        for chooser in self._choosers:
            counts = chooser.in_flight().values()
            assert min(counts, default=0) >= 0, f"at {self._agenda.now_ns} ns: a negative count"
            counted += sum(counts)
        assert counted == leases, f"at {self._agenda.now_ns} ns: {counted} counted, {leases} open leases"

    def _close(self) -> None:
        assert all(record.outcome for record in self.run.records), "the run ended with requests in flight"
        for instance in self._instances:
            self.run.preemptions += instance.engine.preemptions
            self.run.evicted_blocks += instance.engine.cache.evicted
            self.run.adapter_loads += instance.engine.adapters.loads
            if instance.alive:
                assert instance.engine.cache.used == 0, "an idle engine holds blocks"


def simulate(
    setup: Setup, choosers: Sequence[Chooser], rng: Random, *, stopwatch: Callable[[], int] | None = None
) -> Run:
    """Run a simulation to its end.

    Args:
        setup: Everything but the policy.
        choosers: The routers, at least one.
        rng: Which router an invocation reaches.
        stopwatch: Returns nanoseconds of a real clock, to measure decisions.

    Raises:
        AssertionError: An invariant does not hold; the message says when.
    """
    simulation = Simulation(setup, choosers, rng, stopwatch=stopwatch)
    for _ in simulation.steps():
        pass
    return simulation.run
