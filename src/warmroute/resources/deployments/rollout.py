"""A deployment in steps: how many instances each step wants, and what share of the traffic it shifts.

The steps follow from the DeploymentConfig and the counts of the two deployments; the endpoint's record
keeps only which one is under way, so a crash between any two actions continues there. A step brings its
new instances into service, shifts its share, bakes, and then lets old instances go.

Blue/green has all new instances in service before the first share is shifted and keeps all old ones until
TerminationWaitInSeconds after the last bake; every shift is baked, the last one too. Rolling has as many
new instances in service as its share, and lets as many old ones go after each bake.

Choice: all new instances get the share of a canary or a linear step, not only as many as the size says:
the share is what a canary is for, and prompts keep their homes when the next share is shifted.
Choice: variants whose instances stay take their new strategy and weight with the first share.
Choice: the shadow variant is changed with the end of the deployment.
Choice: where a rollback that failed has left both revisions, a rolling update replaces all at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from warmroute.core.ids import VariantName
from warmroute.resources.deployments.policy import (
    TrafficRouting,
    bake_s,
    execution_s_max,
    instances_of,
    rolling,
    routing_type,
    share_of,
    termination_wait_s,
)
from warmroute.resources.errors import invalid
from warmroute.resources.records import (
    UNSTAMPED,
    Deployment,
    EndpointRecord,
    JsonObject,
    Rollout,
    RolloutPhase,
    VariantRecord,
)

Group = tuple[VariantName, int]
_OVERLOAD = 2.0
"""While old instances come back, those there are get at most this many times their usual traffic: a rollback
from the last batch of twenty would else put all of it on one instance."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, by name of variant.

    Attributes:
        new: New instances that have to be in service before the share is shifted.
        share: Part of the variant's traffic that they have from then on, 0 to 1.
        old: Old instances that stay after the bake.
    """

    new: Mapping[str, int]
    share: Mapping[str, float]
    old: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Shown:
    """A revision of a variant as the routers are to see it.

    Attributes:
        variant: With the strategy and the weight in force.
        share: Part of the variant's traffic, 0 to 1.
    """

    variant: VariantRecord
    share: float


def begin(endpoint: EndpointRecord, pending: Deployment, now_s: float) -> Rollout | None:
    """Return where a deployment begins; None for one that switches at once, as all without waits do."""
    policy = pending.policy
    if policy is None or not _exchanged(endpoint.active, pending):
        return None
    if any(variant.carries_copies for variant in pending.variants):
        return None  # host slots run nothing that could fail a bake
    held = {variant.group for variant in endpoint.mixed}
    if any(variant.group in held for variant in pending.variants):
        return None  # what serves already beside others has no share to be shifted
    in_steps = rolling(policy) is not None or routing_type(policy) is not TrafficRouting.ALL_AT_ONCE
    if not in_steps and bake_s(policy) == 0 and termination_wait_s(policy) == 0:
        return None
    return Rollout(since_s=now_s)


def steps(endpoint: EndpointRecord) -> tuple[Step, ...]:
    """Return the steps of an endpoint's pending deployment."""
    pending = endpoint.pending
    assert pending is not None, "steps are those of a deployment"
    policy = pending.policy or {}
    pairs = _exchanged(endpoint.active, pending)
    batches = rolling(policy)
    if batches is not None and not endpoint.mixed:
        ((old, new),) = pairs
        return _rolling_steps(old, new, instances_of(batches["MaximumBatchSize"], new.count))
    counts: dict[str, int] = {new.name: new.count for _, new in pairs}
    olds: dict[str, int] = {new.name: old.count for old, new in pairs}
    shares = {new.name: _blue_green_shares(policy, new.count) for _, new in pairs}
    length = max(len(each) for each in shares.values())
    return tuple(
        Step(
            new=counts,
            share={name: each[min(index, len(each) - 1)] for name, each in shares.items()},
            old=olds,
        )
        for index in range(length)
    )


def _blue_green_shares(policy: JsonObject, count: int) -> tuple[float, ...]:
    routing = (policy.get("BlueGreenUpdatePolicy") or {}).get("TrafficRoutingConfiguration", {})
    if "CanarySize" in routing:
        return (share_of(routing["CanarySize"], count), 1.0)
    if "LinearStepSize" in routing:
        size = share_of(routing["LinearStepSize"], count)
        length = math.ceil(1 / size - 1e-9)
        return (*(min(size * (index + 1), 1.0) for index in range(length - 1)), 1.0)
    return (1.0,)


