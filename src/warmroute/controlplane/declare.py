"""The endpoint that the flags of ``serve`` ask for, made through the same operations callers use.

The store wins: flags equal to those of the last start change nothing, so that what callers changed
since stays. Flags that differ are carried out, and so are equal ones whose endpoint Failed: whoever
starts again has probably mended what was wrong.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from warmroute.controlplane.ports import Store
from warmroute.controlplane.service import ControlService
from warmroute.core import limits
from warmroute.core.declaration import EndpointDeclaration, routing_text
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.core.machines import InstanceType
from warmroute.resources.endpoint_configs import routing_document
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.records import EndpointRecord, JsonObject

FLAGS_NOTE: Final = "flags_of_serve"
INSTANCE_TYPES_NOTE: Final = "instance_types_of_serve"
VARIANT: Final = "AllTraffic"
_UPDATABLE: Final = (EndpointStatus.IN_SERVICE, EndpointStatus.UPDATE_ROLLBACK_FAILED)
_SUFFIX_CHARACTERS: Final = 9
"""A hyphen and eight hexadecimal digits."""


def remembered_instance_types(store: Store) -> dict[str, InstanceType]:
    """Return the instance types that flags of earlier starts declared, by name.

    Resources made from those flags need them, also at a start without flags.
    """
    with store.transaction() as transaction:
        text = transaction.note(INSTANCE_TYPES_NOTE)
    return msgspec.json.decode(text, type=dict[str, InstanceType]) if text is not None else {}


def remember_instance_type(store: Store, instance_type: InstanceType) -> None:
    """Keep an instance type declared by flags."""
    types = remembered_instance_types(store) | {instance_type.name: instance_type}
    with store.transaction() as transaction:
        transaction.set_note(INSTANCE_TYPES_NOTE, msgspec.json.encode(types).decode())


@dataclass(frozen=True, slots=True)
class Declared:
    """What became of the flags.

    Attributes:
        text: A sentence for the operator.
        differs: What is in force is not what the flags say.
    """

    text: str
    differs: bool = False


async def declare(service: ControlService, store: Store, declaration: EndpointDeclaration) -> Declared:
    """Make the declared endpoint be there, unless the same flags have done so before.

    Args:
        service: Its operations are used.
        store: Remembers the flags.
        declaration: From the flags.

    Returns:
        What was taken, the flags or the store, and in the latter case what that is; also which other
        endpoints hold URLs of the flags.

    Raises:
        ApiError: An operation was refused.
    """
    declared = await _declare(service, store, declaration)
    holders = [f'"{name}"' for name in _holders(service, store, declaration)]
    if not holders:
        return declared
    who = f"endpoint {holders[0]} until it is deleted"
    if len(holders) > 1:
        who = f"endpoints {', '.join(holders)} until they are deleted"
    return Declared(f"{declared.text.rstrip('.')}; URLs of the flags are held by {who}", differs=True)


def _holders(service: ControlService, store: Store, declaration: EndpointDeclaration) -> list[str]:
    """Return the other endpoints that have instances over URLs of a declaration."""
    urls = set(declaration.instance_type.urls)
    types = {name for name, one in service.instance_types.items() if not urls.isdisjoint(one.urls)}
    with store.transaction() as transaction:
        instances = transaction.instances()
    others = (record for record in instances if record.endpoint != declaration.endpoint)
    return sorted({record.endpoint for record in others if record.launch.instance_type in types})


async def _declare(service: ControlService, store: Store, declaration: EndpointDeclaration) -> Declared:
    fingerprint = hashlib.sha256(msgspec.json.encode(declaration, order="sorted")).hexdigest()
    name = declaration.endpoint
    with store.transaction() as transaction:
        known = transaction.note(FLAGS_NOTE)
        endpoint = transaction.endpoint(name)
    failed = endpoint is not None and endpoint.status is EndpointStatus.FAILED
    if known == fingerprint and not failed:
        return _kept(declaration, endpoint)
    verb = await _carry_out(service, store, declaration, there=endpoint is not None)
    with store.transaction() as transaction:
        transaction.set_note(FLAGS_NOTE, fingerprint)
    return Declared(f"Endpoint {name}: {verb} as the flags say.")


def _kept(declaration: EndpointDeclaration, endpoint: EndpointRecord | None) -> Declared:
    """Say what is in force when nothing is done, because the flags have been carried out before."""
    name = declaration.endpoint
    if endpoint is None:
        return Declared(
            f"Endpoint {name}: deleted since the last start, and the flags are the same: it stays so. "
            "Create it through the API, or choose another data directory.",
            differs=True,
        )
    deployment = endpoint.active or endpoint.pending
    assert deployment is not None, f"endpoint {name} has no deployment"
    in_force = {variant.name: variant.routing or Routing() for variant in deployment.variants}
    asked = routing_text(declaration.routing)
    if set(in_force.values()) == {declaration.routing}:
        return Declared(
            f"taken from the store: endpoint {name} runs {asked}, "
            "which the flags say too; they are those of the last start"
        )
    texts = {variant: routing_text(routing) for variant, routing in in_force.items()}
    runs = ", ".join(f"{text} in {variant}" for variant, text in texts.items())
    if len(texts) == 1:
        (runs,) = texts.values()
    return Declared(
        f"taken from the store: endpoint {name} runs {runs}; "
        f"the flags say {asked} and are those of the last start",
        differs=True,
    )


async def _carry_out(
    service: ControlService, store: Store, declaration: EndpointDeclaration, *, there: bool
) -> str:
    name = declaration.endpoint
    config = config_of(declaration)
    config_name = config["EndpointConfigName"]
    # Looked up in the store: a Describe that is refused would be logged and counted as a caller's mistake.
    with store.transaction() as transaction:
        has_model = transaction.model(name) is not None
        has_config = transaction.endpoint_config(config_name) is not None
    if not has_model:
        await service.invoke("CreateModel", {"ModelName": name, "PrimaryContainer": {}})
    if not has_config:
        await service.invoke("CreateEndpointConfig", config)
    wanted = {"EndpointName": name, "EndpointConfigName": config_name}
    if there:
        await service.settled(name, limits.DECLARE_SETTLE_S)
        with store.transaction() as transaction:
            endpoint = transaction.endpoint(name)
        if endpoint is not None and endpoint.status in _UPDATABLE:
            await service.invoke("UpdateEndpoint", wanted)
            return "updated"
        if endpoint is not None:
            await service.invoke("DeleteEndpoint", {"EndpointName": name})
            await service.settled(name, limits.DECLARE_SETTLE_S)
    await service.invoke("CreateEndpoint", wanted)
    return "created"


def config_of(declaration: EndpointDeclaration) -> dict[str, Any]:
    """Return the CreateEndpointConfig request of a declaration; equal content has an equal name."""
    routing = declaration.routing
    variant: JsonObject = {
        "VariantName": VARIANT,
        "ModelName": declaration.endpoint,
        "InstanceType": declaration.instance_type.name,
        "InitialInstanceCount": len(declaration.instance_type.urls),
    }
    if routing.strategy is not RoutingStrategy.RANDOM:
        variant["RoutingConfig"] = routing_document(routing)
    digest = hashlib.sha256(msgspec.json.encode(variant, order="sorted")).hexdigest()[:8]
    stem = declaration.endpoint[: 63 - _SUFFIX_CHARACTERS]
    return {"EndpointConfigName": f"{stem}-{digest}", "ProductionVariants": [variant]}
