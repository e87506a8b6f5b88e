# ruff: noqa: E501  (a table is read by its columns)
import pytest

from warmroute.core import limits
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.resources.endpoint_configs import routing_document, variant_of
from warmroute.resources.errors import ApiCode

ARN = "arn:aws:sagemaker:eu-west-1:123456789012:endpoint-config/c"
PREFIX_AWARE = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 10},
}


def create(api, variants, **more):
    return api.refused("CreateEndpointConfig", EndpointConfigName="c", ProductionVariants=variants, **more)


def test_a_config_is_kept_described_listed_and_deleted(api, make_variant):
    api.model()
    assert api.config("c", make_variant(RoutingConfig=PREFIX_AWARE)) == {"EndpointConfigArn": ARN}
    described = api.call("DescribeEndpointConfig", EndpointConfigName="c")
    assert described["EndpointConfigArn"] == ARN
    assert described["ProductionVariants"] == [
        make_variant(RoutingConfig=PREFIX_AWARE, InitialVariantWeight=1.0)
    ]
    assert described["EnableNetworkIsolation"] is False
    (listed,) = api.call("ListEndpointConfigs")["EndpointConfigs"]
    assert listed == {"EndpointConfigName": "c", "EndpointConfigArn": ARN, "CreationTime": 1002.0}
    assert api.call("ListEndpointConfigs", SortBy="Name")["EndpointConfigs"] == [listed]
    api.call("DeleteEndpointConfig", EndpointConfigName="c")
    assert api.call("ListEndpointConfigs") == {"EndpointConfigs": []}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ServerlessConfig": {"MemorySizeInMB": 1024}}, "ServerlessConfig"),
        ({"AcceleratorPartitionLayouts": [{}]}, "AcceleratorPartitionLayouts"),
        ({"InstanceType": None}, 'Variant "v" has no InstanceType'),
        ({"InitialInstanceCount": None}, 'Variant "v" has no InitialInstanceCount'),
        ({"ManagedInstanceScaling": {"Status": "ENABLED"}}, "ManagedInstanceScaling"),
        ({"ModelName": "x"}, "Could not find model"),
        ({"RoutingConfig": PREFIX_AWARE | {"RoutingStrategy": "KV_AWARE"}}, "and the strategy is KV_AWARE"),
        ({"RoutingConfig": {"RoutingStrategy": "OF_A_LATER_MODEL"}}, "This version serves RANDOM, "),
        ({"RoutingConfig": PREFIX_AWARE | {"LaterConfig": {"x": 1}}}, "LaterConfig of RoutingConfig"),
        ({"OfALaterModel": True}, 'OfALaterModel of variant "v" is not supported by warmroute. Leave it out.'),
        ({"RoutingConfig": PREFIX_AWARE | {"RoutingStrategy": "RANDOM"}}, "only with RoutingStrategy PREFIX_AWARE"),
        ({"RoutingConfig": {"RoutingStrategy": "PREFIX_AWARE"}}, "Missing: PrefixLength, ConcurrencyThreshold."),
        (
            {"RoutingConfig": PREFIX_AWARE | {"PrefixAwareRoutingConfig": {"ConcurrencyThreshold": 1}}},
            "Missing: PrefixLength.",
        ),
    ],
)  # fmt: skip
def test_variants_that_cannot_be_honoured_are_refused(api, make_variant, changes, text):
    api.model()
    variant = {name: value for name, value in make_variant(**changes).items() if value is not None}
    error = create(api, [variant])
    assert error.code is ApiCode.VALIDATION
    assert text in error.message


@pytest.mark.parametrize(
    "member",
    ["AsyncInferenceConfig", "ExplainerConfig", "CrossRegionTrafficConfig"],
)
def test_configs_that_cannot_be_honoured_are_refused(api, make_variant, member):
    api.model()
    assert create(api, [make_variant()], **{member: {"x": 1}}).message.startswith(
        f"{member} of endpoint configuration"
    )


def test_data_capture_may_be_off(api, make_variant):
    api.model()
    assert "DataCaptureConfig" in create(api, [make_variant()], DataCaptureConfig={}).message
    api.call(
        "CreateEndpointConfig",
        EndpointConfigName="c",
        ProductionVariants=[make_variant(ManagedInstanceScaling={"Status": "DISABLED"})],
        DataCaptureConfig={"EnableCapture": False},
    )


def test_variant_names_are_unique(api, make_variant):
    api.model()
    text = 'The variant name "v" was non-unique within the request.'
    assert create(api, [make_variant(), make_variant()]).message == text


