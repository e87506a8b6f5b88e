"""What tests of the API share: service models, a world that others begin like, and boto3 as it is."""

import asyncio

import pytest

from tests.clients import boto3_client
from tests.conformance.facts import populate
from tests.conformance.world import World, load_schemas
from tests.service_models import load_service_model


@pytest.fixture(scope="module")
def model():
    """Return the service model that has an operation."""
    models = [load_service_model("sagemaker"), load_service_model("application-autoscaling")]
    return {name: one.operation_model(name) for one in models for name in one.operation_names}


@pytest.fixture(scope="module")
def schema():
    return load_schemas()


@pytest.fixture(scope="module")
def first(schema):
    """The world that every other one begins like."""
    world = World(schema)
    asyncio.run(populate(world))
    return world


@pytest.fixture(scope="module")
def content(first):
    return first.content


@pytest.fixture(scope="module")
def runtime(server):
    """Return boto3's client for invocations of the module's ``server``, with its own retries."""
    client = boto3_client("sagemaker-runtime", server.url)
    yield client
    client.close()
