import pytest

from warmroute.resources.arns import Place
from warmroute.resources.components.specifications import base_of, specification_of
from warmroute.resources.errors import ApiError
from warmroute.resources.records import CopyNeeds, CopySpecification, Launch
from warmroute.resources.tables import Context

NEEDS = {"MinMemoryRequiredInMb": 256}
CONTAINER = {"Image": "img"}
ADAPTER = {"BaseInferenceComponentName": "b", "Container": {"ArtifactUrl": "s3://b/a.tar.gz"}}


@pytest.fixture
def read(api):
    api.model(ModelDataUrl="file:///m")
    context = Context(Place("eu-west-1", "123456789012"), 5.0, {})

    def call(**request):
        with api.store.transaction() as tables:
            return specification_of(request, tables, context, revision=3)

    return call


def test_no_specification_asks_for_none(read):
    assert read() is None


def test_everything_a_copy_needs_is_carried(read):
    given = {
        "Container": {"Image": "img", "ArtifactUrl": "s3://b/k", "Environment": {"A": "1"}},
        "ComputeResourceRequirements": {
            "MinMemoryRequiredInMb": 256,
            "MaxMemoryRequiredInMb": 512,
            "NumberOfCpuCoresRequired": 0.5,
            "NumberOfAcceleratorDevicesRequired": 2.0,
        },
        "StartupParameters": {"ContainerStartupHealthCheckTimeoutInSeconds": 90},
        "SchedulingConfig": {"PlacementStrategy": "BINPACK"},
    }
    specification = read(Specification=given)
    launch = Launch("", "", "img", {"A": "1"}, "s3://b/k")
    assert specification.copies == (
        CopySpecification(launch, CopyNeeds(256, 512, 0.5, 2), "", 90, binpack=True),
    )
    assert (specification.document, specification.revision) == ({"Specification": given}, 3)
    assert specification.for_type("any") is specification.copies[0]
    assert base_of(specification.document) == ""


def test_a_model_is_read_when_it_is_named(read):
    specification = read(Specification={"ModelName": "m", "ComputeResourceRequirements": NEEDS})
    assert specification.copies[0].launch == Launch("", "m", "img", {}, "file:///m")
    assert not specification.copies[0].binpack


def test_several_specifications_are_for_one_type_each(read):
    given = [
        {"InstanceType": name, "Container": {"Image": name}, "ComputeResourceRequirements": NEEDS}
        for name in ("a", "b")
    ]
    specification = read(Specifications=given)
    assert specification.for_type("b").launch.image == "b"
    assert specification.for_type("c") is None
    assert base_of(specification.document) == ""


def test_an_adapter_is_where_its_files_are(read):
    specification = read(Specification=ADAPTER)
    assert (specification.artifact_url, specification.copies) == ("s3://b/a.tar.gz", ())
    assert base_of(specification.document) == "b"
    assert base_of(read(Specifications=[ADAPTER]).document) == "b"


WHOLE = {"Container": CONTAINER, "ComputeResourceRequirements": NEEDS}


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"Specification": WHOLE, "Specifications": [WHOLE]}, "cannot both be given"),
        ({"Specifications": [WHOLE, WHOLE]}, "must have an InstanceType"),
        (
            {"Specifications": [WHOLE | {"InstanceType": "a"}, WHOLE | {"InstanceType": "a"}]},
            "name an InstanceType twice",
        ),
        ({"Specifications": [ADAPTER, ADAPTER]}, "An adapter has one Specification"),
        (
            {"Specification": ADAPTER | {"ComputeResourceRequirements": NEEDS}},
            "ComputeResourceRequirements is not allowed",
        ),
        ({"Specification": ADAPTER | {"ModelName": "m"}}, "ModelName is not allowed"),
        ({"Specification": {"BaseInferenceComponentName": "b"}}, "needs Container with ArtifactUrl"),
        ({"Specification": {"ComputeResourceRequirements": NEEDS}}, "it has neither"),
        ({"Specification": WHOLE | {"ModelName": "m"}}, "it has both"),
        ({"Specification": {"ModelName": "x", "ComputeResourceRequirements": NEEDS}}, "Could not find model"),
        ({"Specification": {"Container": CONTAINER}}, "needs ComputeResourceRequirements"),
        (
            {"Specification": WHOLE | {"Container": {"Environment": {"A": "x" * 33_000}}}},
            "At most 32768 are allowed",
        ),
        (
            {
                "Specification": WHOLE
                | {"ComputeResourceRequirements": NEEDS | {"NumberOfAcceleratorDevicesRequired": 1.5}}
            },
            "is 1.5. Whole devices are given out.",
        ),
        (
            {
                "Specification": WHOLE
                | {"ComputeResourceRequirements": NEEDS | {"MaxMemoryRequiredInMb": 128}}
            },
            "MaxMemoryRequiredInMb is 128, less than",
        ),
    ],
)
def test_members_that_do_not_fit_together_are_refused(read, request_, text):
    with pytest.raises(ApiError, match=".") as caught:
        read(**request_)
    assert text in caught.value.message
