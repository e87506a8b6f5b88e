"""botocore's service models, as tests read them."""

from botocore.loaders import Loader
from botocore.model import ServiceModel


def load_service_model(service):
    """Return botocore's model of a service."""
    return ServiceModel(Loader().load_service_model(service, "service-2"), service)
