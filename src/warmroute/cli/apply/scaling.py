"""What happens to the scalable targets, scaling policies and scheduled actions that a file names."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from warmroute.cli.api import AUTOSCALING
from warmroute.cli.apply.changes import MARK, Action, Call, Change, Present, without
from warmroute.cli.apply.documents import differences
from warmroute.cli.apply.file import Wanted

JsonObject = dict[str, Any]

_TARGET: Final = ("ResourceId", "ScalableDimension")
_DERIVED: Final = (
    "ServiceNamespace", "ResourceId", "ScalableDimension", "CreationTime", "Alarms", "PolicyARN",
    "ScalableTargetARN", "ScheduledActionARN", "PredictedCapacity", "Tags", "RoleARN",
)  # fmt: skip
"""Members that name an entry or that the server adds."""
DEFAULTS: Final[Mapping[str, object]] = {
    "PolicyType": "StepScaling",
    "DynamicScalingInSuspended": False,
    "DynamicScalingOutSuspended": False,
    "ScheduledScalingSuspended": False,
    "DisableScaleIn": False,
    "Timezone": "UTC",
}
"""Members that the server adds with these values."""
_KINDS: Final = (
    ("scalable target", "RegisterScalableTarget", _TARGET, ""),
    ("scaling policy", "PutScalingPolicy", (*_TARGET, "PolicyName"), "PolicyName"),
    ("scheduled action", "PutScheduledAction", (*_TARGET, "ScheduledActionName"), "ScheduledActionName"),
)


def plan_scaling(wanted: Wanted, present: Present) -> Iterator[Change]:
    """Yield what happens to the scaling of a file; targets first, which policies need."""
    entries = (wanted.targets, wanted.policies, wanted.actions)
    there = (present.targets, present.policies, present.actions)
    for (kind, operation, identity, named), want, have in zip(_KINDS, entries, there, strict=True):
        for entry in want:
            known = {tuple(one.get(member) for member in identity): one for one in have}
            name = " ".join(filter(None, (entry["ResourceId"], entry.get(named, "") if named else "")))
            call = Call(operation, entry, AUTOSCALING)
            tagged = entry | {"Tags": {**entry.get("Tags", {}), MARK: wanted.name}} if not named else entry
            old = known.get(tuple(entry.get(member) for member in identity))
            if old is None:
                found = differences({}, without(entry, *_DERIVED))
                yield Change(Action.CREATE, kind, name, found, steps=(Call(operation, tagged, AUTOSCALING),))
                continue
            found = differences(without(old, *_DERIVED), without(entry, *_DERIVED), defaults=DEFAULTS)
            if found:
                yield Change(Action.UPDATE, kind, name, found, steps=(call,))
            else:
                yield Change(Action.LEAVE, kind, name)
