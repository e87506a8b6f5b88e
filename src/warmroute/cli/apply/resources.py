"""What happens to the models, endpoints and inference components that a file names."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from warmroute.cli.apply.changes import (
    DIGEST,
    OWNER,
    Action,
    Call,
    Change,
    Follow,
    Present,
    marked,
    tag_calls,
    tagged,
    untagged,
    variants_of,
    without,
)
from warmroute.cli.apply.documents import Difference, differences, fingerprint
from warmroute.cli.apply.file import UPDATE_MEMBERS, Wanted
from warmroute.cli.following import CHANGING
from warmroute.cli.screen import base_of

JsonObject = dict[str, Any]

NAME_CHARACTERS_MAX: Final = 63
DEFAULTS: Final[Mapping[str, object]] = {"EnableNetworkIsolation": False, "InitialVariantWeight": 1.0}
"""Members that a server adds with these values."""


def config_name(wanted: Wanted, endpoint: JsonObject) -> str:
    """Return the name of an endpoint's configuration: equal content, models included, has an equal name."""
    config = endpoint["EndpointConfig"]
    named = {variant.get("ModelName") for variant in variants_of(config)}
    digest = fingerprint(config, [untagged(one) for one in wanted.models if one["ModelName"] in named])
    stem = endpoint["EndpointName"][: NAME_CHARACTERS_MAX - len(digest) - 1]
    return f"{stem}-{digest}"


def plan_models(wanted: Wanted, present: Present) -> Iterator[Change]:
    """Yield what happens to the models of a file."""
    for model in wanted.models:
        name = model["ModelName"]
        create = Call("CreateModel", marked(model, wanted))
        there = present.models.get(name)
        if there is None:
            yield Change(
                Action.CREATE, "model", name, differences({}, without(model, "ModelName")), steps=(create,)
            )
            continue
        old = without(there, "ModelArn", "CreationTime")
        found = differences(old, untagged(model), defaults=DEFAULTS)
        if found:
            note = "a model cannot be changed; what runs keeps what it has until it gets the new one"
            steps = (Call("DeleteModel", {"ModelName": name}), create)
            yield Change(Action.REPLACE, "model", name, found, note, steps)
        else:
            yield tagged("model", name, model, there["ModelArn"], present)


def plan_endpoints(wanted: Wanted, present: Present) -> Iterator[Change]:
    """Yield what happens to the endpoints of a file and to their configurations."""
    for endpoint in wanted.endpoints:
        name, config = endpoint["EndpointName"], config_name(wanted, endpoint)
        there = present.endpoints.get(name)
        if there is not None and there["Endpoint"]["EndpointStatus"] == "Deleting":
            there = None  # by the time it is created it is gone
        made = () if config in present.configs else (_create_config(wanted, endpoint, config),)
        create = Call("CreateEndpoint", _creation(wanted, endpoint, config))
        created = (create, Follow("endpoint", name, config))
        if there is None:
            found = differences({}, without(endpoint, "EndpointName"))
            yield Change(Action.CREATE, "endpoint", name, found, steps=(*made, *created))
            continue
        state = there["Endpoint"]
        if state["EndpointStatus"] == "Failed":
            gone: tuple[Call | Follow, ...] = (
                Call("DeleteEndpoint", {"EndpointName": name}),
                Follow("endpoint", name, deleted=True),
            )
            note = "it is Failed, and such an endpoint can only be made anew"
            yield Change(Action.REPLACE, "endpoint", name, note=note, steps=(*made, *gone, *created))
        elif _target_config(state) != config or state["EndpointStatus"] == "UpdateRollbackFailed":
            yield _update(endpoint, config, made, present)
        else:
            yield tagged(
                "endpoint", name, endpoint, state["EndpointArn"], present, note=_drift(state, endpoint)
            )


def _update(endpoint: JsonObject, config: str, made: tuple[Call, ...], present: Present) -> Change:
    name = endpoint["EndpointName"]
    state = present.endpoints[name]["Endpoint"]
    old = present.configs.get(_target_config(state), {})
    kept = without(old, "EndpointConfigName", "EndpointConfigArn", "CreationTime")
    found = differences(kept, untagged(endpoint["EndpointConfig"]), defaults=DEFAULTS)
    note = "" if found else "its models are new, or the configuration it has is not one of apply's"
    request = {"EndpointName": name, "EndpointConfigName": config}
    request |= {member: endpoint[member] for member in UPDATE_MEMBERS if member in endpoint}
    tags = tuple(tag_calls(endpoint, state["EndpointArn"], present))
    follow = Follow("endpoint", name, config)
    steps: tuple[Call | Follow, ...] = (*made, *tags, Call("UpdateEndpoint", request), follow)
    return Change(Action.UPDATE, "endpoint", name, found, note, steps)


def _target_config(state: JsonObject) -> str:
    """Return the configuration that an endpoint has, or is about to have."""
    pending = state.get("PendingDeploymentSummary", {}) if state["EndpointStatus"] in CHANGING else {}
    return str(pending.get("EndpointConfigName") or state["EndpointConfigName"])


def _drift(state: JsonObject, endpoint: JsonObject) -> str:
    """Say that an endpoint runs other counts than its configuration begins with, which is left alone."""
    initial = {
        v["VariantName"]: v.get("InitialInstanceCount") for v in variants_of(endpoint["EndpointConfig"])
    }
    told = [
        f"{one['VariantName']} runs {one['DesiredInstanceCount']} instances, the file begins with {count}"
        for one in state.get("ProductionVariants", ())
        if (count := initial.get(one["VariantName"])) is not None
        and one.get("DesiredInstanceCount", count) != count
    ]
    return "; ".join(told)


