"""The SageMaker Python SDK's resource classes (sagemaker-core) against a running warmroute, unchanged.

They create, wait, invoke and delete; the environment tells boto3 where the service is.
"""

import json
import warnings

import boto3
import pytest

from tests.relay import running
from tests.stub_server import StubServer

pytestmark = [pytest.mark.process, pytest.mark.slow]

POLL_S, WAIT_S = 1, 60
ROUTING = {"prefix_length": 4096, "concurrency_threshold": 10}
CHAT = json.dumps({"messages": [{"role": "user", "content": "hi"}]})


@pytest.fixture(scope="module")
def resources():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports, and none of ours
        from sagemaker.core import resources, shapes
    resources.shapes = shapes
    return resources


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with StubServer("a") as a, StubServer("b") as b, StubServer("own") as own:
        urls = json.dumps([a.url, b.url])
        settings = (
            f'[instance_types."ml.p5.48xlarge"]\nprovider = "static"\nurls = {urls}\naccelerators = 8\n'
        )
        with running(tmp_path_factory.mktemp("core"), own.url, toml=settings) as started:
            yield started


@pytest.fixture
def session(server, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    return boto3.Session("any", "any", region_name="us-east-1")


def make(resources, session, name, **variant):
    """Create a model, a configuration of two instances of it, and an endpoint; wait for that."""
    shapes = resources.shapes
    model = resources.Model.create(
        model_name=name,
        primary_container=shapes.ContainerDefinition(image="vllm", environment={"A": "1"}),
        session=session,
    )
    config = resources.EndpointConfig.create(
        endpoint_config_name=name,
        production_variants=[
            shapes.ProductionVariant(
                variant_name="v",
                instance_type="ml.p5.48xlarge",
                initial_instance_count=2,
                routing_config=shapes.ProductionVariantRoutingConfig(
                    routing_strategy="PREFIX_AWARE",
                    prefix_aware_routing_config=shapes.PrefixAwareRoutingConfig(**ROUTING),
                ),
                **variant,
            )
        ],
        session=session,
    )
    endpoint = resources.Endpoint.create(endpoint_name=name, endpoint_config_name=name, session=session)
    endpoint.wait_for_status("InService", poll=POLL_S, timeout=WAIT_S)
    return model, config, endpoint


def end(model, config, endpoint):
    endpoint.delete()
    endpoint.wait_for_delete(poll=POLL_S, timeout=WAIT_S)
    config.delete()
    model.delete()


def said(answer):
    return json.loads(answer.body.read())["choices"][0]["message"]["content"]


def test_a_model_endpoint_is_created_waited_for_invoked_updated_and_deleted(resources, session):
    model, config, endpoint = make(resources, session, "core", model_name="core")
    assert model.primary_container.environment == {"A": "1"}
    assert config.production_variants[0].routing_config.prefix_aware_routing_config.prefix_length == 4096
    assert endpoint.production_variants[0].current_instance_count == 2
    assert said(endpoint.invoke(body=CHAT, content_type="application/json")).startswith("Hello from ")
    endpoint.update(retain_all_variant_properties=True)
    endpoint.wait_for_status("InService", poll=POLL_S, timeout=WAIT_S)
    found = [one.endpoint_name for one in resources.Endpoint.get_all(name_contains="core", session=session)]
    assert found == ["core"]
    assert resources.Model.get("core", session=session).model_arn == model.model_arn
    end(model, config, endpoint)
    assert not list(resources.Endpoint.get_all(name_contains="core", session=session))


def test_an_inference_component_is_created_waited_for_invoked_scaled_and_deleted(resources, session):
    shapes = resources.shapes
    model, config, endpoint = make(resources, session, "hosts")
    component = resources.InferenceComponent.create(
        inference_component_name="comp",
        endpoint_name="hosts",
        variant_name="v",
        specification=shapes.InferenceComponentSpecification(
            model_name="hosts",
            compute_resource_requirements=shapes.InferenceComponentComputeResourceRequirements(
                min_memory_required_in_mb=1024, number_of_accelerator_devices_required=8
            ),
        ),
        runtime_config=shapes.InferenceComponentRuntimeConfig(copy_count=1),
        session=session,
    )
    component.wait_for_status("InService", poll=POLL_S, timeout=WAIT_S)
    answer = endpoint.invoke(body=CHAT, content_type="application/json", inference_component_name="comp")
    assert said(answer).startswith("Hello from ")
    component.update_runtime_configs(
        desired_runtime_config=shapes.InferenceComponentRuntimeConfig(copy_count=2)
    )
    component.wait_for_status("InService", poll=POLL_S, timeout=WAIT_S)
    assert component.runtime_config.current_copy_count == 2
    component.delete()
    component.wait_for_delete(poll=POLL_S, timeout=WAIT_S)
    end(model, config, endpoint)