def _rolling_steps(old: VariantRecord, new: VariantRecord, batch: int) -> tuple[Step, ...]:
    made = []
    for index in range(max(math.ceil(new.count / batch), 1)):
        count = min((index + 1) * batch, new.count)
        share = count / new.count if new.count else 1.0
        stay = old.count - math.floor(old.count * share + 1e-9)
        made.append(Step({new.name: count}, {new.name: share}, {new.name: stay}))
    return tuple(made)


def check_time(endpoint: EndpointRecord) -> None:
    """Refuse waits that take longer than MaximumExecutionTimeoutInSeconds allows.

    Raises:
        ApiError: They do, so that the deployment could only be rolled back.
    """
    pending = endpoint.pending
    assert pending is not None, "it is asked for"
    bound = execution_s_max(pending.policy)
    if bound is None or endpoint.rollout is None:
        return
    policy = pending.policy or {}
    count = len(steps(endpoint))
    waits = count * bake_s(policy) + termination_wait_s(policy)
    if waits >= bound:
        raise invalid(
            f"MaximumExecutionTimeoutInSeconds is {bound:g}, and the deployment waits {waits:g} s: {count} "
            f"times WaitIntervalInSeconds {bake_s(policy):g} and TerminationWaitInSeconds "
            f"{termination_wait_s(policy):g}. The time-out must be longer."
        )


# --- where it stands -----------------------------------------------------------------------------
def shifted(endpoint: EndpointRecord) -> Step | None:
    """Return the step whose shares are in force; None before the first."""
    rollout = endpoint.rollout
    if rollout is None or endpoint.pending is None:
        return None
    index = rollout.step - (rollout.phase is RolloutPhase.PROVISIONING)
    return steps(endpoint)[index] if index >= 0 else None


def base(endpoint: EndpointRecord) -> tuple[Shown, ...]:
    """Return what serves apart from what is being deployed."""
    active = endpoint.active
    if active is None:
        return ()
    if not endpoint.mixed:
        return tuple(Shown(variant, 1.0) for variant in active.variants)
    counts: dict[str, int] = {}
    for variant in endpoint.mixed:
        counts[variant.name] = counts.get(variant.name, 0) + variant.count
    return tuple(
        Shown(variant, variant.count / counts[variant.name] if counts[variant.name] else 1.0)
        for variant in endpoint.mixed
    )


def shown(endpoint: EndpointRecord, serving: Mapping[Group, int]) -> tuple[Shown, ...]:
    """Return the revisions of the production variants as the routers are to see them now.

    Args:
        endpoint: Its record.
        serving: Instances in service, by variant and revision.
    """
    pending, rollout, before = endpoint.pending, endpoint.rollout, base(endpoint)
    step = shifted(endpoint)
    if pending is None or rollout is None or step is None:
        return before
    if rollout.back is not None:
        return _shown_going_back(before, pending, rollout, serving)
    found = []
    for one in before:
        new = pending.variant(one.variant.name)
        if new is None or new.group == one.variant.group:
            found.append(one if new is None else Shown(new, one.share))
        else:
            share = one.share * (1 - step.share[new.name])
            found.append(Shown(replace(one.variant, weight=new.weight), share))
    found += [Shown(new, step.share[new.name]) for _, new in _exchanged(endpoint.active, pending)]
    return tuple(found)


def _shown_going_back(
    before: tuple[Shown, ...], pending: Deployment, rollout: Rollout, serving: Mapping[Group, int]
) -> tuple[Shown, ...]:
    ((one,), (new,)) = before, pending.variants
    share = old_share(one.variant, rollout, serving)
    new = replace(new, weight=one.variant.weight)
    return (Shown(one.variant, share), *((Shown(new, 1 - share),) if share < 1 else ()))


def old_share(old: VariantRecord, rollout: Rollout, serving: Mapping[Group, int]) -> float:
    """Return the part of the traffic that old instances have while a rolling update is rolled back."""
    if rollout.kept == 0 or old.count == 0:
        return 1.0
    return min(_OVERLOAD * serving.get(old.group, 0) / old.count, 1.0)


