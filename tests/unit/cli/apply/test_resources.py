"""What happens to models, endpoints and components, held against what a server has."""

from tests.unit.cli.scripted import ARN, adapter, component, endpoint_document
from warmroute.cli.apply.changes import DIGEST, MARK, OWNER, Action, Call, Follow, Present
from warmroute.cli.apply.documents import Difference
from warmroute.cli.apply.file import Wanted
from warmroute.cli.apply.resources import (
    component_digest,
    config_name,
    plan_components,
    plan_endpoints,
    plan_models,
)

MODEL = {"ModelName": "m", "PrimaryContainer": {"Image": "img"}}
VARIANT = {"VariantName": "v", "ModelName": "m", "InstanceType": "ml.local", "InitialInstanceCount": 2}
CONFIG = {"ProductionVariants": [VARIANT]}
ENDPOINT = {"EndpointName": "chat", "EndpointConfig": CONFIG}
WANTED = Wanted("set", models=(MODEL,), endpoints=(ENDPOINT,))
NAME = config_name(WANTED, ENDPOINT)
MARKS = {"Key": MARK, "Value": "set"}


def model_there(**members):
    return (
        MODEL | {"ModelArn": f"{ARN}:model/m", "CreationTime": 1.0, "EnableNetworkIsolation": False} | members
    )


def config_there(name=NAME, config=CONFIG):
    return config | {"EndpointConfigName": name, "EndpointConfigArn": f"{ARN}:endpoint-config/{name}"}


def one(changes):
    (change,) = changes
    return change


def calls(change):
    return [step.operation if isinstance(step, Call) else step for step in change.steps]


# --- Models --------------------------------------------------------------------------------------


def test_a_model_that_is_not_there_is_created_and_marked():
    change = one(plan_models(WANTED, Present()))
    assert change.action is Action.CREATE
    assert change.details == (Difference("PrimaryContainer.Image", None, "img"),)
    assert change.steps == (Call("CreateModel", MODEL | {"Tags": [MARKS]}),)


def test_a_model_that_is_as_it_should_be_is_left_alone():
    assert one(plan_models(WANTED, Present(models={"m": model_there()}))).action is Action.LEAVE


def test_a_model_that_is_another_is_replaced():
    there = model_there(PrimaryContainer={"Image": "old"})
    change = one(plan_models(WANTED, Present(models={"m": there})))
    assert change.action is Action.REPLACE
    assert change.details == (Difference("PrimaryContainer.Image", "old", "img"),)
    assert calls(change) == ["DeleteModel", "CreateModel"]


def test_tags_are_added_and_none_are_taken_away():
    tagged = MODEL | {"Tags": [{"Key": "team", "Value": "a"}]}
    wanted = Wanted("set", models=(tagged,))
    arn = model_there()["ModelArn"]
    present = Present(models={"m": model_there()}, tags={arn: {"team": "b", "other": "x"}})
    change = one(plan_models(wanted, present))
    assert change.details == (Difference("Tags[team]", "b", "a"),)
    assert change.steps == (Call("AddTags", {"ResourceArn": arn, "Tags": tagged["Tags"]}),)
    same = Present(models={"m": model_there()}, tags={arn: {"team": "a"}})
    assert one(plan_models(wanted, same)).action is Action.LEAVE


# --- Endpoints -----------------------------------------------------------------------------------


def test_a_config_is_named_by_its_content_and_that_of_its_models():
    assert NAME.startswith("chat-")
    other_model = Wanted(
        "set", models=(MODEL | {"PrimaryContainer": {"Image": "new"}},), endpoints=(ENDPOINT,)
    )
    assert config_name(other_model, ENDPOINT) != NAME
    assert config_name(Wanted("set", models=(MODEL | {"Tags": []},)), ENDPOINT) == NAME
    more = Wanted("other", models=(MODEL, MODEL | {"ModelName": "m2"}))
    assert config_name(more, ENDPOINT) == NAME
    long = ENDPOINT | {"EndpointName": "e" * 63}
    assert len(config_name(WANTED, long)) == 63


def test_an_endpoint_that_is_not_there_is_created_with_its_config():
    policy = {"AutoRollbackConfiguration": {"Alarms": []}}
    endpoint = ENDPOINT | {"DeploymentConfig": policy, "RetainAllVariantProperties": True}
    change = one(plan_endpoints(Wanted("set", (MODEL,), (endpoint,)), Present()))
    assert change.action is Action.CREATE
    config, create, follow = change.steps
    owner = {"Key": OWNER, "Value": "chat"}
    assert config.members == {"EndpointConfigName": NAME, **CONFIG, "Tags": [MARKS, owner]}
    assert create.members == {
        "EndpointName": "chat",
        "EndpointConfigName": NAME,
        "DeploymentConfig": policy,
        "Tags": [MARKS],
    }
    assert follow == Follow("endpoint", "chat", NAME)


