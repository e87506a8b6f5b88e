"""What ``apply`` knows and says: changes as calls of the API in order, what a server has, and whose it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from warmroute.cli.apply.documents import Difference
from warmroute.cli.apply.file import Wanted

JsonObject = dict[str, Any]

MARK: Final = "warmroute:apply"
"""Tag of everything that apply has made; its value is the file's Name."""
OWNER: Final = "warmroute:endpoint"
"""Tag of an endpoint configuration that apply has made: whose it is."""
DIGEST: Final = "warmroute:digest"
"""Tag of an inference component: fingerprint of the content it was made from."""


class Action(StrEnum):
    """What happens to one resource."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the API.

    Attributes:
        operation: Its name.
        members: Of the request.
        service: As in ``X-Amz-Target``.
    """

    operation: str
    members: JsonObject
    service: str = "SageMaker"


@dataclass(frozen=True, slots=True)
class Follow:
    """Wait until a resource does not change any more, and fail when it fails.

    Attributes:
        kind: ``endpoint`` or ``component``.
        name: Of the resource.
        config: EndpointConfigName it is to have then; None for any.
        deleted: Until it is gone.
    """

    kind: str
    name: str
    config: str | None = None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one resource, and how.

    Attributes:
        action: What.
        kind: As people call it: ``endpoint configuration``.
        name: Of the resource.
        details: Where what is wanted differs from what there is.
        note: Why, where that is not plain.
        steps: What is done, in order.
    """

    action: Action
    kind: str
    name: str
    details: tuple[Difference, ...] = ()
    note: str = ""
    steps: tuple[Call | Follow, ...] = ()


@dataclass(frozen=True, slots=True)
class Present:
    """What a server has of what a file names, and what apply has made before.

    Attributes:
        models: ``DescribeModel``'s answers by name.
        endpoints: ``Warmroute.DescribeEndpoint``'s answers by name.
        configs: ``DescribeEndpointConfig``'s answers by name: those in use by the endpoints that the file
            names, and all that apply has made.
        components: ``DescribeInferenceComponent``'s answers by name.
        targets: ``DescribeScalableTargets``'s entries.
        policies: ``DescribeScalingPolicies``'s.
        actions: ``DescribeScheduledActions``'s.
        tags: Of a resource, by its ARN.
        config_users: Names of the endpoints that have a configuration, or are about to, by its name.
    """

    models: Mapping[str, JsonObject] = field(default_factory=dict)
    endpoints: Mapping[str, JsonObject] = field(default_factory=dict)
    configs: Mapping[str, JsonObject] = field(default_factory=dict)
    components: Mapping[str, JsonObject] = field(default_factory=dict)
    targets: tuple[JsonObject, ...] = ()
    policies: tuple[JsonObject, ...] = ()
    actions: tuple[JsonObject, ...] = ()
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    config_users: Mapping[str, frozenset[str]] = field(default_factory=dict)


# --- Tags ----------------------------------------------------------------------------------------


def tagged(kind: str, name: str, entry: JsonObject, arn: str, present: Present, *, note: str = "") -> Change:
    """Return the change of a resource that is as it should be but perhaps for its tags."""
    calls = tuple(tag_calls(entry, arn, present))
    if not calls:
        return Change(Action.LEAVE, kind, name, note=note)
    has = present.tags.get(arn, {})
    found = tuple(
        Difference(f"Tags[{tag['Key']}]", has.get(tag["Key"]), tag["Value"])
        for call in calls
        for tag in call.members["Tags"]
    )
    return Change(Action.UPDATE, kind, name, found, note, calls)


def tag_calls(entry: JsonObject, arn: str, present: Present) -> Iterator[Call]:
    """Yield the call that gives a resource the tags of its entry that it lacks; none are taken away."""
    has = present.tags.get(arn, {})
    missing = [tag for tag in entry.get("Tags", ()) if has.get(tag["Key"]) != tag["Value"]]
    if missing:
        yield Call("AddTags", {"ResourceArn": arn, "Tags": missing})


def marked(request: JsonObject, wanted: Wanted, more: list[JsonObject] | None = None) -> JsonObject:
    """Return a request with the tags that say that apply has made it."""
    own = [{"Key": MARK, "Value": wanted.name}, *(more or ())]
    return request | {"Tags": [*request.get("Tags", ()), *own]}


def untagged(entry: JsonObject) -> JsonObject:
    """Return an entry without its tags."""
    return without(entry, "Tags")


def without(document: JsonObject, *members: str) -> JsonObject:
    """Return a document without some of its members."""
    return {name: value for name, value in document.items() if name not in members}


def variants_of(config: JsonObject) -> list[JsonObject]:
    """Return all variants of an endpoint configuration."""
    return [*config.get("ProductionVariants", ()), *config.get("ShadowProductionVariants", ())]
