"""Runs clients, routers and engines in virtual time, and checks at every step that nothing gets lost.

The routers are the live code; instances are engine models. A request arrives, a router decides at
once, the instance's own overhead passes, the engine queues it. Nothing here decides anything.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from warmroute.core.decision import Lease, Refused
from warmroute.core.events import Completed, Failed, FailureCause, FirstToken
from warmroute.core.fleet import Target, TargetState
from warmroute.engine.prefix_cache import PrefixCache
from warmroute.engine.profile import Profile
from warmroute.engine.scheduler import Engine, Finished
from warmroute.engine.scheduler import Sequence as EngineSequence
from warmroute.routing.retry import RetryBudget, may_try_again
from warmroute.sim.clock import Agenda
from warmroute.sim.faults import Fault, FaultKind
from warmroute.sim.instance import Attempt, Instance
from warmroute.sim.policy import Chooser
from warmroute.sim.records import Record, Run
from warmroute.sim.signals import Heard, Replayed, Signal, Signals
from warmroute.workload.arrivals import Arrival, Source

CONNECT_REFUSED_NS = 1_000_000
"""How long it takes to find out that nobody listens."""
IDEAL_BLOCKS = 1 << 60
"""A cache without limits."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A run, but for the policy.

    Attributes:
        profile: Of every instance.
        instances: How many there are at the start.
        source: Where requests come from.
        overhead_ns: Per request, at the instance, before the engine has it.
        token_overhead_ns: The same per prompt token.
        signal_ns: How old what engines tell of their caches is when routers hear it.
        signal_loss: Share of what they tell that a router does not get, 0 to 1.
        signal_resync_ns: From noticing that until the engine has answered with everything it has; 0 = never.
        faults: In any order.
        seed: Of what is random in the machines, not in the workload.
    """

    profile: Profile
    instances: int
    source: Source
    overhead_ns: int = 0
    token_overhead_ns: int = 0
    signal_ns: int = 0
    signal_loss: float = 0.0
    signal_resync_ns: int = 0
    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def stream(self, name: str) -> Random:
        """Return a source of randomness of its own, the same one under any PYTHONHASHSEED."""
        return Random(f"{self.seed} {name}")  # noqa: S311  (a simulation)


@dataclass(frozen=True, slots=True)
class _Came:
    arrival: Arrival
    from_list: bool


@dataclass(frozen=True, slots=True)
class _Reached:
    attempt: Attempt
    lease: Lease


@dataclass(frozen=True, slots=True)
class _Refused:
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class _StepsEnd:
    instance: Instance


@dataclass(frozen=True, slots=True)
class _Told:
    """The routers hear of the targets as they are now."""


@dataclass(frozen=True, slots=True)
class _Deadline:
    chooser: Chooser


_Event = _Came | _Reached | _Refused | _StepsEnd | Fault | _Told | _Deadline | Signal


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
        self._agenda: Agenda[_Event] = Agenda()
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
        self._ended = dict.fromkeys(("completed", "failed", "rejected"), 0)
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

    def _happen(self, event: _Event) -> None:
        match event:
            case _StepsEnd(instance):
                self._steps_end(instance)
            case _Came(arrival, from_list):
                self._came(arrival)
                if from_list:
                    self._next_listed()
            case _Reached(attempt, lease):
                self._reached(attempt, lease)
            case _Refused(attempt):
                self._failed(attempt, FailureCause.CONNECT_FAILED)
            case _Deadline(chooser):
                chooser.on_deadline(self._agenda.now_ns)
                self._watch(chooser)
            case Heard() | Replayed():
                self._signals.happen(event, self._agenda.now_ns)
            case _Told():
                self._tell()
            case Fault():
                self._fault(event)

    # --- requests ---------------------------------------------------------------------------
    def _next_listed(self) -> None:
        arrival = next(self._listed, None)
        if arrival is not None:
            self._agenda.add(max(arrival.at_ns, self._agenda.now_ns), _Came(arrival, from_list=True))

    def _came(self, arrival: Arrival) -> None:
        record = Record(len(self.run.records), arrival)
        self.run.records.append(record)
        record.ideal_tokens = self._ideal_tokens(arrival)
        routers = self._choosers
        chooser = routers[int(self._rng.random() * len(routers))] if len(routers) > 1 else routers[0]
        self._budget.invocation(self._agenda.now_ns)
        self._decide(Attempt(record, chooser, chooser.asked(arrival.request)))

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
            self._agenda.add(now_ns + CONNECT_REFUSED_NS, _Refused(attempt))
            return
        instance.open[record.number] = attempt
        overhead = self._setup.overhead_ns + self._setup.token_overhead_ns * request.prompt_tokens
        self._agenda.add(now_ns + overhead, _Reached(attempt, decision.lease))

    def _reached(self, attempt: Attempt, lease: Lease) -> None:
        instance, record = attempt.instance, attempt.record
        if lease is not attempt.lease or instance is None:
            return  # its instance died meanwhile
        request = record.arrival.request
        if not instance.engine.fits(request.prompt_tokens, request.output_tokens):
            del instance.open[record.number]
            # The model's own refusal: an answer, and no failure of the instance.
            self._release(attempt, Completed(lease))
            self._over(record, "failed")
            return
        sequence = EngineSequence(
            record.number,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            runs=request.runs,
        )
        instance.engine.submit(sequence, self._agenda.now_ns * 1000)
        self._dirty[instance] = None

    def _steps_end(self, instance: Instance) -> None:
        engine, now_ns = instance.engine, self._agenda.now_ns
        if not instance.alive or engine.ends_ps is None or engine.ends_ps > now_ns * 1000:
            return  # an arrival cut these steps short, and a newer event ends them
        for output in engine.advance():
            sequence = output.sequence
            attempt = instance.open[sequence.number]
            if isinstance(output, Finished):
                del instance.open[sequence.number]
                assert attempt.lease is not None, "an attempt in an engine has a lease"
                told = Completed(attempt.lease, sequence.prompt_tokens, attempt.record.cached_tokens)
                self._release(attempt, told)
                self._over(attempt.record, "completed")
            else:
                attempt.record.first_token_ns = now_ns
                attempt.record.cached_tokens = sequence.cached_tokens or 0
                assert attempt.lease is not None, "an attempt in an engine has a lease"
                attempt.chooser.apply(FirstToken(attempt.lease), now_ns)
        self._dirty[instance] = None

    def _wake(self, instance: Instance) -> None:
        """Let an engine plan, now that everything of this time has happened, and note when it is due."""
        if not instance.alive:
            return
        instance.engine.plan(self._agenda.now_ns * 1000)
        if instance.engine.cache.events:
            self._signals.publish(instance, self._agenda.now_ns)
        ends_ps = instance.engine.ends_ps
        if ends_ps is not None and (wakes_ns := -(-ends_ps // 1000)) != instance.wakes_ns:
            instance.wakes_ns = wakes_ns
            self._agenda.add(wakes_ns, _StepsEnd(instance))

    # --- ends -------------------------------------------------------------------------------
    def _release(self, attempt: Attempt, event: Completed | Failed) -> None:
        attempt.lease = attempt.instance = None
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
            self._agenda.add(max(deadline_ns, self._agenda.now_ns), _Deadline(chooser))

    def _over(self, record: Record, outcome: str) -> None:
        now_ns = self._agenda.now_ns
        assert not record.outcome, "an invocation ends once"
        record.outcome = outcome
        record.ended_ns = now_ns
        self._ended[outcome] += 1
        if outcome == "completed":
            in_order = record.arrival.at_ns <= record.dispatched_ns <= record.first_token_ns <= now_ns
            assert in_order, f"the times of request {record.number} are out of order: {record.line()}"
        following = self._setup.source.after(record.arrival, now_ns)
        if following is not None:
            self._agenda.add(following.at_ns, _Came(following, from_list=False))

    # --- the fleet --------------------------------------------------------------------------
    def _new_instance(self, number: int) -> Instance:
        return Instance(number, Engine(self._setup.profile, record=self._signals.wanted))

    def _announce(self, instance: Instance) -> None:
        assert instance.target is not None, "a new instance has a target"
        self._by_name[instance.target.target_id] = instance
        self.run.targets.append(instance.target.target_id)

    def _tell(self) -> None:
        self._version += 1
        targets = tuple(each.target for each in self._instances if each.target is not None)
        for chooser in self._choosers:
            chooser.apply_targets(self._version, targets)

    def _fault(self, fault: Fault) -> None:
        now_ns = self._agenda.now_ns
        match fault.kind:
            case FaultKind.ADD:
                instance = self._new_instance(len(self._instances))
                self._instances.append(instance)
                self._announce(instance)
                self._tell()
            case FaultKind.DRAIN:
                instance = self._instances[fault.instance]
                assert instance.target is not None, "an instance drains once"
                instance.target = _draining(instance.target)
                self._tell()
            case FaultKind.KILL:
                instance = self._instances[fault.instance]
                instance.alive = False
                instance.target = None
                lost, instance.open = list(instance.open.values()), {}
                for attempt in lost:
                    self._failed(attempt, FailureCause.CLOSED)
                self._agenda.add(now_ns + fault.notice_ns, _Told())

    # --- invariants -------------------------------------------------------------------------
    def _check(self) -> None:
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
            if instance.alive:
                assert instance.engine.cache.used == 0, "an idle engine holds blocks"
        self.run.ended_ns = self._agenda.now_ns


def _draining(target: Target) -> Target:
    return Target(
        target.target_id,
        target.instance_id,
        target.generation,
        target.host,
        target.port,
        state=TargetState.DRAINING,
    )


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