def wanted(endpoint: EndpointRecord) -> dict[Group, VariantRecord]:
    """Return the variants that have instances now, with the number that each is to have."""
    found: dict[Group, VariantRecord] = {}
    serving = endpoint.mixed or (endpoint.active.variants if endpoint.active is not None else ())
    shadows = [
        each.shadow
        for each in (endpoint.active, endpoint.pending)
        if each is not None and each.shadow is not None
    ]
    deployed = endpoint.pending.variants if endpoint.pending is not None else ()
    for variant in (*serving, *deployed, *shadows):
        known = found.get(variant.group)
        count = variant.count if known is None else max(known.count, variant.count)
        found[variant.group] = replace(variant, count=count)
    rollout = endpoint.rollout
    if rollout is None or endpoint.pending is None:
        return found
    step = steps(endpoint)[rollout.step]
    last = steps(endpoint)[rollout.step - 1] if rollout.step > 0 else None
    for old, new in _exchanged(endpoint.active, endpoint.pending):
        olds, news = old.count if last is None else last.old[new.name], step.new[new.name]
        if rollout.back is not None:
            olds, news = rollout.back, rollout.kept
        found[new.group] = replace(new, count=news)
        if old.group in found and not endpoint.mixed:
            found[old.group] = replace(old, count=olds)
    return found


def waits_for(endpoint: EndpointRecord) -> dict[Group, int]:
    """Return how many instances must be in service before the next share is shifted, or before the switch."""
    pending = endpoint.pending
    assert pending is not None, "something is being deployed"
    has = {variant.group: variant.count for variant in endpoint.mixed}
    if not endpoint.mixed and endpoint.active is not None:
        has = {variant.group: variant.count for variant in endpoint.active.all_variants}
    needs = {}
    step = steps(endpoint)[endpoint.rollout.step] if endpoint.rollout is not None else None
    for variant in pending.all_variants:
        count = variant.count
        if step is not None and variant.group not in has:
            count = step.new.get(variant.name, count)
        # A variant that gets none beside those it has waits for none: one that happens to be replaced must
        # not hold up a change of strategy.
        if count > has.get(variant.group, -1):
            needs[variant.group] = count
    return needs


# --- going on --------------------------------------------------------------------------------------
def go_on(
    endpoint: EndpointRecord, serving: Mapping[Group, int], *, now_s: float, acked: bool
) -> EndpointRecord:
    """Take a deployment in steps as far as it goes now.

    Args:
        endpoint: With a rollout that goes forward.
        serving: Instances in service, by variant and revision.
        now_s: Epoch seconds.
        acked: Every router decides by the fleet that the endpoint awaits.
    """
    while True:
        after = _one_phase_on(endpoint, serving, now_s=now_s, acked=acked)
        if after is endpoint or after.rollout is None:
            return after
        endpoint, acked = after, False


def _one_phase_on(
    endpoint: EndpointRecord, serving: Mapping[Group, int], *, now_s: float, acked: bool
) -> EndpointRecord:
    rollout, pending = endpoint.rollout, endpoint.pending
    assert rollout is not None, "a deployment in steps"
    assert pending is not None, "a deployment in steps"
    policy = pending.policy or {}
    match rollout.phase:
        case RolloutPhase.PROVISIONING:
            if all(serving.get(group, 0) >= count for group, count in waits_for(endpoint).items()):
                shifting = replace(rollout, phase=RolloutPhase.SHIFTING, since_s=now_s)
                return replace(endpoint, rollout=shifting, awaits=UNSTAMPED)
        case RolloutPhase.SHIFTING:
            if acked:
                baking = replace(rollout, phase=RolloutPhase.BAKING, since_s=now_s)
                return replace(endpoint, rollout=baking, awaits=None)
        case RolloutPhase.BAKING:
            if now_s >= rollout.since_s + bake_s(policy):
                last = rollout.step + 1 >= len(steps(endpoint))
                after = Rollout(
                    step=rollout.step if last else rollout.step + 1,
                    phase=RolloutPhase.TERMINATING if last else RolloutPhase.PROVISIONING,
                    since_s=now_s,
                )
                return replace(endpoint, rollout=after)
        case RolloutPhase.TERMINATING:
            if now_s >= rollout.since_s + termination_wait_s(policy):
                return switched(endpoint)
    return endpoint


