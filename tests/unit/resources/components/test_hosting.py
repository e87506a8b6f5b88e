import pytest

from warmroute.core import limits
from warmroute.resources.components.hosting import count_of, launches_of, models_of, scaling_of
from warmroute.resources.errors import ApiCode
from warmroute.resources.records import HostScaling, Launch

POOLS = [
    {"InstanceType": "ml.big", "Priority": 2},
    {"InstanceType": "ml.small", "Priority": 1, "ModelNameOverride": "small"},
]


def carrying(make_variant, **changes):
    return {
        name: value
        for name, value in make_variant(**changes).items()
        if name != "ModelName" and value is not None
    }


def refused(api, *variants):
    return api.refused("CreateEndpointConfig", EndpointConfigName="c", ProductionVariants=list(variants))


def test_variants_without_a_model_carry_copies(api, make_variant):
    api.config("c", carrying(make_variant), carrying(make_variant, VariantName="w"))
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    variant = api.endpoint().pending.variants[0]
    assert (variant.carries_copies, variant.count, variant.scaling, variant.pools) == (True, 2, None, ())
    assert variant.launch == Launch("ml.local", "")


def test_all_variants_are_of_one_kind(api, make_variant):
    api.model()
    message = refused(api, make_variant(), carrying(make_variant, VariantName="w")).message
    assert message.startswith('Variant "w" has no ModelName and others have one.')


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"InstanceType": None}, "has no InstanceType"),
        ({"InitialInstanceCount": None}, "has no InitialInstanceCount"),
        ({"InstancePools": POOLS}, "both InstanceType and InstancePools"),
        ({"InstanceType": None, "InstancePools": [POOLS[0], POOLS[0]]}, "name an instance type twice"),
        (
            {"InstanceType": None, "InstancePools": POOLS},
            "have ModelNameOverride, and the variant has no ModelName",
        ),
        ({"ManagedInstanceScaling": {"Status": "ENABLED"}}, "has no MaxInstanceCount"),
        (
            {"ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 3, "MaxInstanceCount": 2}},
            "MinInstanceCount is 3, more than MaxInstanceCount, 2.",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(api, make_variant, changes, text):
    assert text in refused(api, carrying(make_variant, **changes)).message


def test_instances_of_a_model_are_not_scaled_by_the_endpoint(api, make_variant):
    api.model()
    message = refused(api, make_variant(ManagedInstanceScaling={"Status": "ENABLED"})).message
    assert "which names a model" in message


def test_the_largest_number_of_instances_is_bounded(api, make_variant):
    scaling = {"Status": "ENABLED", "MaxInstanceCount": limits.INSTANCES_PER_VARIANT_MAX + 1}
    assert refused(api, carrying(make_variant, ManagedInstanceScaling=scaling)).code is ApiCode.LIMIT


def test_every_model_of_the_pools_must_exist(api, make_variant):
    api.model()
    variant = {k: v for k, v in make_variant(InstancePools=POOLS).items() if k != "InstanceType"}
    assert "Could not find model" in refused(api, variant).message
    api.model("small", Image="other")
    api.config("c", variant)
    with api.store.transaction() as tables:
        launches = launches_of(variant, models_of(variant, tables, None))
    assert [(one.instance_type, one.model_name, one.image) for one in launches] == [
        ("ml.small", "small", "other"),
        ("ml.big", "m", "img"),
    ]
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    assert api.endpoint().pending.variants[0].pools == launches


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, None),
        ({"Status": "DISABLED", "MaxInstanceCount": 2}, None),
        ({"Status": "ENABLED", "MaxInstanceCount": 4}, HostScaling(1, 4)),
        (
            {
                "Status": "ENABLED",
                "MinInstanceCount": 0,
                "MaxInstanceCount": 4,
                "ScaleInPolicy": {"Strategy": "IDLE_RELEASE"},
            },
            HostScaling(0, 4, step_max=1, cooldown_s=1200.0),
        ),
        (
            {
                "Status": "ENABLED",
                "MaxInstanceCount": 4,
                "ScaleInPolicy": {"Strategy": "CONSOLIDATION", "MaximumStepSize": 3, "CooldownInMinutes": 5},
            },
            HostScaling(1, 4, consolidate=True, step_max=3, cooldown_s=300.0),
        ),
    ],
)
def test_managed_instance_scaling_is_read(make_variant, scaling, expected):
    assert scaling_of(make_variant(**({"ManagedInstanceScaling": scaling} if scaling else {}))) == expected


@pytest.mark.parametrize(("initial", "expected"), [(None, 1), (1, 1), (3, 3), (9, 4)])
def test_the_first_number_of_instances_is_within_the_range(make_variant, initial, expected):
    scaling = {"Status": "ENABLED", "MaxInstanceCount": 4}
    assert (
        count_of(carrying(make_variant, InitialInstanceCount=initial, ManagedInstanceScaling=scaling))
        == expected
    )
    assert count_of(make_variant()) == 2
