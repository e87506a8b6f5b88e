import pytest

from warmroute.adapters.service_model import load_schema
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.shapes import FLOAT_MAX, build_schema


@pytest.fixture(scope="module")
def schema():
    return load_schema(["my.type", "ml.t2.medium"])


def test_every_served_operation_has_its_input(schema):
    assert set(schema.inputs) == set(OPERATIONS)
    assert "DeleteModel" not in schema.outputs
    assert "CreateTrainingJob" in schema.known


def test_declared_instance_types_are_added_once(schema):
    enum = (
        schema.inputs["CreateEndpointConfig"].members["ProductionVariants"].item.members["InstanceType"].enum
    )
    assert "my.type" in enum
    assert enum.count("ml.t2.medium") == 1


def test_bounds_are_of_values_or_lengths(schema):
    variant = schema.inputs["CreateEndpointConfig"].members["ProductionVariants"].item
    routing = variant.members["RoutingConfig"].members["PrefixAwareRoutingConfig"]
    length = routing.members["PrefixLength"]
    assert (length.is_number, length.least, length.most) == (True, 1024, 65536)
    assert not variant.members["VariantName"].is_number
    assert variant.members["InitialVariantWeight"].most == FLOAT_MAX
    assert variant.required == ("VariantName",)


def test_models_on_this_machine_can_be_named(schema):
    container = schema.inputs["CreateModel"].members["PrimaryContainer"]
    assert "file" in container.members["ModelDataUrl"].pattern
    source = container.members["ModelDataSource"].members["S3DataSource"]
    assert "file" in source.members["S3Uri"].pattern
    config = schema.inputs["CreateEndpointConfig"].members["DataCaptureConfig"]
    assert "file" not in config.members["DestinationS3Uri"].pattern


def test_shapes_may_contain_themselves():
    model = {
        "operations": {"Op": {"input": {"shape": "Node"}}},
        "shapes": {
            "Node": {"type": "structure", "members": {"Children": {"shape": "Nodes"}}},
            "Nodes": {"type": "list", "member": {"shape": "Node"}},
        },
    }
    node = build_schema(model, ["Op"]).inputs["Op"]
    assert node.members["Children"].item is node


def test_maps_have_keys(schema):
    environment = schema.inputs["CreateModel"].members["PrimaryContainer"].members["Environment"]
    assert environment.key.name == "EnvironmentKey"
    assert environment.item.name == "EnvironmentValue"


def test_numbers_that_only_the_models_text_tells_are_choices(schema):
    metrics = schema.inputs["CreateEndpointConfig"].members["MetricsConfig"]
    assert metrics.members["MetricPublishFrequencyInSeconds"].choices == (10, 30, 60, 120, 180, 240, 300)
