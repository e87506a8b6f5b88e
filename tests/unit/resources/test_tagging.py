import pytest

from warmroute.resources.tagging import TAGS_MAX, tags_of

PREFIX = "arn:aws:sagemaker:eu-west-1:123456789012"


@pytest.fixture
def arns(api):
    api.call("CreateModel", ModelName="m", PrimaryContainer={}, Tags=[{"Key": "a", "Value": "1"}])
    api.config()
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    return {kind: f"{PREFIX}:{kind}" for kind in ("model/m", "endpoint-config/c", "endpoint/ep")}


@pytest.mark.parametrize("name", ["model/m", "endpoint-config/c", "endpoint/ep"])
def test_every_kind_of_resource_has_tags(api, arns, name):
    arn = arns[name]
    api.call("AddTags", ResourceArn=arn, Tags=[{"Key": "b", "Value": "2"}, {"Key": "a", "Value": "3"}])
    tags = {tag["Key"]: tag["Value"] for tag in api.call("ListTags", ResourceArn=arn)["Tags"]}
    assert tags == {"a": "3", "b": "2"}
    api.call("DeleteTags", ResourceArn=arn, TagKeys=["a", "unknown"])
    assert api.call("ListTags", ResourceArn=arn) == {"Tags": [{"Key": "b", "Value": "2"}]}


@pytest.mark.parametrize("kind", ["model", "endpoint-config", "endpoint", "inference-component"])
def test_resources_that_do_not_exist_have_none(api, kind):
    error = api.refused("ListTags", ResourceArn=f"{PREFIX}:{kind}/x")
    assert error.message.startswith("Could not find")


def test_other_arns_are_refused(api):
    assert "names no model" in api.refused("ListTags", ResourceArn="arn:aws:iam::1:role/x").message


def test_a_resource_has_at_most_50_tags(api, arns):
    arn = arns["model/m"]
    api.call("AddTags", ResourceArn=arn, Tags=[{"Key": f"k{i}", "Value": ""} for i in range(TAGS_MAX - 1)])
    error = api.refused("AddTags", ResourceArn=arn, Tags=[{"Key": "one more", "Value": ""}])
    assert "51 tags" in error.message


def test_a_token_that_listtags_never_made_is_refused(api, arns):
    assert "NextToken" in api.refused("ListTags", ResourceArn=arns["model/m"], NextToken="x").message


def test_keys_come_once(api):
    assert tags_of(None) == {}
    tags = [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]
    error = api.refused("CreateModel", ModelName="x", PrimaryContainer={}, Tags=tags)
    assert 'Tag key "a" is given twice' in error.message


@pytest.mark.parametrize("key", ["aws:owner", "AWS:owner"])
def test_keys_of_aws_are_refused(api, arns, key):
    tags = [{"Key": "b", "Value": "1"}, {"Key": key, "Value": "2"}]
    for operation, members in (
        ("AddTags", {"ResourceArn": arns["model/m"]}),
        ("CreateModel", {"ModelName": "x", "PrimaryContainer": {}}),
    ):
        assert f'Tag key "{key}" begins with "aws:"' in api.refused(operation, Tags=tags, **members).message
    assert api.call("ListTags", ResourceArn=arns["model/m"]) == {"Tags": [{"Key": "a", "Value": "1"}]}
