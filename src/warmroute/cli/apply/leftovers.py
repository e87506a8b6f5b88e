"""What ``apply`` takes away: its own unused configurations, and with ``--prune`` more of its own."""

from collections.abc import Iterator
from typing import Any

from warmroute.cli.api import AUTOSCALING
from warmroute.cli.apply.changes import MARK, OWNER, Action, Call, Change, Follow, Present
from warmroute.cli.apply.file import Wanted
from warmroute.cli.apply.resources import config_name
from warmroute.cli.screen import base_of

JsonObject = dict[str, Any]


def plan_configs(wanted: Wanted, present: Present) -> Iterator[Change]:
    """Yield the configurations that apply has made for the file's endpoints and that nothing will use.

    They go last: were an update to fail, the old configuration would be in use again.
    """
    wants = {one["EndpointName"]: config_name(wanted, one) for one in wanted.endpoints}
    for name, config in present.configs.items():
        tags = present.tags.get(config["EndpointConfigArn"], {})
        users = present.config_users.get(name, frozenset())
        if MARK in tags and tags.get(OWNER) in wants and name not in wants.values() and users <= set(wants):
            yield _delete_config(name, "apply made it, and nothing uses it any more")


def plan_prune(wanted: Wanted, present: Present) -> Iterator[Change]:
    """Yield what apply has made from a file of this name and that the file does not name any more.

    Scalable targets are not among it: `plan_prune_targets`.

    Args:
        wanted: What the file describes.
        present: With everything of the server, not only what the file names.
    """
    components = {one["InferenceComponentName"] for one in wanted.components}
    gone = [
        document
        for name, document in present.components.items()
        if name not in components and _is_ours(document["InferenceComponentArn"], wanted, present)
    ]
    for document in sorted(gone, key=lambda one: not base_of(one)):  # adapters before their bases
        name = document["InferenceComponentName"]
        steps = (
            Call("DeleteInferenceComponent", {"InferenceComponentName": name}),
            Follow("component", name, deleted=True),
        )
        yield _delete("inference component", name, steps)
    endpoints = {one["EndpointName"] for one in wanted.endpoints}
    pruned = [
        name
        for name, document in present.endpoints.items()
        if name not in endpoints and _is_ours(document["Endpoint"]["EndpointArn"], wanted, present)
    ]
    for name in pruned:
        steps = (Call("DeleteEndpoint", {"EndpointName": name}), Follow("endpoint", name, deleted=True))
        yield _delete("endpoint", name, steps)
    for name, document in present.configs.items():
        tags = present.tags.get(document["EndpointConfigArn"], {})
        unused = present.config_users.get(name, frozenset()) <= set(pruned)
        if tags.get(MARK) == wanted.name and tags.get(OWNER) not in endpoints and unused:
            yield _delete_config(name, _NOT_NAMED)
    models = {one["ModelName"] for one in wanted.models}
    for name, document in present.models.items():
        if name not in models and _is_ours(document["ModelArn"], wanted, present):
            yield _delete("model", name, (Call("DeleteModel", {"ModelName": name}),))


_NOT_NAMED = "apply made it, and the file does not name it any more"


def _is_ours(arn: str, wanted: Wanted, present: Present) -> bool:
    return present.tags.get(arn, {}).get(MARK) == wanted.name


def plan_prune_targets(wanted: Wanted, present: Present) -> Iterator[Change]:
    """Yield the scalable targets that go: those made by apply, and those of what goes."""
    named = {one["ResourceId"] for one in wanted.targets}
    going = _going(wanted, present)
    for target in present.targets:
        resource = target["ResourceId"]
        ours = _is_ours(target.get("ScalableTargetARN", ""), wanted, present)
        if resource in named or not (ours or f"{resource}/".startswith(going)):
            continue
        members = {name: target[name] for name in ("ServiceNamespace", "ResourceId", "ScalableDimension")}
        call = Call("DeregisterScalableTarget", members, AUTOSCALING)
        note = "what it scales goes" if f"{resource}/".startswith(going) else _NOT_NAMED
        yield Change(Action.DELETE, "scalable target", resource, note=note, steps=(call,))


def _going(wanted: Wanted, present: Present) -> tuple[str, ...]:
    """Return how the resource ids of what is pruned begin."""
    components = {one["InferenceComponentName"] for one in wanted.components}
    endpoints = {one["EndpointName"] for one in wanted.endpoints}
    return (
        *(
            f"inference-component/{name}/"
            for name, one in present.components.items()
            if name not in components and _is_ours(one["InferenceComponentArn"], wanted, present)
        ),
        *(
            f"endpoint/{name}/"
            for name, one in present.endpoints.items()
            if name not in endpoints and _is_ours(one["Endpoint"]["EndpointArn"], wanted, present)
        ),
    )


def _delete(kind: str, name: str, steps: tuple[Call | Follow, ...]) -> Change:
    return Change(Action.DELETE, kind, name, note=_NOT_NAMED, steps=steps)


def _delete_config(name: str, note: str) -> Change:
    call = Call("DeleteEndpointConfig", {"EndpointConfigName": name})
    return Change(Action.DELETE, "endpoint configuration", name, note=note, steps=(call,))
