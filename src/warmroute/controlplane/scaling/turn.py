"""One look at one scalable target, in one transaction: what is over, what is due, what is to be asked for."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from warmroute.controlplane.ports import Transaction
from warmroute.core import limits
from warmroute.resources.scaling.activities import begun, ended, failed, happened, not_scaled, surplus
from warmroute.resources.scaling.capacity import Capacity, capacity_of
from warmroute.resources.scaling.decide import Decision, Reading, decide, scaled, vote
from warmroute.resources.scaling.records import (
    ActivityStatus,
    ScalableTargetRecord,
    ScalingActivityRecord,
    ScalingPolicyRecord,
    ScheduledActionRecord,
)
from warmroute.resources.scaling.scalable import Scalable, ScalableComponent, ScalableVariant, parse
from warmroute.resources.scaling.scheduled_actions import next_of

_log = logging.getLogger(__name__)

POLICY_REST_S: Final = 300.0
"""A change that was refused or undone is not asked for again by policies before."""
RANGE_REST_S: Final = 30.0
"""Nor one that brings capacity between its bounds."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A change of capacity that is written down and has still to be asked for.

    Attributes:
        scalable: Of what.
        activity: As written down.
        policy: As it was before its cooldowns began; None when no policy asks.
    """

    scalable: Scalable
    activity: ScalingActivityRecord
    policy: ScalingPolicyRecord | None


@dataclass(slots=True)
class Memory:
    """What is known of targets between two looks, and may be forgotten.

    Attributes:
        unmet: The last reason and capacity for which a target was not scaled, so that each is told once.
        rests_until_s: Nothing is asked for before, epoch seconds.
    """

    unmet: dict[str, tuple[str, int]] = field(default_factory=dict)
    rests_until_s: dict[str, float] = field(default_factory=dict)

    def keep(self, known: set[str]) -> None:
        """Forget all targets but these."""
        self.unmet = {key: value for key, value in self.unmet.items() if key in known}
        self.rests_until_s = {key: value for key, value in self.rests_until_s.items() if key in known}


class Turn:
    """One look at one target.

    Args:
        transaction: Open.
        target: As it is in it.
        readings: Returns what was found of a policy's alarms, by their names.
        new_id: Returns an id never used before.
        memory: Of all targets.
        now_s: Epoch seconds.
    """

    def __init__(
        self,
        *,
        transaction: Transaction,
        target: ScalableTargetRecord,
        readings: Callable[[ScalingPolicyRecord], Mapping[str, Reading]],
        new_id: Callable[[], str],
        memory: Memory,
        now_s: float,
    ) -> None:
        scalable = parse(target.resource_id)
        assert scalable is not None, f"{target.resource_id} was registered"
        self._transaction = transaction
        self._target = target
        self._readings = readings
        self._new_id = new_id
        self._memory = memory
        self._now_s = now_s
        self._scalable: Scalable = scalable
        self._there = capacity_of(scalable, transaction)

    def take(self) -> Ask | None:
        """Write what is over and what is due; return what is to be asked for."""
        closed = self._close()
        self._schedule()
        there = self._there
        if not closed or there is None or there.fixed or not there.settled:
            return None
        if self._memory.rests_until_s.get(self._target.resource_id, 0.0) > self._now_s:
            return None
        return self._into_range(there) or self._by_policies(there)

    def give_up(self, ask: Ask, text: str) -> None:
        """Write down that a change was refused; cooldowns are as before, and it is asked for again later."""
        rest_s = POLICY_REST_S if ask.policy is not None else RANGE_REST_S
        self._memory.rests_until_s[self._target.resource_id] = self._now_s + rest_s
        message = f"Failed to set the capacity. Reason: {text}"
        self._transaction.put_scaling(failed(ask.activity, message, now_s=self._now_s))
        if ask.policy is None:
            self._transaction.put_scaling(replace(self._target, into_range=True))
            return
        before = ask.policy
        now = self._transaction.scaling_record(ScalingPolicyRecord, before.resource_id, before.name)
        if now is not None:
            undone = replace(now, out_s=before.out_s, out_from=before.out_from, in_s=before.in_s)
            self._transaction.put_scaling(undone)

    # --- What is over ----------------------------------------------------------------------------

    def _close(self) -> bool:
        """Write how changes under way went; return whether none is under way any more."""
        resource_id = self._target.resource_id
        activities = self._transaction.scaling_records(ScalingActivityRecord, resource_id)
        gone = surplus(activities)
        for one in gone:
            self._transaction.remove_scaling(one)
        closed = True
        for activity in activities:
            if activity.status is not ActivityStatus.IN_PROGRESS or activity in gone:
                continue
            over = ended(activity, self._there, now_s=self._now_s, reason=self._failure())
            if over is None:
                closed = False
                continue
            self._transaction.put_scaling(over)
            if over.status is ActivityStatus.FAILED:
                self._memory.rests_until_s[resource_id] = self._now_s + POLICY_REST_S
            else:
                self._begin_cooldowns(activity)
            _log.info("%s: %s", resource_id, over.message)
        return closed

    def _begin_cooldowns(self, activity: ScalingActivityRecord) -> None:
        """Count cooldowns from now on: until now the change could not show in any metric."""
        for policy in self._transaction.scaling_records(ScalingPolicyRecord, activity.resource_id):
            if policy.out_s == activity.created_s:
                self._transaction.put_scaling(replace(policy, out_s=self._now_s))
            elif policy.in_s == activity.created_s:
                self._transaction.put_scaling(replace(policy, in_s=self._now_s))

    def _failure(self) -> str:
        """Return the FailureReason of what is scaled."""
        match self._scalable:
            case ScalableVariant(endpoint, _):
                record = self._transaction.endpoint(endpoint)
                reason = record.failure_reason if record is not None else None
            case ScalableComponent(name):
                component = self._transaction.inference_component(name)
                reason = component.failure_reason if component is not None else None
        return (reason or "")[: limits.FAILURE_REASON_CHARACTERS_MAX]

    # --- What is due -----------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Do the scheduled actions that are due.

        Choice: an action whose time passed while control did not run is done once, late.
        """
        actions = self._transaction.scaling_records(ScheduledActionRecord, self._target.resource_id)
        due = [(one.next_s, one) for one in actions if one.next_s is not None and one.next_s <= self._now_s]
        for _, action in sorted(due, key=lambda pair: (pair[0], pair[1].name)):
            next_s = next_of(action, self._now_s)
            if next_s is None:
                self._transaction.remove_scaling(action)
            else:
                self._transaction.put_scaling(replace(action, next_s=next_s))
            if not self._target.schedule_suspended:
                self._rebound(action)

    def _rebound(self, action: ScheduledActionRecord) -> None:
        target = self._target
        least = target.min_capacity if action.min_capacity is None else action.min_capacity
        most = target.max_capacity if action.max_capacity is None else action.max_capacity
        activity = happened(
            target,
            activity_id=self._new_id(),
            description=f"Setting min capacity to {least} and max capacity to {most}",
            cause=f"scheduled action name {action.name} was triggered",
            now_s=self._now_s,
        )
        if least > most:
            text = f"MinCapacity {least} would be greater than MaxCapacity {most}."
            self._transaction.put_scaling(failed(activity, text, now_s=self._now_s))
            return
        self._target = replace(target, min_capacity=least, max_capacity=most, into_range=True)
        self._transaction.put_scaling(activity)
        self._transaction.put_scaling(self._target)
        _log.info("%s: %s, because %s", target.resource_id, activity.description, activity.cause)

    # --- What is to be asked for -----------------------------------------------------------------

    def _into_range(self, there: Capacity) -> Ask | None:
        target = self._target
        if not target.into_range:
            return None
        self._transaction.put_scaling(replace(target, into_range=False))
        wanted = max(target.min_capacity, min(target.max_capacity, there.wanted))
        if wanted == there.wanted:
            return None
        which = "minimum" if wanted > there.wanted else "maximum"
        return self._ask(wanted, cause=f"{which} capacity was set to {wanted}")

    def _by_policies(self, there: Capacity) -> Ask | None:
        resource_id = self._target.resource_id
        votes = [
            cast
            for policy in self._transaction.scaling_records(ScalingPolicyRecord, resource_id)
            for cast in vote(policy, self._readings(policy), capacity=there.wanted, now_s=self._now_s)
        ]
        decision = decide(self._target, votes, capacity=there.wanted)
        if decision is None or not decision.reason:
            self._memory.unmet.pop(resource_id, None)
        if decision is None:
            return None
        if decision.reason:
            self._tell_unmet(decision, there)
            return None
        policy = decision.vote.policy
        cooled = scaled(policy, before=there.wanted, after=decision.capacity, now_s=self._now_s)
        self._transaction.put_scaling(cooled)
        return self._ask(decision.capacity, cause=decision.vote.cause, policy=policy)

    def _tell_unmet(self, decision: Decision, there: Capacity) -> None:
        """Write down once that a policy could not do what it asked for."""
        resource_id, seen = self._target.resource_id, (decision.reason, there.wanted)
        if self._memory.unmet.get(resource_id) == seen:
            return
        self._memory.unmet[resource_id] = seen
        activity = not_scaled(
            self._target,
            activity_id=self._new_id(),
            capacity=there.wanted,
            cause=decision.vote.cause,
            code=decision.reason,
            now_s=self._now_s,
        )
        self._transaction.put_scaling(activity)

    def _ask(self, capacity: int, *, cause: str, policy: ScalingPolicyRecord | None = None) -> Ask:
        activity = begun(
            self._target, activity_id=self._new_id(), capacity=capacity, cause=cause, now_s=self._now_s
        )
        self._transaction.put_scaling(activity)
        return Ask(self._scalable, activity, policy)