def _create_config(wanted: Wanted, endpoint: JsonObject, config: str) -> Call:
    owned = [{"Key": OWNER, "Value": endpoint["EndpointName"]}]
    request = marked(endpoint["EndpointConfig"], wanted, owned)
    return Call("CreateEndpointConfig", {"EndpointConfigName": config} | request)


def _creation(wanted: Wanted, endpoint: JsonObject, config: str) -> JsonObject:
    own = without(endpoint, "EndpointConfig", *UPDATE_MEMBERS)
    if "DeploymentConfig" in endpoint:
        own["DeploymentConfig"] = endpoint["DeploymentConfig"]
    return marked(own, wanted) | {"EndpointConfigName": config}


def plan_components(wanted: Wanted, present: Present) -> Iterator[Change]:
    """Yield what happens to the inference components of a file, bases before their adapters."""
    for component in sorted(wanted.components, key=lambda one: bool(base_of(one))):
        name, digest = component["InferenceComponentName"], component_digest(wanted, component)
        there = present.components.get(name)
        tags = [{"Key": DIGEST, "Value": digest}]
        create = Call(
            "CreateInferenceComponent", marked(without(component, "DeploymentConfig"), wanted, tags)
        )
        created = (create, Follow("component", name))
        if there is None:
            found = differences({}, without(component, "InferenceComponentName"))
            yield Change(Action.CREATE, "inference component", name, found, steps=created)
            continue
        moved = _moved(there, component)
        if moved:
            gone: tuple[Call | Follow, ...] = (
                Call("DeleteInferenceComponent", {"InferenceComponentName": name}),
                Follow("component", name, deleted=True),
            )
            yield Change(
                Action.REPLACE,
                "inference component",
                name,
                moved,
                "it cannot be moved",
                (*gone, *created),
            )
        else:
            yield _component_update(wanted, component, present, digest)


def component_digest(wanted: Wanted, component: JsonObject) -> str:
    """Return the fingerprint of what a component runs, models included; the number of copies is not part."""
    specifications = [component.get("Specification"), *component.get("Specifications", ())]
    named = {one.get("ModelName") for one in specifications if one}
    models = [untagged(one) for one in wanted.models if one["ModelName"] in named]
    return fingerprint(specifications, models)


def _moved(there: JsonObject, component: JsonObject) -> tuple[Difference, ...]:
    """Return what of a component cannot be changed and is to be another."""
    members = ("EndpointName", "VariantName")
    old = {name: there.get(name) for name in members if name in component}
    new = {name: component[name] for name in members if name in component}
    old["BaseInferenceComponentName"], new["BaseInferenceComponentName"] = base_of(there), base_of(component)
    return differences(old, new)


def _component_update(wanted: Wanted, component: JsonObject, present: Present, digest: str) -> Change:
    name = component["InferenceComponentName"]
    there = present.components[name]
    arn = there["InferenceComponentArn"]
    old, new = _specifications(there), _specifications(component)
    known = present.tags.get(arn, {}).get(DIGEST)
    found = differences(old, new)
    failed = there.get("InferenceComponentStatus") == "Failed"
    other = known != digest if known is not None else bool(found)
    count, note = _count_change(wanted, component, there, present)
    if other or failed:
        request = {"InferenceComponentName": name} | new
        if "DeploymentConfig" in component:
            request["DeploymentConfig"] = component["DeploymentConfig"]
        if count:
            request["RuntimeConfig"] = component["RuntimeConfig"]
        digests = Call("AddTags", {"ResourceArn": arn, "Tags": [{"Key": DIGEST, "Value": digest}]})
        why = note or ("it is Failed and tried again" if failed else "" if found else "its model is new")
        update = (Call("UpdateInferenceComponent", request), digests, Follow("component", name))
        return Change(Action.UPDATE, "inference component", name, (*found, *count), why, update)
    if count:
        runtime = {"InferenceComponentName": name, "DesiredRuntimeConfig": component["RuntimeConfig"]}
        steps = (Call("UpdateInferenceComponentRuntimeConfig", runtime), Follow("component", name))
        return Change(Action.UPDATE, "inference component", name, count, steps=steps)
    return tagged("inference component", name, component, arn, present, note=note)


def _count_change(
    wanted: Wanted, component: JsonObject, there: JsonObject, present: Present
) -> tuple[tuple[Difference, ...], str]:
    """Return the change of the number of copies, or why it is left alone."""
    count = component.get("RuntimeConfig", {}).get("CopyCount")
    has = there.get("RuntimeConfig", {}).get("DesiredCopyCount")
    if count is None or has is None or count == has:
        return (), ""
    resource = f"inference-component/{component['InferenceComponentName']}"
    if any(one["ResourceId"] == resource for one in (*wanted.targets, *present.targets)):
        return (), f"has {has} copies, the file begins with {count}; its scaling decides"
    return (Difference("RuntimeConfig.CopyCount", str(has), str(count)),), ""


def _specifications(component: JsonObject) -> JsonObject:
    """Return Specification or Specifications as a request has them: the image under its own name."""
    out: JsonObject = {}
    if component.get("Specification"):
        out["Specification"] = _as_requested(component["Specification"])
    if component.get("Specifications"):
        out["Specifications"] = [_as_requested(one) for one in component["Specifications"]]
    return out


def _as_requested(specification: JsonObject) -> JsonObject:
    container = specification.get("Container")
    if not container or "DeployedImage" not in container:
        return specification
    image = container["DeployedImage"].get("SpecifiedImage")
    own = without(container, "DeployedImage") | ({"Image": image} if image else {})
    return specification | {"Container": own}
