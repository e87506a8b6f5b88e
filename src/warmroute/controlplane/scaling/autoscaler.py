"""The autoscaler: looks at alarms every ten seconds and changes capacities, as any caller would.

It runs in the control process on a clock of its own, which tests make faster. What it does is written
down before it is asked for, so that a process that ends in between leaves an activity that the next one
closes, and no change that nobody knows of. Capacity is changed only through the operations that callers
use, and only while the resource takes a change.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from warmroute.controlplane.ports import Clock, Store, StoreUnavailable, Transaction
from warmroute.controlplane.scaling.metering import Meter
from warmroute.controlplane.scaling.turn import Ask, Memory, Turn
from warmroute.controlplane.transactions import run
from warmroute.core.fleet import Fleet
from warmroute.resources.arns import Place
from warmroute.resources.errors import ApiError
from warmroute.resources.metrics.alarms import Alarm, AlarmBook, AlarmState, MetricSource
from warmroute.resources.metrics.windows import WINDOW_S
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.alarms import bound, every_alarm
from warmroute.resources.scaling.capacity import change
from warmroute.resources.scaling.decide import Reading
from warmroute.resources.scaling.records import ScalableTargetRecord, ScalingPolicyRecord
from warmroute.resources.scaling.scalable import Scalable, ScalableComponent, ScalableVariant, policy_arn

_log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""Between two looks at what is under way: routers report about as often."""
LATE_WINDOWS_MAX: Final = 6
"""Windows that are closed at once after the process could not run for a while."""

Invoke = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Calls an operation of the SageMaker API."""


class Autoscaler:
    """Keeps alarms and capacities up to date."""

    def __init__(
        self,
        *,
        store: Store,
        invoke: Invoke,
        source: MetricSource,
        book: AlarmBook,
        clock: Clock,
        place: Place,
        new_id: Callable[[], str],
        declared: tuple[Alarm, ...] = (),
    ) -> None:
        """Join the parts.

        Args:
            store: Where records are.
            invoke: Changes capacities.
            source: The metrics.
            book: Keeps the alarms; others read it too.
            clock: Time.
            place: Region and account.
            new_id: Returns an id never used before.
            declared: The alarms of the settings.
        """
        self._store = store
        self._invoke = invoke
        self._source = source
        self._book = book
        self._clock = clock
        self._place = place
        self._new_id = new_id
        self._declared = declared
        self._memory = Memory()

    async def run(
        self, meter: Meter, fleet: Callable[[], Fleet | None], pause: Callable[[float], Awaitable[bool]]
    ) -> None:
        """Look once a second, and step with every window that ends, for ever.

        Args:
            meter: Fills the windows.
            fleet: Returns the newest fleet.
            pause: Waits for so many seconds of the clock; returns early and True when a step is due,
                because somebody has changed a target or policy.
        """
        next_s = self._clock.wall_s() + WINDOW_S
        due = False
        while True:
            try:
                meter.look(fleet())
                now_s = self._clock.wall_s()
                next_s = min(next_s, now_s + WINDOW_S)  # also after a clock was set back
                passed = int((now_s - next_s) // WINDOW_S) + 1
                next_s += max(0, passed) * WINDOW_S
                for _ in range(min(passed, LATE_WINDOWS_MAX)):
                    meter.close_window()
                if passed > 0 or due:
                    await self.step()
            except StoreUnavailable as error:
                _log.warning("The autoscaler waits for the store: %s", error)
            except Exception:  # noqa: BLE001  (whatever it was, the next step starts from the records)
                _log.exception("A step of the autoscaler failed; the next comes in %d s.", WINDOW_S)
            due = await pause(LOOK_S)

    async def step(self) -> None:
        """Evaluate every alarm, then bring every target to where it should be."""
        now_s = self._clock.wall_s()
        targets = run(self._store, self._define)
        for name in self._book.evaluate(self._source, now_s):
            finding = self._book.finding(name)
            assert finding is not None, f"alarm {name} was just evaluated"
            if finding.state is not AlarmState.INSUFFICIENT_DATA:
                _log.info("Alarm %s is %s: %s", name, finding.state, finding.reason)
        for resource_id in targets:
            ask = self._turn(resource_id, Turn.take)
            if ask is not None:
                await self._carry_out(ask)
        self._memory.keep(set(targets))

    def _define(self, transaction: Transaction) -> tuple[str, ...]:
        """Define the alarms that there should be; return the resource ids of the targets."""
        scalables: list[Scalable] = [
            ScalableVariant(endpoint.name, variant.name)
            for endpoint in transaction.endpoints()
            if endpoint.active is not None
            for variant in endpoint.active.variants
        ]
        scalables += [
            ScalableComponent(component.name)
            for component in transaction.inference_components()
            if not component.base
        ]
        policies = transaction.scaling_records(ScalingPolicyRecord)
        self._book.define(every_alarm(scalables=scalables, policies=policies, declared=self._declared))
        return tuple(target.resource_id for target in transaction.scaling_records(ScalableTargetRecord))

    def _readings(self, policy: ScalingPolicyRecord) -> Mapping[str, Reading]:
        """Return what was found of a policy's alarms, those that exist."""
        found: dict[str, Reading] = {}
        for name in bound(policy, policy_arn(self._place, policy), self._declared):
            alarm, finding = self._book.alarm(name), self._book.finding(name)
            if alarm is not None and finding is not None:
                found[name] = Reading(alarm, finding)
        return found

    def _turn(self, resource_id: str, do: Callable[[Turn], Ask | None]) -> Ask | None:
        """Look at a target in a transaction; None when it is registered no more."""

        def work(transaction: Transaction) -> Ask | None:
            target = transaction.scaling_record(ScalableTargetRecord, resource_id)
            if target is None:
                return None
            turn = Turn(
                transaction=transaction,
                target=target,
                readings=self._readings,
                new_id=self._new_id,
                memory=self._memory,
                now_s=self._clock.wall_s(),
            )
            return do(turn)

        return run(self._store, work)

    async def _carry_out(self, ask: Ask) -> None:
        activity = ask.activity
        try:
            await self._invoke(*change(ask.scalable, activity.capacity))
        except ApiError as error:
            text = str(error)
            self._turn(activity.resource_id, lambda turn: turn.give_up(ask, text))
            _log.warning("%s: %s It was refused: %s", activity.resource_id, activity.description, text)
        else:
            _log.info("%s: %s Because %s", activity.resource_id, activity.description, activity.cause)