def present(document, **given):
    return Present(endpoints={"chat": document}, **given)


def test_an_endpoint_that_is_being_deleted_is_created_again():
    change = one(plan_endpoints(WANTED, present(endpoint_document(status="Deleting"))))
    assert change.action is Action.CREATE


def test_an_endpoint_with_this_config_is_left_alone():
    document = endpoint_document(config=NAME)
    assert one(plan_endpoints(WANTED, present(document))).action is Action.LEAVE


def test_another_count_than_the_file_begins_with_is_left_alone_and_said():
    drifted = [
        {"VariantName": "v", "DesiredInstanceCount": 5},
        {"VariantName": "x", "DesiredInstanceCount": 1},
    ]
    change = one(plan_endpoints(WANTED, present(endpoint_document(config=NAME, ProductionVariants=drifted))))
    assert change.action is Action.LEAVE
    assert change.note == "v runs 5 instances, the file begins with 2"


def test_an_endpoint_that_is_on_its_way_to_this_config_is_left_alone():
    pending = {"EndpointConfigName": NAME}
    document = endpoint_document(status="Updating", config="old", PendingDeploymentSummary=pending)
    assert one(plan_endpoints(WANTED, present(document))).action is Action.LEAVE
    # One that stays on an endpoint that has rolled back is not its target.
    document = endpoint_document(config="old", PendingDeploymentSummary=pending)
    assert one(plan_endpoints(WANTED, present(document))).action is Action.UPDATE


def test_an_endpoint_with_another_config_is_updated_with_the_members_of_the_update():
    endpoint = ENDPOINT | {"RetainAllVariantProperties": True, "Tags": [{"Key": "a", "Value": "b"}]}
    old = {"ProductionVariants": [VARIANT | {"InitialInstanceCount": 1, "InitialVariantWeight": 1.0}]}
    there = present(endpoint_document(config="old"), configs={"old": config_there("old", old)})
    change = one(plan_endpoints(Wanted("set", (MODEL,), (endpoint,)), there))
    assert change.action is Action.UPDATE
    assert change.details == (Difference("ProductionVariants[v].InitialInstanceCount", "1", "2"),)
    assert calls(change) == [
        "CreateEndpointConfig",
        "AddTags",
        "UpdateEndpoint",
        Follow("endpoint", "chat", NAME),
    ]
    assert change.steps[2].members == {
        "EndpointName": "chat",
        "EndpointConfigName": NAME,
        "RetainAllVariantProperties": True,
    }


def test_a_config_that_is_there_is_not_created_again():
    there = present(
        endpoint_document(config="old"), configs={"old": config_there("old"), NAME: config_there()}
    )
    change = one(plan_endpoints(WANTED, there))
    assert calls(change)[0] == "UpdateEndpoint"
    assert change.note == "its models are new, or the configuration it has is not one of apply's"


def test_a_failed_endpoint_is_made_anew():
    change = one(plan_endpoints(WANTED, present(endpoint_document(status="Failed", config=NAME))))
    assert change.action is Action.REPLACE
    assert calls(change) == [
        "CreateEndpointConfig",
        "DeleteEndpoint",
        Follow("endpoint", "chat", deleted=True),
        "CreateEndpoint",
        Follow("endpoint", "chat", NAME),
    ]


def test_an_endpoint_whose_rollback_failed_is_updated_to_what_it_says_it_has():
    change = one(
        plan_endpoints(WANTED, present(endpoint_document(status="UpdateRollbackFailed", config=NAME)))
    )
    assert change.action is Action.UPDATE


# --- Components ----------------------------------------------------------------------------------

NEEDS = {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 8192}
BASE = {
    "InferenceComponentName": "base",
    "EndpointName": "chat",
    "VariantName": "AllTraffic",
    "Specification": {"ModelName": "llama", "ComputeResourceRequirements": NEEDS},
    "RuntimeConfig": {"CopyCount": 2},
}
LORA = {
    "InferenceComponentName": "lora",
    "EndpointName": "chat",
    "Specification": {"BaseInferenceComponentName": "base", "Container": {"ArtifactUrl": "file:///lora"}},
}
COMPONENTS = Wanted("set", components=(LORA, BASE))


def of_component(entry, document=None, *, tags=None, wanted=None, **given):
    name = entry["InferenceComponentName"]
    there = {name: document} if document is not None else {}
    arns = {document["InferenceComponentArn"]: tags or {}} if document is not None else {}
    wanted = wanted or Wanted("set", components=(entry,))
    return one(plan_components(wanted, Present(components=there, tags=arns, **given)))


