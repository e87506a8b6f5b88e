import pytest

from warmroute.core import limits
from warmroute.resources.errors import ApiCode
from warmroute.resources.models import launch_of

SOURCE = {"S3DataSource": {"S3Uri": "s3://b/k"}}
ARN = "arn:aws:sagemaker:eu-west-1:123456789012:model/m"


def test_a_model_is_kept_described_listed_and_deleted(api):
    assert api.model(Environment={"A": "1"}) == {"ModelArn": ARN}
    described = api.call("DescribeModel", ModelName="m")
    assert described == {
        "ModelName": "m",
        "ModelArn": ARN,
        "CreationTime": 1001.0,
        "EnableNetworkIsolation": False,
        "PrimaryContainer": {"Image": "img", "Environment": {"A": "1"}},
    }
    assert [m["ModelName"] for m in api.call("ListModels")["Models"]] == ["m"]
    assert api.call("DeleteModel", ModelName="m") == {}
    assert api.call("ListModels") == {"Models": []}


def test_one_of_several_containers_is_the_primary_one(api):
    api.call("CreateModel", ModelName="m", Containers=[{"Image": "x"}])
    with api.store.transaction() as tables:
        assert launch_of(tables.model("m"), "t").image == "x"


def test_the_launch_of_a_model_has_what_its_server_needs(api):
    api.model(ModelDataSource={"S3DataSource": {"S3Uri": "s3://b/k"}}, Environment={"A": "1"})
    with api.store.transaction() as tables:
        launch = launch_of(tables.model("m"), "ml.local")
    assert (launch.instance_type, launch.model_name, launch.image) == ("ml.local", "m", "img")
    assert (launch.environment, launch.model_data_url) == ({"A": "1"}, "s3://b/k")


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({}, "has no container"),
        ({"PrimaryContainer": {}, "Containers": [{}]}, "cannot both be given"),
        ({"Containers": [{}, {}]}, "A model of 2 containers is not supported"),
        ({"PrimaryContainer": {"ModelPackageName": "p"}}, "ModelPackageName"),
        ({"PrimaryContainer": {"AdditionalModelDataSources": [{}]}}, "AdditionalModelDataSources"),
        ({"PrimaryContainer": {"Mode": "MultiModel"}}, "MultiModel"),
        ({"PrimaryContainer": {"ModelDataUrl": "s3://a/b", "ModelDataSource": SOURCE}}, "cannot both"),
    ],
)
def test_what_cannot_be_honoured_is_refused(api, request_, text):
    error = api.refused("CreateModel", ModelName="m", **request_)
    assert error.code is ApiCode.VALIDATION
    assert text in error.message


def test_an_environment_may_have_32_kilobytes_and_no_more(api):
    most = limits.ENVIRONMENT_BYTES_MAX
    api.model("fits", Environment={"K": "v" * (most - 1)})
    error = api.refused("CreateModel", ModelName="m", PrimaryContainer={"Environment": {"K": "v" * most}})
    assert f"has {most + 1} bytes" in error.message


def test_the_number_of_models_is_bounded(api, monkeypatch):
    monkeypatch.setattr(limits, "MODELS_MAX", 1)
    api.model()
    assert api.refused("CreateModel", ModelName="n", PrimaryContainer={}).code is ApiCode.LIMIT


def test_names_that_exist_or_do_not(api):
    api.model()
    again = api.refused("CreateModel", ModelName="m", PrimaryContainer={})
    assert again.message == f'Cannot create already existing model "{ARN}".'
    missing = f'Could not find model "{ARN[:-1]}x".'
    assert api.refused("DescribeModel", ModelName="x").message == missing
    assert api.refused("DeleteModel", ModelName="x").message == missing