def switched(endpoint: EndpointRecord) -> EndpointRecord:
    """Return an endpoint whose pending deployment serves alone."""
    return replace(endpoint, active=endpoint.pending, pending=None, rollout=None, mixed=(), awaits=UNSTAMPED)


# --- going back ------------------------------------------------------------------------------------
def turn_back(endpoint: EndpointRecord, serving: Mapping[Group, int]) -> EndpointRecord:
    """Return an endpoint whose pending deployment is given up: all traffic goes back to the old instances.

    A rolling update that has let old instances go keeps its new ones until enough of the old are back.

    Args:
        endpoint: With something pending; its status is the caller's.
        serving: Instances in service, by variant and revision.
    """
    rollout, pending = endpoint.rollout, endpoint.pending
    assert pending is not None, "something is being deployed"
    awaits = UNSTAMPED if shifted(endpoint) is not None else None
    dropped = replace(endpoint, pending=None, rollout=None, awaits=awaits)
    if rollout is None or rolling(pending.policy) is None or endpoint.mixed:
        return dropped
    ((old, new),) = _exchanged(endpoint.active, pending)
    left = wanted(endpoint)[old.group].count
    if left >= old.count:
        return dropped
    back = _one_batch_more(pending, old, left)
    going = replace(rollout, back=back, kept=serving.get(new.group, 0))
    return go_back(replace(endpoint, rollout=going, awaits=UNSTAMPED), serving)


def go_back(
    endpoint: EndpointRecord, serving: Mapping[Group, int], *, cramped: bool = False
) -> EndpointRecord:
    """Take the rollback of a rolling update as far as it goes now.

    Args:
        endpoint: With a rollout that goes back.
        serving: Instances in service, by variant and revision.
        cramped: A provider has refused to start an old instance: new ones make room.
    """
    rollout, pending = endpoint.rollout, endpoint.pending
    assert rollout is not None, "a rollback in steps"
    assert pending is not None, "a rollback in steps"
    assert rollout.back is not None, "a rollback in steps"
    ((old, new),) = _exchanged(endpoint.active, pending)
    there = serving.get(old.group, 0)
    if there >= old.count:
        return replace(endpoint, pending=None, rollout=None, awaits=UNSTAMPED)
    share = old_share(old, rollout, serving)
    kept = 0 if share >= 1 else rollout.kept
    if cramped:
        made = steps(endpoint)
        olds = [old.count, *(step.old[new.name] for step in made)]
        peak = max(step.new[new.name] + before for step, before in zip(made, olds, strict=False))
        bearable = math.ceil(new.count * (1 - share) / _OVERLOAD)
        kept = min(kept, max(peak - rollout.back, bearable))
    back = rollout.back
    if there >= back:
        back = _one_batch_more(pending, old, back)
    if (kept, back) == (rollout.kept, rollout.back):
        return endpoint
    return replace(endpoint, rollout=replace(rollout, kept=kept, back=back), awaits=UNSTAMPED)


def _one_batch_more(pending: Deployment, old: VariantRecord, back: int) -> int:
    size = (rolling(pending.policy) or {}).get("RollbackMaximumBatchSize")
    return old.count if size is None else min(back + instances_of(size, old.count), old.count)


def give_up_going_back(endpoint: EndpointRecord, serving: Mapping[Group, int]) -> EndpointRecord:
    """Return an endpoint whose rollback has failed: what serves stays as it is, of both revisions."""
    pending = endpoint.pending
    assert pending is not None, "a rollback in steps"
    ((old, new),) = _exchanged(endpoint.active, pending)
    kept = endpoint.rollout.kept if endpoint.rollout is not None else 0
    here = [replace(old, count=serving.get(old.group, 0))]
    here.append(replace(new, count=min(serving.get(new.group, 0), kept), weight=old.weight))
    mixed = tuple(variant for variant in here if variant.count > 0)
    # With nothing left at all it goes on trying to have one.
    mixed = mixed or (replace(old, count=1),)
    return replace(endpoint, pending=None, rollout=None, mixed=mixed, awaits=None)


def _exchanged(
    active: Deployment | None, pending: Deployment
) -> tuple[tuple[VariantRecord, VariantRecord], ...]:
    """Return the variants whose instances are replaced, old and new."""
    pairs = []
    for new in pending.variants:
        old = active.variant(new.name) if active is not None else None
        if old is not None and old.group != new.group:
            pairs.append((old, new))
    return tuple(pairs)
