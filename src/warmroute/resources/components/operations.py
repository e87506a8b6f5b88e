"""Create, update and delete inference components.

Each operation only writes down what is wanted; ``component_planner`` makes it so. Source: operations of the
same names in the ``sagemaker`` service model.

Choice: VariantName may be left out when the endpoint has one variant; CopyCount is 1 when it is not given.
Choice: a component can be made as soon as its endpoint exists, while that is still Creating too.
Choice: a component whose creation failed can be updated, which tries again with the new specification or
the new CopyCount; its name need not be given up for that.
Choice: DeleteEndpoint leaves components behind, as SageMaker does. They keep their names, run no copy, can
be deleted at any time, and come back with an endpoint of the same name that has their variant.
"""

from dataclasses import replace

from warmroute.core import limits
from warmroute.core.ids import ComponentName, EndpointName, VariantName
from warmroute.resources.arns import Kind
from warmroute.resources.components.rollout import check_policy, rollout_of
from warmroute.resources.components.specifications import base_of, specification_of
from warmroute.resources.errors import ApiCode, ApiError, already_exists, invalid, not_found
from warmroute.resources.lifecycle import COMPONENT_CHANGING, ComponentStatus, EndpointStatus, move_component
from warmroute.resources.records import (
    ComponentSpecification,
    EndpointRecord,
    InferenceComponentRecord,
    JsonObject,
)
from warmroute.resources.tables import Context, Outcome, Tables
from warmroute.resources.tagging import tags_of

_NOUN = "inference component"