def test_bases_are_created_before_their_adapters():
    changes = list(plan_components(COMPONENTS, Present()))
    assert [change.name for change in changes] == ["base", "lora"]
    create, follow = changes[0].steps
    assert create.members["Tags"] == [MARKS, {"Key": DIGEST, "Value": component_digest(COMPONENTS, BASE)}]
    assert follow == Follow("component", "base")


def test_a_component_that_is_as_it_should_be_is_left_alone():
    digest = {DIGEST: component_digest(COMPONENTS, BASE)}
    assert of_component(BASE, component(), tags=digest).action is Action.LEAVE
    assert of_component(BASE, component()).action is Action.LEAVE  # made by hand
    assert of_component(LORA, adapter()).action is Action.LEAVE


def test_an_image_is_compared_under_its_own_name():
    specification = {"Container": {"Image": "img"}, "ComputeResourceRequirements": NEEDS}
    there = {"Container": {"DeployedImage": {"SpecifiedImage": "img"}}, "ComputeResourceRequirements": NEEDS}
    change = of_component(BASE | {"Specification": specification}, component(Specification=there))
    assert change.action is Action.LEAVE


def test_another_specification_is_an_update_with_its_policy():
    policy = {"RollingUpdatePolicy": {"WaitIntervalInSeconds": 0}}
    entry = BASE | {"DeploymentConfig": policy, "RuntimeConfig": {"CopyCount": 3}}
    there = component(Specification={"ModelName": "old", "ComputeResourceRequirements": NEEDS})
    change = of_component(entry, there)
    assert change.details == (
        Difference("Specification.ModelName", "old", "llama"),
        Difference("RuntimeConfig.CopyCount", "2", "3"),
    )
    update, tag, follow = change.steps
    assert update.operation == "UpdateInferenceComponent"
    assert update.members["DeploymentConfig"] == policy
    assert update.members["RuntimeConfig"] == {"CopyCount": 3}
    assert tag.members["Tags"] == [{"Key": DIGEST, "Value": component_digest(COMPONENTS, entry)}]
    assert follow == Follow("component", "base")


def test_a_new_model_under_the_same_name_is_an_update():
    wanted = Wanted("set", models=(MODEL | {"ModelName": "llama"},), components=(BASE,))
    change = of_component(BASE, component(), tags={DIGEST: "00000000"}, wanted=wanted)
    assert (change.action, change.details, change.note) == (Action.UPDATE, (), "its model is new")


def test_a_failed_component_is_tried_again():
    digest = {DIGEST: component_digest(COMPONENTS, BASE)}
    change = of_component(BASE, component(status="Failed"), tags=digest)
    assert (change.action, change.note) == (Action.UPDATE, "it is Failed and tried again")


def test_another_number_of_copies_needs_no_rollout():
    change = of_component(BASE | {"RuntimeConfig": {"CopyCount": 5}}, component())
    assert calls(change) == ["UpdateInferenceComponentRuntimeConfig", Follow("component", "base")]
    assert change.steps[0].members["DesiredRuntimeConfig"] == {"CopyCount": 5}


def test_the_number_of_copies_of_a_component_that_is_scaled_is_left_alone():
    target = {"ResourceId": "inference-component/base"}
    change = of_component(BASE | {"RuntimeConfig": {"CopyCount": 5}}, component(), targets=(target,))
    assert change.action is Action.LEAVE
    assert change.note == "has 2 copies, the file begins with 5; its scaling decides"


def test_a_component_that_is_to_be_elsewhere_is_replaced():
    change = of_component(BASE | {"VariantName": "other"}, component())
    assert change.details == (Difference("VariantName", "AllTraffic", "other"),)
    assert calls(change) == [
        "DeleteInferenceComponent",
        Follow("component", "base", deleted=True),
        "CreateInferenceComponent",
        Follow("component", "base"),
    ]
    moved = of_component(LORA, adapter(base="another"))
    assert moved.action is Action.REPLACE
    assert of_component(LORA, adapter(EndpointName="else")).action is Action.REPLACE


def test_specifications_for_several_types_are_compared_too():
    several = [{"InstanceType": "a", "ModelName": "m"}]
    entry = {key: value for key, value in BASE.items() if key != "Specification"} | {
        "Specifications": several
    }
    there = component(Specifications=several)
    del there["Specification"]
    assert of_component(entry, there).action is Action.LEAVE
    there["Specifications"] = [{"InstanceType": "a", "ModelName": "n"}]
    assert of_component(entry, there).steps[0].members["Specifications"] == several
