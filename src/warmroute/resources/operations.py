"""The operations that are served, by the name in ``X-Amz-Target``."""

from collections.abc import Callable, Mapping

from warmroute.resources import endpoint_configs, endpoint_views, endpoints, models, tagging
from warmroute.resources.components import operations as components
from warmroute.resources.components import views as component_views
from warmroute.resources.records import JsonObject
from warmroute.resources.tables import Context, Outcome, Tables

Operation = Callable[[JsonObject, Tables, Context], Outcome]

OPERATIONS: Mapping[str, Operation] = {
    "CreateModel": models.create_model,
    "DescribeModel": models.describe_model,
    "ListModels": models.list_models,
    "DeleteModel": models.delete_model,
    "CreateEndpointConfig": endpoint_configs.create_endpoint_config,
    "DescribeEndpointConfig": endpoint_configs.describe_endpoint_config,
    "ListEndpointConfigs": endpoint_configs.list_endpoint_configs,
    "DeleteEndpointConfig": endpoint_configs.delete_endpoint_config,
    "CreateEndpoint": endpoints.create_endpoint,
    "DescribeEndpoint": endpoint_views.describe_endpoint,
    "ListEndpoints": endpoint_views.list_endpoints,
    "UpdateEndpoint": endpoints.update_endpoint,
    "UpdateEndpointWeightsAndCapacities": endpoints.update_weights_and_capacities,
    "DeleteEndpoint": endpoints.delete_endpoint,
    "CreateInferenceComponent": components.create_inference_component,
    "DescribeInferenceComponent": component_views.describe_inference_component,
    "ListInferenceComponents": component_views.list_inference_components,
    "UpdateInferenceComponent": components.update_inference_component,
    "UpdateInferenceComponentRuntimeConfig": components.update_inference_component_runtime_config,
    "DeleteInferenceComponent": components.delete_inference_component,
    "AddTags": tagging.add_tags,
    "ListTags": tagging.list_tags,
    "DeleteTags": tagging.delete_tags,
}