def test_the_number_of_instances_is_bounded(api, make_variant):
    api.model()
    most = limits.INSTANCES_PER_VARIANT_MAX
    api.config("fits", make_variant(InitialInstanceCount=most))
    error = create(api, [make_variant(InitialInstanceCount=most + 1)])
    assert error.code is ApiCode.LIMIT
    assert f"At most {most} per variant" in error.message


def test_the_number_of_configs_is_bounded(api, make_variant, monkeypatch):
    monkeypatch.setattr(limits, "ENDPOINT_CONFIGS_MAX", 1)
    api.model()
    api.config("b")
    assert create(api, [make_variant()]).code is ApiCode.LIMIT


def test_names_that_exist_or_do_not(api, make_variant):
    api.model()
    api.config()
    assert create(api, [make_variant()]).message == (
        f'Cannot create already existing endpoint configuration "{ARN}".'
    )
    missing = f'Could not find endpoint configuration "{ARN[:-1]}x".'
    assert api.refused("DescribeEndpointConfig", EndpointConfigName="x").message == missing
    assert api.refused("DeleteEndpointConfig", EndpointConfigName="x").message == missing


@pytest.mark.parametrize(
    "routing",
    [
        Routing(RoutingStrategy.RANDOM),
        Routing(RoutingStrategy.PREFIX_AWARE, 2048, 3),
        Routing(RoutingStrategy.KV_AWARE),
    ],
)
def test_routing_is_written_as_it_was_given(routing):
    document = routing_document(routing)
    assert document["RoutingStrategy"] == routing.strategy
    assert ("PrefixAwareRoutingConfig" in document) == (routing.prefix_length is not None)


def test_a_variant_carries_what_its_instances_need(api, make_variant):
    api.model(Environment={"A": "1"})
    scaling = {"Status": "DISABLED"}
    given = make_variant(
        RoutingConfig=PREFIX_AWARE,
        InitialVariantWeight=2,
        ContainerStartupHealthCheckTimeoutInSeconds=60,
        ManagedInstanceScaling=scaling,
    )
    with api.store.transaction() as tables:
        variant = variant_of(given, {"m": tables.model("m")}, revision=7)
        plain = variant_of(make_variant(InitialVariantWeight=1.0), {"m": tables.model("m")}, revision=1)
    assert variant.routing == Routing(RoutingStrategy.PREFIX_AWARE, 4096, 10)
    assert (variant.revision, variant.count, variant.weight, variant.startup_s) == (7, 2, 2.0, 60)
    assert variant.launch.environment == {"A": "1"}
    assert variant.echo == {"ManagedInstanceScaling": scaling}
    assert (plain.routing, plain.startup_s) == (None, None)


# --- shadow variants -------------------------------------------------------------------------


def with_shadow(api, make_variant, *shadows, production=1):
    variants = [make_variant(VariantName=f"v{number}") for number in range(production)]
    request = {"EndpointConfigName": "c", "ProductionVariants": variants}
    return request | {"ShadowProductionVariants": list(shadows)}


def test_a_config_may_have_one_shadow_beside_one_variant(api, make_variant):
    api.model()
    api.call("CreateEndpointConfig", **with_shadow(api, make_variant, make_variant(VariantName="s")))
    shown = api.call("DescribeEndpointConfig", EndpointConfigName="c")
    (shadow,) = shown["ShadowProductionVariants"]
    assert (shadow["VariantName"], shadow["InitialVariantWeight"]) == ("s", 1.0)


def test_two_of_either_are_refused(api, make_variant):
    api.model()
    shadow, other = make_variant(VariantName="s"), make_variant(VariantName="t")
    for request in (
        with_shadow(api, make_variant, shadow, other),
        with_shadow(api, make_variant, shadow, production=2),
    ):
        error = api.refused("CreateEndpointConfig", **request)
        assert "one production variant and one shadow variant" in str(error)


def test_a_shadow_has_a_name_of_its_own_and_a_model_that_exists(api, make_variant):
    api.model()
    refused = api.refused(
        "CreateEndpointConfig", **with_shadow(api, make_variant, make_variant(VariantName="v0"))
    )
    assert "non-unique" in str(refused)
    missing = make_variant(VariantName="s", ModelName="gone")
    assert "Could not find model" in str(
        api.refused("CreateEndpointConfig", **with_shadow(api, make_variant, missing))
    )


def test_a_shadow_of_an_endpoint_for_components_is_refused(api, make_variant):
    shadow = make_variant(VariantName="s")
    request = with_shadow(api, make_variant, shadow)
    for each in (shadow, *request["ProductionVariants"]):
        del each["ModelName"]
    assert "shadow variant without ModelName" in str(api.refused("CreateEndpointConfig", **request))
