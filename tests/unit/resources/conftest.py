"""Operations over a store in memory."""

import pytest

from warmroute.adapters.store.memory import MemoryStore
from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.resources.arns import Place
from warmroute.resources.coverage.rows import COVERAGE
from warmroute.resources.coverage.tables import check_coverage
from warmroute.resources.errors import ApiError
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.tables import Context

TYPES = {
    "ml.local": InstanceType("ml.local", ProviderKind.LOCAL),
    "fixed": InstanceType("fixed", ProviderKind.STATIC, urls=("http://a", "http://b")),
}


class Api:
    """Calls operations as the service does, one second apart."""

    def __init__(self):
        self.store = MemoryStore()
        self.now_s = 1000.0

    def call(self, operation, **request):
        self.now_s += 1
        check_coverage(COVERAGE[operation], request)
        context = Context(Place("eu-west-1", "123456789012"), self.now_s, TYPES)
        with self.store.transaction() as tables:
            outcome = OPERATIONS[operation](request, tables, context)
            for record in outcome.put:
                tables.put(record)
            for record in outcome.remove:
                tables.remove(record)
        return outcome.output

    def refused(self, operation, **request):
        with pytest.raises(ApiError) as caught:
            self.call(operation, **request)
        return caught.value

    def endpoint(self, name="ep"):
        with self.store.transaction() as tables:
            return tables.endpoint(name)

    def put(self, *records):
        with self.store.transaction() as tables:
            for record in records:
                tables.put(record)

    def put_instance(self, record):
        with self.store.transaction() as tables:
            tables.put_instance(record)

    # --- Shorthand -------------------------------------------------------------------------

    def model(self, name="m", **container):
        return self.call("CreateModel", ModelName=name, PrimaryContainer={"Image": "img"} | container)

    def config(self, name="c", *variants):
        return self.call(
            "CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=list(variants or [variant()])
        )


def variant(**changes):
    return {
        "VariantName": "v",
        "ModelName": "m",
        "InstanceType": "ml.local",
        "InitialInstanceCount": 2,
    } | changes


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def make_variant():
    return variant
