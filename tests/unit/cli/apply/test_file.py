import sys

import pytest

from warmroute.cli.apply.file import BYTES_MAX, FileMistakes, read
from warmroute.cli.failure import CommandFailed

TOML = """
Name = "set"
[[Models]]
ModelName = "m"
PrimaryContainer.Image = "img"
[[Endpoints]]
EndpointName = "e"
DeploymentConfig.AutoRollbackConfiguration.Alarms = [{ AlarmName = "a" }]
[[Endpoints.EndpointConfig.ProductionVariants]]
VariantName = "v"
ModelName = "m"
InstanceType = "my.own-type"
InitialInstanceCount = 1
[[InferenceComponents]]
InferenceComponentName = "c"
EndpointName = "e"
[[ScalableTargets]]
ResourceId = "endpoint/e/variant/v"
MinCapacity = 1
[[ScalingPolicies]]
ResourceId = "inference-component/c"
PolicyName = "p"
[[ScheduledActions]]
ResourceId = "other/x"
ScheduledActionName = "s"
"""
YAML = """
Models:
  - &model
    ModelName: m
    PrimaryContainer: {Image: img}
  - <<: *model
    ModelName: m2
"""
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 10))
MERGED_LAUGHS = "a0: &a0 {x: y}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{f'*a{n - 1}, ' * 9}]}}\n" for n in range(1, 10)
)


@pytest.fixture
def file(tmp_path):
    def write(text, name="fleet.toml"):
        path = tmp_path / name
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return path

    return write


def test_a_file_is_requests_of_the_api(file):
    wanted = read(file(TOML))
    assert wanted.name == "set"
    assert wanted.models == ({"ModelName": "m", "PrimaryContainer": {"Image": "img"}},)
    (endpoint,) = wanted.endpoints
    assert endpoint["EndpointConfig"]["ProductionVariants"][0]["InstanceType"] == "my.own-type"
    assert wanted.components == ({"InferenceComponentName": "c", "EndpointName": "e"},)
    assert wanted.targets == (
        {
            "ServiceNamespace": "sagemaker",
            "ResourceId": "endpoint/e/variant/v",
            "MinCapacity": 1,
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        },
    )
    dimension = wanted.policies[0]["ScalableDimension"]
    assert dimension == "sagemaker:inference-component:DesiredCopyCount"
    assert "ScalableDimension" not in wanted.actions[0]


def test_yaml_does_as_well_and_the_file_names_the_set(file):
    wanted = read(file(YAML, "my fleet.yaml"))
    assert wanted.name == "my-fleet"
    assert [one["ModelName"] for one in wanted.models] == ["m", "m2"]


def test_an_empty_file_wants_nothing(file):
    assert read(file("", ".toml")).endpoints == ()


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("a = ", "f.toml", "f.toml: not valid TOML: "),
        (b"\xff", "f.toml", "f.toml: not valid UTF-8: "),
        ("a: [", "f.yml", "f.yml: not valid YAML: "),
        ("a: 1\na: 2", "f.yml", "f.yml: not valid YAML: a stands twice, again in line 2"),
        ("x" * (BYTES_MAX + 1), "f.toml", f"has {BYTES_MAX + 1} bytes; at most {BYTES_MAX} are allowed"),
        ("[" * 100_000, "f.yaml", "nested too deeply"),
        ("!!python/object/apply:os.system [ls]", "f.yaml", "not valid YAML"),
        ("Models: [a, &x [*x]]", "f.yaml", "not valid YAML: what begins in line 1 has itself within it"),
        ("Models:\n- &x\n  <<: *x", "f.yaml", "not valid YAML: what begins in line 2 has itself within it"),
        (LAUGHS, "f.yaml", "not valid YAML: its aliases make more than 1048576 values of it"),
        (MERGED_LAUGHS, "f.yaml", "not valid YAML: its aliases make more than 1048576 values of it"),
        ("- 1", "f.yaml", "the file = [1]: must be a table"),
        ("Name = 'a b'", "f.toml", 'f.toml: Name = "a b": must be text that matches'),
        (
            "[[Models]]\nModelName = 'm'\n[[Models]]\nModelName = 'm'",
            "f.toml",
            "Models[1]: m stands in Models[0]",
        ),
        (
            "[[Endpoints]]\nEndpointName = 'e'",
            "f.toml",
            "Endpoints[0].EndpointConfig is missing; it must be a table",
        ),
        (
            "[[Endpoints]]\nEndpointName = 'e'\nEndpointConfigName = 'c'\nEndpointConfig = {}",
            "f.toml",
            "Endpoints[0].EndpointConfigName: no such member; did you mean EndpointConfig?",
        ),
    ],
)
def test_mistakes_name_the_file_and_the_place(file, text, name, message):
    with pytest.raises(CommandFailed) as caught:
        read(file(text, name))
    assert message in caught.value.message
    assert caught.value.status == 1


def test_a_file_at_the_bound_is_read(file):
    assert read(file("#" * BYTES_MAX)).models == ()


def test_there_must_be_a_file(tmp_path):
    with pytest.raises(CommandFailed, match=r"none\.toml: cannot be read: No such file"):
        read(tmp_path / "none.toml")


def test_yaml_is_an_extra(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(CommandFailed, match=r"YAML needs PyYAML: pip install 'warmroute\[yaml\]'"):
        read(file(YAML, "f.yaml"))


def test_many_mistakes_are_all_kept_and_some_are_shown(file):
    text = "\n".join(f"Wrong{number} = 1" for number in range(25))
    with pytest.raises(FileMistakes) as caught:
        read(file(text))
    assert len(caught.value.mistakes) == 25
    assert caught.value.message.endswith("; and 5 more")
