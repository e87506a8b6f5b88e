"""Brings what runs in line with what is recorded, again and again.

A step lists the instances, plans inside one transaction, commits, and only then acts. Instance
records are written before anything is started and removed after everything is gone, so a crash
between any two actions leaves nothing that the next process does not find.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from warmroute.controlplane.changes import Changes
from warmroute.controlplane.health import HealthChecks
from warmroute.controlplane.lora.loads import AdapterKeeper, Planned
from warmroute.controlplane.planning import Records, is_quiet, plan_all, write_plans
from warmroute.controlplane.ports import (
    Clock,
    HealthProbe,
    InstanceFact,
    InstanceOrder,
    InstancePhase,
    Provider,
    ProviderRefused,
    RouterStream,
    Spawner,
    Store,
    StoreUnavailable,
    Transaction,
)
from warmroute.controlplane.publish import Identity, build_fleet, target_generation
from warmroute.controlplane.transactions import run
from warmroute.core import limits
from warmroute.core.fleet import Fleet
from warmroute.core.ids import InstanceId, TargetId
from warmroute.resources.instances import Observed
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.planner import Plan, Rules, World
from warmroute.resources.records import InstanceRecord

_log = logging.getLogger(__name__)

FLEET_VERSION_NOTE: Final = "fleet_version"
QUICK_S: Final = 0.1
"""Between two steps while something is under way; news from tasks and routers come at once."""
QUIET_S: Final = 1.0
"""Between two steps otherwise: how soon a process that died is noticed."""
AGAIN_S: Final = 1.0
"""Before the same action on an instance is tried again."""


def new_instance_id() -> InstanceId:
    """Return an id that was never used."""
    return InstanceId(f"i-{secrets.token_hex(6)}")


@dataclass(slots=True)
class Tally:
    """What the reconciler counts for /metrics."""

    steps: int = 0
    errors: int = 0
    starts: int = 0
    stops: int = 0
    refusals: int = 0


@dataclass(frozen=True, slots=True)
class _Work:
    fleet: Fleet
    instances: Mapping[InstanceId, InstanceRecord]
    start: tuple[InstanceRecord, ...]
    stop: tuple[InstanceId, ...]
    quiet: bool
    changed: bool


@dataclass(slots=True)
class _Told:
    """What routers were told, and what they have acknowledged."""

    fleet: Fleet | None = None
    acked_version: int = 0


@dataclass(slots=True)
class _Actions:
    running: dict[InstanceId, asyncio.Event] = field(default_factory=dict)
    again_s: dict[tuple[InstanceId, str], float] = field(default_factory=dict)
    refused: dict[InstanceId, str] = field(default_factory=dict)


class Reconciler:
    """Runs in the control process, one for the whole store."""

    def __init__(
        self,
        *,
        store: Store,
        provider: Provider,
        probe: HealthProbe,
        routers: RouterStream,
        tasks: Spawner,
        clock: Clock,
        rules: Rules,
        identity: Identity,
        new_id: Callable[[], InstanceId] = new_instance_id,
        alarms: Callable[[], Mapping[str, AlarmState]] = dict,
        adapters: AdapterKeeper | None = None,
    ) -> None:
        self._store = store
        self._alarms = alarms
        self._adapters = adapters
        self._provider = provider
        self._routers = routers
        self._tasks = tasks
        self._clock = clock
        self._rules = rules
        self._identity = identity
        self._new_id = new_id
        self._health = HealthChecks(probe=probe, tasks=tasks, clock=clock, rules=rules, on_news=self.kick)
        self._changes = Changes()
        self._told = _Told()
        self._listed: Mapping[InstanceId, InstanceFact] = {}
        self._actions = _Actions()
        self._since_s: float | None = None
        self._well_s = clock.wall_s()
        self._kicked = asyncio.Event()
        self._changed = asyncio.Event()
        self._stepping = asyncio.Lock()
        self.tally = Tally()

    # --- For the rest of the control plane -----------------------------------------------------

    @property
    def acked_version(self) -> int:
        """Every live router decides with this fleet or a later one."""
        return self._told.acked_version

    @property
    def fleet_version(self) -> int:
        """Version of the newest fleet; 0 before the first step."""
        return self._told.fleet.version if self._told.fleet is not None else 0

    @property
    def listed(self) -> Mapping[InstanceId, InstanceFact]:
        """What the provider listed at the last step."""
        return self._listed

    @property
    def adapter_calls(self) -> Mapping[tuple[str, str], int]:
        """Calls to engines about adapters, by verb and outcome."""
        return self._adapters.calls.counts.by_result if self._adapters is not None else {}

    @property
    def fleet(self) -> Fleet | None:
        """The newest fleet; None before the first step."""
        return self._told.fleet

    def look(self, record: InstanceRecord) -> Observed | None:
        """Return what is known of an instance; None while its provider does not list it."""
        fact = self._listed.get(record.instance_id)
        return self._observe(record, fact) if fact is not None else None

    def idle_s(self, now_s: float) -> float:
        """Return the time since the last step that went well, or since the first was due, in seconds."""
        return now_s - self._well_s

    def kick(self) -> None:
        """Ask for a step now: something has changed."""
        self._kicked.set()

    async def changed(self) -> None:
        """Wait until records have changed."""
        await self._changed.wait()

    def wake(self) -> None:
        """Wake everybody who waits in ``changed``."""
        before, self._changed = self._changed, asyncio.Event()
        before.set()

    async def run(self) -> None:
        """Step for ever. A step that fails is logged and tried again."""
        while True:
            self._kicked.clear()
            pause_s = AGAIN_S
            try:
                pause_s = QUIET_S if await self.step() else QUICK_S
            except StoreUnavailable as error:
                self.tally.errors += 1
                _log.error("A reconcile step failed; trying again in %g s: %s", AGAIN_S, error)
                await asyncio.sleep(AGAIN_S)
            except Exception:  # noqa: BLE001  (whatever it was, the next step starts from the records)
                self.tally.errors += 1
                _log.exception("A reconcile step failed; trying again in %g s.", AGAIN_S)
                await asyncio.sleep(AGAIN_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self._kicked.wait()
            except TimeoutError:
                continue

    async def step(self) -> bool:
        """List, plan, commit, publish, act.

        Returns:
            Whether nothing is under way.
        """
        async with self._stepping:
            self.tally.steps += 1
            async with asyncio.timeout(limits.PROVIDER_LIST_S):
                facts = {fact.instance_id: fact for fact in await self._provider.list()}
            self._listed = facts
            work = self._plan(facts)
            self._told.fleet = work.fleet
            if work.changed:
                self.wake()
            self._forget(facts, work.instances)
            for record in work.start:
                self._act(record.instance_id, "start", self._start(record))
            self._health.check(facts, work.instances)
            if await self._publish():
                self.kick()
            for instance_id in work.stop:
                self._act(instance_id, "stop", self._stop(instance_id, limits.INSTANCE_STOP_GRACE_S))
            self._well_s = self._clock.wall_s()
            return work.quiet

    async def stop_instances(self, grace_s: float) -> None:
        """Stop every instance that is ours, all at once, and forget it: the end of the process is near.

        Args:
            grace_s: From asking to insisting, in seconds.
        """
        async with self._stepping:
            ours = {
                fact.instance_id
                for fact in self._listed.values()
                if not self._rules.is_fixed(fact.instance_type)
            }
            with contextlib.suppress(StoreUnavailable):  # what is listed has to be stopped all the same
                ours |= {
                    record.instance_id
                    for record in run(self._store, lambda transaction: transaction.instances())
                    if not self._rules.is_fixed(record.launch.instance_type)
                }
            await asyncio.gather(*(self._stop_and_forget(instance_id, grace_s) for instance_id in ours))

    # --- Planning --------------------------------------------------------------------------------

    def _plan(self, facts: Mapping[InstanceId, InstanceFact]) -> _Work:
        now_s = self._clock.wall_s()
        if self._since_s is None:
            self._since_s = now_s

        if self._adapters is not None:
            self._adapters.hear()

        def decide(transaction: Transaction) -> tuple[Planned, World, Fleet, bool]:
            records = Records.read(transaction)
            world = self._world(facts, records.instances, now_s)
            planned = Planned(plan_all(records, world, self._rules))
            if self._adapters is not None:
                acked = self._told.acked_version
                planned = self._adapters.plan(planned.plans, facts, acked_version=acked)
            fleet = self._next_fleet(planned, facts, transaction)
            changed = write_plans(transaction, records, planned.plans, fleet.version, now_s=now_s)
            return planned, world, fleet, changed

        planned, world, fleet, changed = run(self._store, decide)
        plans = planned.plans
        if self._adapters is not None:
            self._adapters.written(planned)
        self._say(plans, world, facts)
        remaining = {record.instance_id: record for one in plans for record in one.instances}
        orphans = [key for key in facts if key not in remaining and key not in self._actions.running]
        return _Work(
            fleet=fleet,
            instances=remaining,
            start=tuple(
                record for one in plans for record in one.start if self._may("start", record.instance_id)
            ),
            stop=tuple(
                instance_id
                for instance_id in (*orphans, *(key for one in plans for key in one.stop))
                if self._may("stop", instance_id)
            ),
            quiet=planned.at_rest and not orphans and all(is_quiet(one) for one in plans),
            changed=changed,
        )

    def _world(
        self, facts: Mapping[InstanceId, InstanceFact], instances: Iterable[InstanceRecord], now_s: float
    ) -> World:
        assert self._since_s is not None, "set before every plan"
        observed = {
            record.instance_id: self._observe(record, facts[record.instance_id])
            for record in instances
            if record.instance_id in facts
        }
        return World(
            observed=observed,
            refused=self._actions.refused,
            busy=frozenset(self._actions.running),
            now_s=now_s,
            acked_version=self._told.acked_version,
            since_s=self._since_s,
            new_id=self._new_id,
            alarms=self._alarms(),
        )

    def _observe(self, record: InstanceRecord, fact: InstanceFact) -> Observed:
        checkup = self._health.checkup(record.instance_id, fact.generation)
        running = fact.phase is InstancePhase.RUNNING
        return Observed(
            running=running,
            detail=checkup.last.detail if running else fact.detail,
            probes=checkup.probes,
            failures=checkup.failures,
            ready=checkup.last.ready,
            model_name=checkup.last.model_name,
            open_leases=self._routers.open_leases(
                TargetId(record.instance_id), target_generation(record, fact)
            ),
        )

    def _next_fleet(
        self, planned: Planned, facts: Mapping[InstanceId, InstanceFact], transaction: Transaction
    ) -> Fleet:
        plans = planned.plans
        told = self._told.fleet
        version = told.version if told is not None else int(transaction.note(FLEET_VERSION_NOTE) or 0)
        fleet = build_fleet(
            [one.endpoint for one in plans if one.endpoint is not None],
            [record for one in plans for record in one.instances],
            facts=facts,
            rules=self._rules,
            identity=self._identity,
            version=version,
            routers=self._routers.router_count(),
            components=[component for one in plans for component in one.components],
            adapter_failures=planned.failures,
        )
        floor = self._routers.version_floor()
        if fleet == told and version > floor:
            return fleet
        version = max(version, floor) + 1
        transaction.set_note(FLEET_VERSION_NOTE, str(version))
        return replace(fleet, version=version)

    def _say(self, plans: list[Plan], world: World, facts: Mapping[InstanceId, InstanceFact]) -> None:
        news = self._changes.news(
            endpoints=[one.endpoint for one in plans if one.endpoint is not None],
            instances=[record for one in plans for record in one.instances],
            observed=world.observed,
            facts=facts,
            now_s=world.now_s,
            components=[component for one in plans for component in one.components],
        )
        for change in news:
            _log.log(logging.WARNING if change.bad else logging.INFO, "%s", change.text)

    def _may(self, verb: str, instance_id: InstanceId) -> bool:
        """Whether enough time has passed since the same was last tried."""
        return self._clock.wall_s() >= self._actions.again_s.get((instance_id, verb), 0.0)

    # --- Acting ----------------------------------------------------------------------------------

    def _act(self, instance_id: InstanceId, verb: str, action: Coroutine[Any, Any, None]) -> None:
        self._actions.again_s[instance_id, verb] = self._clock.wall_s() + AGAIN_S
        done = self._actions.running[instance_id] = asyncio.Event()
        self._tasks.spawn(self._guarded(instance_id, action, done), name=f"{verb} {instance_id}")

    async def _guarded(
        self, instance_id: InstanceId, action: Coroutine[Any, Any, None], done: asyncio.Event
    ) -> None:
        try:
            await action
        except Exception:  # noqa: BLE001  (the next step orders it again)
            self.tally.errors += 1
            _log.exception("An action on instance %s failed.", instance_id)
        finally:
            self._actions.running.pop(instance_id, None)
            done.set()
            self.kick()

    async def _start(self, record: InstanceRecord) -> None:
        self.tally.starts += 1
        order = InstanceOrder(
            instance_id=record.instance_id,
            endpoint=record.endpoint,
            variant=record.variant,
            instance_type=record.launch.instance_type,
            image=record.launch.image,
            environment=record.launch.environment,
            model_data_url=record.launch.model_data_url,
            component=record.component,
            devices=record.devices,
        )
        try:
            async with asyncio.timeout(limits.INSTANCE_START_S):
                await self._provider.start(order)
        except ProviderRefused as refusal:
            self.tally.refusals += 1
            self._actions.refused[record.instance_id] = str(refusal)
            _log.warning("Instance %s of endpoint %s: %s", record.instance_id, record.endpoint, refusal)

    async def _stop(self, instance_id: InstanceId, grace_s: float) -> None:
        self.tally.stops += 1
        async with asyncio.timeout(grace_s + limits.INSTANCE_START_S):
            await self._provider.stop(instance_id, grace_s)

    async def _stop_and_forget(self, instance_id: InstanceId, grace_s: float) -> None:
        running = self._actions.running.get(instance_id)
        if running is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await running.wait()
        try:
            await self._stop(instance_id, grace_s)
            run(self._store, lambda transaction: transaction.remove_instance(instance_id))
        except StoreUnavailable as error:
            _log.warning("Instance %s is stopped and still recorded: %s", instance_id, error)
        except Exception:  # noqa: BLE001  (the others must still be stopped)
            self.tally.errors += 1
            _log.exception("Instance %s could not be stopped.", instance_id)

    async def _publish(self) -> bool:
        """Tell the routers; return whether they have acknowledged something new."""
        fleet = self._told.fleet
        assert fleet is not None, "a step plans before it publishes"
        if fleet.version <= self._told.acked_version:
            return False
        if not await self._routers.publish(fleet, limits.APPLY_S):
            return False
        self._told.acked_version = fleet.version
        return True

    def _forget(
        self, facts: Mapping[InstanceId, InstanceFact], instances: Mapping[InstanceId, InstanceRecord]
    ) -> None:
        known = facts.keys() | instances.keys()
        self._health.keep_only(known)
        actions = self._actions
        actions.refused = {key: text for key, text in actions.refused.items() if key in known}
        actions.again_s = {key: time_s for key, time_s in actions.again_s.items() if key[0] in known}