def create_inference_component(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Ask for a component; it is Creating until every copy is healthy, an adapter until its base serves."""
    name = ComponentName(request["InferenceComponentName"])
    arn = context.place.arn(Kind.INFERENCE_COMPONENT, name)
    if tables.inference_component(name) is not None:
        raise already_exists(_NOUN, arn)
    endpoint = _endpoint(request, tables, context)
    specification = specification_of(request, tables, context, revision=1)
    if specification is None:
        raise invalid("CreateInferenceComponent needs Specification or Specifications.")
    components = tables.inference_components()
    if len(components) >= limits.INFERENCE_COMPONENTS_MAX:
        raise ApiError(
            ApiCode.LIMIT,
            f"There are {limits.INFERENCE_COMPONENTS_MAX} inference components, the most allowed. "
            "Delete some.",
        )
    base = base_of(specification.document)
    if base:
        variant, count = _variant_of_base(base, request, tables, context), 0
    else:
        variant = _variant(request, endpoint)
        count = request.get("RuntimeConfig", {}).get("CopyCount", 1)
        _check_copies(count, name)
    record = InferenceComponentRecord(
        name=name,
        arn=arn,
        endpoint=endpoint.name,
        variant=variant,
        status=ComponentStatus.CREATING,
        created_s=context.now_s,
        modified_s=context.now_s,
        pending=specification,
        count=count,
        base=base,
        tags=tags_of(request.get("Tags")),
    )
    return Outcome(output={"InferenceComponentArn": arn}, put=(record,))


def update_inference_component(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Ask for other copies, another number of them, or both.

    Copies that go on running the same thing stay as they are, whatever else changes; the others are
    exchanged in batches.
    """
    component = _changeable(request, tables, context)
    policy = request.get("DeploymentConfig")
    specification = specification_of(request, tables, context, revision=_next_revision(component, tables))
    if specification is None and "RuntimeConfig" not in request:
        raise invalid("UpdateInferenceComponent needs Specification, Specifications or RuntimeConfig.")
    if policy is not None and specification is None:
        raise invalid("DeploymentConfig is allowed only with Specification or Specifications.")
    check_policy(policy, context.alarms)
    count = component.count
    if "RuntimeConfig" in request:
        count = _new_count(component, request["RuntimeConfig"]["CopyCount"])
    record = replace(
        _updating(component, context), count=count, last_policy=policy or component.last_policy, rollout=None
    )
    if specification is None:
        return _updated(record)
    if base_of(specification.document) != component.base:
        what = f'an adapter of "{component.base}"' if component.base else "no adapter"
        raise invalid(
            f'Inference component "{component.name}" is {what}. BaseInferenceComponentName cannot be changed.'
        )
    if component.active is not None and _runs_the_same(component, specification, tables, context):
        specification = replace(specification, revision=component.active.revision)
    rollout = None
    if component.active is not None and not component.base:
        rollout = replace(rollout_of(policy, count), old_max=component.count)
    return _updated(replace(record, pending=specification, rollout=rollout))


def update_inference_component_runtime_config(
    request: JsonObject, tables: Tables, context: Context
) -> Outcome:
    """Ask for another number of copies."""
    component = _changeable(request, tables, context)
    count = _new_count(component, request["DesiredRuntimeConfig"]["CopyCount"])
    return _updated(replace(_updating(component, context), count=count))


def delete_inference_component(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Ask for the end of a component; its record goes when its last copy has gone."""
    component = find_component(request, tables, context)
    if component.status in COMPONENT_CHANGING:
        raise invalid(
            f'Cannot delete inference component "{component.arn}" while it is in state '
            f"{internal_state(component)}."
        )
    adapters = sorted(one.name for one in tables.inference_components() if one.base == component.name)
    if adapters:
        raise invalid(
            f'Cannot delete inference component "{component.arn}". It is a base inference component for one '
            f"or more associated inference components: {', '.join(adapters)}. Delete those first."
        )
    if tables.endpoint(component.endpoint) is None:
        return Outcome(remove=(component,))
    record = replace(
        component,
        status=move_component(component.status, ComponentStatus.DELETING),
        modified_s=context.now_s,
        awaits=None,
        rollout=None,
    )
    return Outcome(put=(record,))


def find_component(request: JsonObject, tables: Tables, context: Context) -> InferenceComponentRecord:
    """Return the component that a request names.

    Raises:
        ApiError: It does not exist.
    """
    name = request["InferenceComponentName"]
    component = tables.inference_component(name)
    if component is None:
        raise not_found(_NOUN, context.place.arn(Kind.INFERENCE_COMPONENT, name))
    return component


def internal_state(component: InferenceComponentRecord) -> str:
    """Return the state that SageMaker's messages name for a component that is changing."""
    match component.status:
        case ComponentStatus.CREATING:
            return "CREATE_IN_PROGRESS"
        case ComponentStatus.UPDATING:
            return "UPDATE_IN_PROGRESS" if component.pending is not None else "UPDATE_RC_IN_PROGRESS"
        case ComponentStatus.DELETING:
            return "DELETE_IN_PROGRESS"
        case ComponentStatus.IN_SERVICE | ComponentStatus.FAILED:
            return str(component.status)


def _endpoint(request: JsonObject, tables: Tables, context: Context) -> EndpointRecord:
    name = request["EndpointName"]
    endpoint = tables.endpoint(name)
    if endpoint is None:
        raise not_found("endpoint", context.place.arn(Kind.ENDPOINT, name))
    if endpoint.status in (EndpointStatus.DELETING, EndpointStatus.FAILED):
        raise invalid(
            f'Cannot create an inference component on endpoint "{endpoint.arn}" because its status is '
            f"{endpoint.status}."
        )
    deployment = endpoint.active or endpoint.pending
    assert deployment is not None, "config_name asserts it"
    if not any(variant.carries_copies for variant in deployment.variants):
        raise invalid(
            f'Endpoint "{endpoint.arn}" is not for inference components: its variants name models. Create an '
            "endpoint configuration whose variants have no ModelName."
        )
    return endpoint


def _variant(request: JsonObject, endpoint: EndpointRecord) -> VariantName:
    deployment = endpoint.active or endpoint.pending
    assert deployment is not None, "config_name asserts it"
    names = [variant.name for variant in deployment.variants]
    name = request.get("VariantName")
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise invalid(f'Give VariantName: endpoint "{endpoint.name}" has {", ".join(names)}.')
    if name not in names:
        raise invalid(
            f'The variant name(s) "{name}" is/are not present within endpoint configuration '
            f'"{deployment.config_name}".'
        )
    return VariantName(name)


def _variant_of_base(name: str, request: JsonObject, tables: Tables, context: Context) -> VariantName:
    base = tables.inference_component(name)
    if base is None:
        raise not_found(_NOUN, context.place.arn(Kind.INFERENCE_COMPONENT, name))
    if base.base:
        raise invalid(f'Inference component "{name}" is an adapter itself and cannot be a base.')
    if base.endpoint != request["EndpointName"]:
        raise invalid(
            f'Base inference component "{name}" is on endpoint "{base.endpoint}", not on '
            f'"{request["EndpointName"]}".'
        )
    if base.status is ComponentStatus.DELETING:
        raise invalid(f'Base inference component "{name}" is being deleted.')
    if request.get("VariantName", base.variant) != base.variant:
        raise invalid(
            f'Base inference component "{name}" is on variant "{base.variant}"; leave VariantName out.'
        )
    if "RuntimeConfig" in request:
        raise invalid(
            "RuntimeConfig is not allowed with BaseInferenceComponentName: an adapter has no copies."
        )
    return base.variant


def _changeable(request: JsonObject, tables: Tables, context: Context) -> InferenceComponentRecord:
    component = find_component(request, tables, context)
    if component.status in COMPONENT_CHANGING:
        raise invalid(
            f'Cannot update inference component "{component.arn}" while it is in state '
            f"{internal_state(component)}."
        )
    if tables.endpoint(EndpointName(component.endpoint)) is None:
        raise not_found("endpoint", context.place.arn(Kind.ENDPOINT, component.endpoint))
    return component


def _updating(component: InferenceComponentRecord, context: Context) -> InferenceComponentRecord:
    return replace(
        component,
        status=move_component(component.status, ComponentStatus.UPDATING),
        modified_s=context.now_s,
        awaits=None,
        failure_reason=None,
    )


def _updated(record: InferenceComponentRecord) -> Outcome:
    return Outcome(output={"InferenceComponentArn": record.arn}, put=(record,))


def _check_copies(count: int, component: str) -> None:
    if count > limits.COPIES_PER_COMPONENT_MAX:
        raise ApiError(
            ApiCode.LIMIT,
            f'Inference component "{component}" asks for {count} copies. At most '
            f"{limits.COPIES_PER_COMPONENT_MAX} are allowed.",
        )


def _new_count(component: InferenceComponentRecord, count: int) -> int:
    if component.base:
        raise invalid(f'Inference component "{component.name}" is an adapter and has no copies of its own.')
    _check_copies(count, component.name)
    return count


def _next_revision(component: InferenceComponentRecord, tables: Tables) -> int:
    """Return a revision above every one that copies still have, those being drained included."""
    used = [one.revision for one in (component.active, component.pending) if one is not None]
    used += [
        record.revision
        for record in tables.instances(component.endpoint)
        if record.component == component.name
    ]
    return max(used, default=0) + 1


def _runs_the_same(
    component: InferenceComponentRecord, new: ComponentSpecification, tables: Tables, context: Context
) -> bool:
    """Whether the copies there are can go on serving a new specification."""
    active = component.active
    assert active is not None, "asked for a component that serves"
    if component.base:
        return False  # The files behind an unchanged URL may be new ones.
    endpoint = tables.endpoint(component.endpoint)
    deployment = (endpoint.active or endpoint.pending) if endpoint is not None else None
    variant = deployment.variant(component.variant) if deployment is not None else None
    types = [launch.instance_type for launch in (variant.pools or (variant.launch,))] if variant else []
    pairs = [(active.for_type(name), new.for_type(name)) for name in types]
    return bool(pairs) and all(
        old is not None
        and of_new is not None
        and old.needs == of_new.needs
        and context.same_instances(
            replace(old.launch, instance_type=name), replace(of_new.launch, instance_type=name)
        )
        for name, (old, of_new) in zip(types, pairs, strict=True)
    )
