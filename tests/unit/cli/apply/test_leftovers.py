from tests.unit.cli.scripted import ARN, adapter, component, endpoint_document
from warmroute.cli.apply.changes import MARK, OWNER, Action, Present
from warmroute.cli.apply.file import Wanted
from warmroute.cli.apply.leftovers import plan_configs, plan_prune, plan_prune_targets
from warmroute.cli.apply.resources import config_name

ENDPOINT = {"EndpointName": "chat", "EndpointConfig": {"ProductionVariants": []}}
WANTED = Wanted("set", endpoints=(ENDPOINT,))
NEW = config_name(WANTED, ENDPOINT)


def config(name):
    return {"EndpointConfigName": name, "EndpointConfigArn": f"{ARN}:endpoint-config/{name}"}


def with_configs(tags, users=None, **given):
    return Present(
        configs={name: config(name) for name in tags},
        tags={config(name)["EndpointConfigArn"]: found for name, found in tags.items()},
        config_users={name: frozenset(found) for name, found in (users or {}).items()},
        **given,
    )


OURS = {MARK: "set", OWNER: "chat"}


def deleted(changes):
    assert all(change.action is Action.DELETE for change in changes)
    return [change.name for change in changes]


def test_configs_of_its_own_that_nothing_uses_any_more_go():
    tags = {
        "chat-old": OURS,
        "chat-older": {MARK: "another", OWNER: "chat"},
        "chat-by-hand": {},
        "chat-copy": {MARK: "set"},
        "else-1": {MARK: "set", OWNER: "else"},
        NEW: OURS,
    }
    users = {"chat-old": ["chat"]}
    assert deleted(list(plan_configs(WANTED, with_configs(tags, users)))) == ["chat-old", "chat-older"]


def test_a_config_that_another_endpoint_uses_stays():
    assert list(plan_configs(WANTED, with_configs({"chat-old": OURS}, {"chat-old": ["chat", "b"]}))) == []


def everything():
    """A server with things of this set, of another one, and made by hand."""
    mine = [component("base"), adapter("lora"), component("named")]
    other = component("other")
    endpoints = {name: endpoint_document(name) for name in ("chat", "gone", "by-hand")}
    models = {name: {"ModelArn": f"{ARN}:model/{name}"} for name in ("m-gone", "m-by-hand", "m-named")}
    tags = {one["InferenceComponentArn"]: {MARK: "set"} for one in mine}
    tags |= {endpoints[name]["Endpoint"]["EndpointArn"]: {MARK: "set"} for name in ("chat", "gone")}
    tags |= {models[name]["ModelArn"]: {MARK: "set"} for name in ("m-gone", "m-named")}
    tags[other["InferenceComponentArn"]] = {MARK: "another"}
    configs = {"gone-1": {MARK: "set", OWNER: "gone"}, "chat-1": OURS}
    tags |= {config(name)["EndpointConfigArn"]: found for name, found in configs.items()}
    resources = (
        "endpoint/gone/variant/v",
        "endpoint/gone2/variant/v",
        "inference-component/base",
        "inference-component/base2",
        "endpoint/chat/variant/v",
        "endpoint/chat/variant/named",
    )
    tags |= {f"arn:{resource}": {MARK: "set"} for resource in resources[4:]}
    target = {"ServiceNamespace": "sagemaker", "ScalableDimension": "d"}
    return Present(
        models=models,
        endpoints=endpoints,
        components={one["InferenceComponentName"]: one for one in [*mine, other]},
        configs={name: config(name) for name in configs},
        targets=tuple(
            target | {"ResourceId": resource, "ScalableTargetARN": f"arn:{resource}"}
            for resource in resources
        ),
        tags=tags,
    )


def test_prune_takes_what_the_set_made_and_does_not_name_and_nothing_else():
    named = {"InferenceComponentName": "named", "EndpointName": "chat"}
    scaled = {"ResourceId": "endpoint/chat/variant/named"}
    wanted = Wanted("set", ({"ModelName": "m-named"},), (ENDPOINT,), (named,), (scaled,))
    targets = list(plan_prune_targets(wanted, everything()))
    assert deleted(targets) == [
        "endpoint/gone/variant/v",
        "inference-component/base",
        "endpoint/chat/variant/v",
    ]
    assert deleted(list(plan_prune(wanted, everything()))) == ["lora", "base", "gone", "gone-1", "m-gone"]
    deregister = targets[1].steps[0]
    assert (deregister.operation, deregister.service) == (
        "DeregisterScalableTarget",
        "AnyScaleFrontendService",
    )
    assert deregister.members == {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "inference-component/base",
        "ScalableDimension": "d",
    }
