"""How far an adapter component has come: created, given another artifact, deleted.

Choice: an adapter is InService when it has been loaded once and every router knows where; while its base
component has no copy in service, when its files are there. What goes wrong in creation makes it Failed, with
the engine's own words. An update that goes wrong leaves the old artifact, with FailureReason saying why.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from warmroute.core import limits
from warmroute.core.machines import Image
from warmroute.resources.lifecycle import ComponentStatus, move_component
from warmroute.resources.lora.places import AdapterPlace, PlaceState
from warmroute.resources.records import UNSTAMPED, ComponentSpecification, InferenceComponentRecord, Launch

_CHANGING = (ComponentStatus.CREATING, ComponentStatus.UPDATING)
_LIMIT_VARIABLES = (
    "SAGEMAKER_MAX_NUMBER_OF_ADAPTERS_IN_MEMORY",
    "OPTION_MAX_CPU_LORAS",
    "OPTION_MAX_LORAS",
    "SM_VLLM_MAX_CPU_LORAS",
    "SM_VLLM_MAX_LORAS",
)
"""Of SageMaker's own containers, the first that is there."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What is known of an adapter.

    Attributes:
        base: Its base component; None when there is none.
        copies: Copies of the base in service.
        places: Where it is, on copies of any state.
        fetched: The files of the wanted artifact are there.
        refusal: Why the wanted artifact cannot be had or loaded; None while it may.
        now_s: Epoch seconds.
        acked_version: Every live router decides with this fleet or a later one.
    """

    base: InferenceComponentRecord | None
    copies: int
    places: tuple[AdapterPlace, ...] = field(default=())
    fetched: bool = False
    refusal: str | None = None
    now_s: float = 0.0
    acked_version: int = 0


def artifact_of(adapter: InferenceComponentRecord) -> ComponentSpecification | None:
    """Return the artifact that an adapter is to have; None when it is to be loaded nowhere."""
    match adapter.status:
        case ComponentStatus.CREATING | ComponentStatus.UPDATING:
            return adapter.pending or adapter.active
        case ComponentStatus.IN_SERVICE:
            return adapter.active
        case ComponentStatus.FAILED | ComponentStatus.DELETING:
            return None


def is_changing(adapter: InferenceComponentRecord) -> bool:
    """Whether an adapter waits for its artifact to be loaded."""
    return adapter.status in _CHANGING and adapter.pending is not None


def advance_adapter(adapter: InferenceComponentRecord, prospect: Prospect) -> InferenceComponentRecord | None:
    """Take an adapter as far as its places allow.

    Args:
        adapter: Its record.
        prospect: What is known of it.

    Returns:
        None when it was being deleted and is nowhere any more.
    """
    if adapter.status is ComponentStatus.DELETING:
        return adapter if prospect.places else None
    if adapter.status not in _CHANGING:
        return adapter
    if adapter.pending is None:
        return _confirmed(adapter, prospect)
    reason = prospect.refusal or _why_baseless(adapter, prospect.base)
    if reason is not None:
        return _given_up(adapter, reason, prospect.now_s)
    if _is_loaded(adapter.pending, prospect) or _cannot_be_tried(prospect):
        return replace(adapter, active=adapter.pending, pending=None, awaits=UNSTAMPED)
    return adapter


def _is_loaded(artifact: ComponentSpecification, prospect: Prospect) -> bool:
    """Whether it serves, and no older artifact does."""
    serving = [place.revision for place in prospect.places if place.state is PlaceState.SERVING]
    old = any(place.revision != artifact.revision for place in prospect.places)
    return artifact.revision in serving and not old


def _cannot_be_tried(prospect: Prospect) -> bool:
    base = prospect.base
    settled = base is not None and base.status is ComponentStatus.IN_SERVICE
    return settled and prospect.copies == 0 and prospect.fetched


def _why_baseless(adapter: InferenceComponentRecord, base: InferenceComponentRecord | None) -> str | None:
    if base is None:
        return f"Base inference component {adapter.base} does not exist any more."
    if base.status is ComponentStatus.FAILED:
        return f"Base inference component {base.name} is Failed: {base.failure_reason or 'it gave no reason'}"
    return None


def _confirmed(adapter: InferenceComponentRecord, prospect: Prospect) -> InferenceComponentRecord:
    if adapter.awaits is None:
        return replace(adapter, awaits=UNSTAMPED)
    if adapter.awaits == UNSTAMPED or prospect.acked_version < adapter.awaits:
        return adapter
    return _ended(adapter, ComponentStatus.IN_SERVICE, prospect.now_s)


def _given_up(adapter: InferenceComponentRecord, reason: str, now_s: float) -> InferenceComponentRecord:
    adapter = replace(adapter, failure_reason=reason[: limits.FAILURE_REASON_CHARACTERS_MAX])
    if adapter.active is None:
        return _ended(adapter, ComponentStatus.FAILED, now_s)
    return _ended(replace(adapter, pending=None), ComponentStatus.IN_SERVICE, now_s)


def _ended(
    adapter: InferenceComponentRecord, status: ComponentStatus, now_s: float
) -> InferenceComponentRecord:
    return replace(adapter, status=move_component(adapter.status, status), awaits=None, modified_s=now_s)


def adapters_max(launch: Launch, image: Image | None) -> int:
    """Return how many adapters a copy may have at once.

    Args:
        launch: What the copy runs: its Environment comes first.
        image: Its image; None when that is not declared.
    """
    environment: Mapping[str, str] = launch.environment
    if image is not None:
        environment = {**image.environment, **environment}
    for value in _values(environment, _LIMIT_VARIABLES):
        if value.isascii() and value.isdigit() and int(value) >= 1:
            return min(int(value), limits.ADAPTERS_PER_COPY_MAX)
    declared = image.adapters_max if image is not None else None
    return declared if declared is not None else limits.ADAPTERS_PER_COPY


def _values(environment: Mapping[str, str], names: Iterable[str]) -> Iterable[str]:
    return (environment[name].strip() for name in names if name in environment)
