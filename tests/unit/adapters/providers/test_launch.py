from dataclasses import replace
from pathlib import Path

import pytest

from warmroute.adapters.providers.launch import (
    DEVICE_VARIABLES,
    Place,
    command_line,
    model_path,
    server_environment,
)
from warmroute.controlplane.ports import InstanceOrder, ProviderRefused
from warmroute.core.ids import EndpointName, InstanceId, VariantName
from warmroute.core.machines import Image

PLACE = Place(
    host="127.0.0.1", port=4000, data_dir=Path("/data"), directory=Path("/data/instances/i-1"), python="/py"
)


def order(model_data_url: str | None = None, **environment: str) -> InstanceOrder:
    return InstanceOrder(
        InstanceId("i-1"),
        EndpointName("llm"),
        VariantName("v"),
        "ml.local",
        None,
        environment,
        model_data_url,
    )


def test_every_placeholder_is_filled_in_and_other_braces_stay():
    image = Image(
        "x", ("{python}", "-m", "s", "--listen={host}:{port}", "{model}", "{data_dir}/c", '{"a": {b}}')
    )

    command = command_line(image, order("file:///models/my%20model.gguf"), PLACE)

    assert command == (
        "/py", "-m", "s", "--listen=127.0.0.1:4000", "/models/my model.gguf", "/data/c", '{"a": {b}}'
    )  # fmt: skip


def test_a_value_that_looks_like_a_placeholder_is_not_filled_in_again():
    assert command_line(Image("x", ("{model}",)), order("file:///{port}"), PLACE) == ("/{port}",)


def test_an_image_without_a_command_is_refused():
    with pytest.raises(ProviderRefused, match='Image "x" has no command'):
        command_line(Image("x"), order(), PLACE)


def test_an_image_that_needs_a_model_is_refused_without_one():
    with pytest.raises(ProviderRefused, match="needs a model"):
        command_line(Image("x", ("serve", "--model={model}")), order(), PLACE)


@pytest.mark.parametrize(
    ("url", "path"),
    [(None, None), ("file:///a/b", "/a/b"), ("file://localhost/a", "/a"), ("file:///a%20b", "/a b")],
)
def test_a_model_of_this_machine_has_a_path(url, path):
    assert model_path(url) == path


@pytest.mark.parametrize(
    "url", ["s3://bucket/key", "https://host/x", "file://elsewhere/x", "file://", "/a/b", ""]
)
def test_a_model_elsewhere_is_refused(url):
    with pytest.raises(ProviderRefused, match="must be file:///PATH"):
        model_path(url)


def test_the_model_s_environment_wins_over_the_image_s_and_ours_over_all():
    image = Image("x", ("s",), environment={"A": "image", "B": "image", "WARMROUTE_LLAMA_SLOTS": "1"})

    environment = server_environment(
        {"PATH": "/bin", "A": "us", "WARMROUTE_AUTH__KEY": "secret"},
        image,
        order("file:///m", B="model", WARMROUTE_INSTANCE_ID="forged"),
        PLACE,
    )

    assert environment == {
        "PATH": "/bin",
        "SPT_NOENV": "1",
        "A": "image",
        "B": "model",
        "WARMROUTE_LLAMA_SLOTS": "1",
        "WARMROUTE_INSTANCE_ID": "i-1",
        "WARMROUTE_INSTANCE_DIRECTORY": "/data/instances/i-1",
        "WARMROUTE_MODEL_PATH": "/m",
    }


def test_a_server_sees_the_devices_it_was_given_and_no_others_whatever_the_model_says():
    given = replace(order(CUDA_VISIBLE_DEVICES="7", HIP_VISIBLE_DEVICES="7"), devices=(2, 5))
    environment = server_environment({"ZE_AFFINITY_MASK": "7"}, Image("x", ("s",)), given, PLACE)
    assert {environment[name] for name in DEVICE_VARIABLES} == {"2,5"}


def test_without_devices_of_its_own_a_server_sees_what_it_saw():
    inherited = {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert server_environment(inherited, Image("x", ("s",)), order(), PLACE)["CUDA_VISIBLE_DEVICES"] == "0,1"


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS",
        "OPENAI_API_KEY", "VLLM_API_KEY", "DB_PASSWORD", "MY_SECRET_KEY", "MY_SECRET", "MY_ACCESS_KEY",
        "WARMROUTE_AUTH__KEY", "PGPASSWORD", "PGPASSFILE",
    ],
)  # fmt: skip
def test_credentials_of_ours_stay_behind_and_those_of_the_image_and_the_model_do_not(name):
    image = Image("x", ("s",))
    given = Image("x", ("s",), environment={name: "image's"})

    assert name not in server_environment({name: "ours"}, image, order(), PLACE)
    assert server_environment({name: "ours"}, given, order(), PLACE)[name] == "image's"
    assert (
        server_environment({name: "ours"}, image, order(None, **{name: "model's"}), PLACE)[name] == "model's"
    )


@pytest.mark.parametrize("name", ["HF_TOKEN", "CUDA_VISIBLE_DEVICES", "AWSOME", "API_KEYS_FILE", "SPT_NOENV"])
def test_everything_else_of_ours_is_passed_on(name):
    assert server_environment({name: "ours"}, Image("x", ("s",)), order(), PLACE)[name] == "ours"
