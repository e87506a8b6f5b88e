"""Talks to the server for ``apply``: reads what there is, and carries a plan out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from warmroute.cli.api import AUTOSCALING, Api
from warmroute.cli.apply.changes import Action, Call, Change, Follow, Present
from warmroute.cli.apply.file import Wanted
from warmroute.cli.apply.resources import config_name
from warmroute.cli.failure import CommandFailed, Refused
from warmroute.cli.following import CHANGING, Follower, each_once

JsonObject = dict[str, Any]

_DOING = {
    Action.CREATE: "creating",
    Action.UPDATE: "updating",
    Action.REPLACE: "replacing",
    Action.DELETE: "deleting",
}


def settle(api: Api, wanted: Wanted, say: Callable[[str], None]) -> None:
    """Wait for what the file names and what is changing: a plan made meanwhile would be of the past.

    How such a change ends is not judged: the plan that follows sees it.
    """
    for name, document in _endpoints(api, wanted, everything=False).items():
        status = document["Endpoint"]["EndpointStatus"]
        if status in CHANGING:
            say(f"Endpoint {name} is changing already; waiting for it first.")
            _follow(Follower(api).endpoint(name, deleted=status == "Deleting"), say)
    for name, document in _components(api, wanted, everything=False).items():
        status = document.get("InferenceComponentStatus")
        if status in CHANGING:
            say(f"Inference component {name} is changing already; waiting for it first.")
            _follow(Follower(api).component(name, deleted=status == "Deleting"), say)


def _follow(lines: Iterator[str], say: Callable[[str], None]) -> None:
    try:
        for line in each_once(lines):
            say(f"    {line}")
    except Refused:
        raise
    except CommandFailed as error:
        say(f"    {error.message}")


def look(api: Api, wanted: Wanted, *, everything: bool) -> Present:
    """Return what the server has.

    Args:
        api: Of the server.
        wanted: What is named in it is looked up.
        everything: Look up all there is, for ``--prune``.
    """
    models = _models(api, wanted, everything=everything)
    endpoints = _endpoints(api, wanted, everything=everything)
    components = _components(api, wanted, everything=everything)
    configs, users = _configs(api, wanted, endpoints, everything=everything)
    arns = [
        *(one["ModelArn"] for one in models.values()),
        *(one["Endpoint"]["EndpointArn"] for one in endpoints.values()),
        *(one["InferenceComponentArn"] for one in components.values()),
        *(one["EndpointConfigArn"] for one in configs.values()),
    ]
    scaled = bool(wanted.targets or wanted.policies or wanted.actions or wanted.components or everything)
    targets, policies, actions = _scaling(api) if scaled else ((), (), ())
    return Present(
        models=models,
        endpoints=endpoints,
        configs=configs,
        components=components,
        targets=targets,
        policies=policies,
        actions=actions,
        tags={arn: _tags(api, arn) for arn in arns} | (_tags_of_targets(api, targets) if everything else {}),
        config_users=users,
    )


def _models(api: Api, wanted: Wanted, *, everything: bool) -> dict[str, JsonObject]:
    names = _wanted_of(
        (one["ModelName"] for one in wanted.models),
        (one["ModelName"] for one in api.pages("ListModels", "Models", {"MaxResults": 100})),
        everything=everything,
    )
    return _described(names, lambda name: api.call("DescribeModel", {"ModelName": name}))


def _endpoints(api: Api, wanted: Wanted, *, everything: bool) -> dict[str, JsonObject]:
    names = _wanted_of(
        (one["EndpointName"] for one in wanted.endpoints), _all_endpoints(api), everything=everything
    )
    return _described(names, lambda name: api.call_operator("DescribeEndpoint", {"EndpointName": name}))


def _components(api: Api, wanted: Wanted, *, everything: bool) -> dict[str, JsonObject]:
    if not (wanted.components or everything):
        return {}
    listed = api.pages("ListInferenceComponents", "InferenceComponents", {"MaxResults": 100})
    names = _wanted_of(
        (one["InferenceComponentName"] for one in wanted.components),
        (one["InferenceComponentName"] for one in listed),
        everything=everything,
    )
    return _described(
        names, lambda name: api.call("DescribeInferenceComponent", {"InferenceComponentName": name})
    )


def _wanted_of(named: Iterable[str], listed: Iterable[str], *, everything: bool) -> set[str]:
    """Return the names that are there and matter: to ask for another one would be logged as a mistake."""
    there = set(listed)
    return there if everything else there & set(named)


def _configs(
    api: Api, wanted: Wanted, endpoints: Mapping[str, JsonObject], *, everything: bool
) -> tuple[dict[str, JsonObject], dict[str, frozenset[str]]]:
    """Return the configurations that matter, and which endpoints have them."""
    names = {config_name(wanted, one) for one in wanted.endpoints}
    names |= {name for one in endpoints.values() for name in _configs_of(one)}
    listed = {
        one["EndpointConfigName"]
        for one in api.pages("ListEndpointConfigs", "EndpointConfigs", {"MaxResults": 100})
    }
    stems = tuple(f"{name.rpartition('-')[0]}-" for name in names)
    names |= {name for name in listed if everything or name.startswith(stems)}
    described = _described(
        names & listed, lambda name: api.call("DescribeEndpointConfig", {"EndpointConfigName": name})
    )
    users: dict[str, set[str]] = {}
    leftovers = set(described) - {config_name(wanted, one) for one in wanted.endpoints}
    others = _all_endpoints(api) - set(endpoints) if leftovers else set()
    documents = _described(others, lambda name: api.call_operator("DescribeEndpoint", {"EndpointName": name}))
    for endpoint, document in {**endpoints, **documents}.items():
        for config in _configs_of(document):
            users.setdefault(config, set()).add(endpoint)
    return described, {name: frozenset(found) for name, found in users.items()}


def _configs_of(document: JsonObject) -> set[str]:
    endpoint = document["Endpoint"]
    pending = endpoint.get("PendingDeploymentSummary", {}).get("EndpointConfigName")
    return {endpoint["EndpointConfigName"], *([pending] if pending else [])}


def _all_endpoints(api: Api) -> set[str]:
    return {one["EndpointName"] for one in api.pages("ListEndpoints", "Endpoints", {"MaxResults": 100})}


def _scaling(api: Api) -> tuple[tuple[JsonObject, ...], ...]:
    asked = {"ServiceNamespace": "sagemaker"}
    return tuple(
        tuple(api.pages(f"Describe{member}", member, asked, service=AUTOSCALING))
        for member in ("ScalableTargets", "ScalingPolicies", "ScheduledActions")
    )


def _tags(api: Api, arn: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in api.pages("ListTags", "Tags", {"ResourceArn": arn})}


def _tags_of_targets(api: Api, targets: Iterable[JsonObject]) -> dict[str, dict[str, str]]:
    arns = [one["ScalableTargetARN"] for one in targets if "ScalableTargetARN" in one]
    operation = "ListTagsForResource"
    return {
        arn: api.call_service(AUTOSCALING, operation, {"ResourceARN": arn}).get("Tags", {}) for arn in arns
    }


def _described(names: Iterable[str], describe: Callable[[str], JsonObject]) -> dict[str, JsonObject]:
    found = {name: _or_none(partial(describe, name)) for name in sorted(names)}
    return {name: document for name, document in found.items() if document is not None}


def _or_none(ask: Callable[[], JsonObject]) -> JsonObject | None:
    """Return an answer; None where what is asked about does not exist."""
    try:
        return ask()
    except Refused as error:
        if error.is_missing:
            return None
        raise


# --- Carrying out --------------------------------------------------------------------------------


def carry_out(api: Api, changes: Iterable[Change], say: Callable[[str], None]) -> None:
    """Make the changes of a plan, in order, and say what happens.

    Raises:
        CommandFailed: One could not be made; those before it stay, and those after it are not begun.
        KeyboardInterrupt: Ctrl-C; what the server has begun it goes on with.
    """
    for change in changes:
        if change.action is Action.LEAVE:
            continue
        say(f"{_DOING[change.action].capitalize()} {change.kind} {change.name}")
        try:
            for step in change.steps:
                _step(api, step, say)
        except CommandFailed as error:
            raise CommandFailed(
                f"{_DOING[change.action]} {change.kind} {change.name}: {error.message.rstrip('.')}. "
                "What was done before stays; when the cause is mended, apply the file again.",
                status=error.status,
            ) from None


def _step(api: Api, step: Call | Follow, say: Callable[[str], None]) -> None:
    match step:
        case Call():
            api.call_service(step.service, step.operation, step.members)
        case Follow(kind="endpoint"):
            lines = Follower(api).endpoint(step.name, config=step.config, deleted=step.deleted)
            for line in each_once(lines):
                say(f"    {line}")
        case Follow():
            for line in each_once(Follower(api).component(step.name, deleted=step.deleted)):
                say(f"    {line}")
