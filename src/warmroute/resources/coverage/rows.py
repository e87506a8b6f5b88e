"""The rows of ``coverage``: every member of every SageMaker operation that is served.

Whoever serves an operation, or begins to honour a member, changes its row here; ``make docs`` writes the
reference from it. A member that is refused depending on its value has a note, and its operation refuses it.
"""

from collections.abc import Mapping
from typing import Final

from warmroute.resources.coverage.tables import Structure, structure

DECIDED_WITH: Final = "1.44.8"
"""The botocore whose service model every row was decided about; members of later ones are refused."""

_ALARM = structure(honoured=("AlarmName",))
_CAPACITY = structure(honoured=("Type", "Value"))
_TAG = structure(honoured=("Key", "Value"))
_TAGS = {"Tags": _TAG}

_S3_SOURCE = structure(
    honoured=("S3Uri",),
    stored=("S3DataType", "CompressionType", "ModelAccessConfig", "ETag", "ManifestEtag"),
    refused={
        "HubAccessConfig": "There is no model hub; give the model's own S3Uri.",
        "ManifestS3Uri": "Manifests are not read; give the model's own S3Uri.",
    },
    notes={"S3Uri": "`file://` is allowed beside `s3://` and `https://`"},
)
CONTAINER: Final = structure(
    honoured=("Image", "ModelDataUrl", "ModelDataSource", "Environment", "Mode"),
    stored=("ContainerHostname", "ImageConfig", "MultiModelConfig", "ContainerMetricsConfig"),
    refused={
        "ModelPackageName": "There are no model packages; give Image and ModelDataUrl.",
        "AdditionalModelDataSources": "A server gets one location; put all it needs at ModelDataUrl.",
        "InferenceSpecificationName": "It chooses within a model package, and those are not supported.",
    },
    notes={
        "ModelDataUrl": "`file://` is allowed beside `s3://` and `https://`",
        "Mode": "SingleModel only; MultiModel is refused",
        "Environment": "32 KB in total",
    },
    inside={"ModelDataSource": structure(honoured=("S3DataSource",), inside={"S3DataSource": _S3_SOURCE})},
)
_MODEL = structure(
    noun="model",
    named_by="ModelName",
    honoured=("ModelName", "PrimaryContainer", "Containers", "Tags"),
    stored=("InferenceExecutionConfig", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation"),
    notes={"Containers": "one member only; pipelines are refused"},
    inside={"PrimaryContainer": CONTAINER, "Containers": CONTAINER, **_TAGS},
)

_ROUTING = structure(
    noun="RoutingConfig",
    honoured=("RoutingStrategy", "PrefixAwareRoutingConfig"),
    notes={"PrefixAwareRoutingConfig": "required with PREFIX_AWARE, refused with any other strategy"},
    inside={"PrefixAwareRoutingConfig": structure(honoured=("PrefixLength", "ConcurrencyThreshold"))},
)
_SCALING = structure(
    noun="ManagedInstanceScaling",
    honoured=("Status", "MinInstanceCount", "MaxInstanceCount", "ScaleInPolicy"),
    notes={"Status": "ENABLED only on a variant without ModelName"},
    inside={"ScaleInPolicy": structure(honoured=("Strategy", "MaximumStepSize", "CooldownInMinutes"))},
)
VARIANT: Final = structure(
    noun="variant",
    named_by="VariantName",
    honoured=(
        "VariantName", "ModelName", "InstanceType", "InitialInstanceCount", "InitialVariantWeight",
        "RoutingConfig", "ContainerStartupHealthCheckTimeoutInSeconds", "ManagedInstanceScaling",
        "InstancePools",
    ),
    stored=(
        "AcceleratorType", "CapacityReservationConfig", "CoreDumpConfig",
        "EnableSSMAccess", "InferenceAmiVersion", "ModelDataDownloadTimeoutInSeconds",
        "VariantInstanceProvisionTimeoutInSeconds", "VolumeSizeInGB",
    ),
    refused={
        "ServerlessConfig": "Variants have instances; give InstanceType and InitialInstanceCount.",
        "AcceleratorPartitionLayouts": "Declare an instance type for the partition in the settings.",
    },
    notes={
        "InstanceType": "the model's enum, and the instance types that the settings declare",
        "ModelName": "left out of every variant of an endpoint for inference components",
    },
    inside={
        "RoutingConfig": _ROUTING,
        "ManagedInstanceScaling": _SCALING,
        "InstancePools": structure(honoured=("InstanceType", "ModelNameOverride", "Priority")),
    },
)  # fmt: skip
_CAPTURE = structure(
    noun="DataCaptureConfig",
    honoured=("EnableCapture",),
    stored=(
        "InitialSamplingPercentage", "DestinationS3Uri", "KmsKeyId", "CaptureOptions",
        "CaptureContentTypeHeader",
    ),
    notes={"EnableCapture": "false only; capture is refused"},
)  # fmt: skip
_METRICS = structure(
    noun="MetricsConfig",
    stored=("EnableEnhancedMetrics", "EnableDetailedObservability", "MetricPublishFrequencyInSeconds"),
)
_CONFIG = structure(
    noun="endpoint configuration",
    named_by="EndpointConfigName",
    honoured=(
        "EndpointConfigName", "ProductionVariants", "ShadowProductionVariants", "DataCaptureConfig", "Tags",
    ),
    stored=("KmsKeyId", "ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation", "MetricsConfig"),
    refused={
        "AsyncInferenceConfig": "Nothing is queued or written to S3; invoke in real time or as a stream.",
        "ExplainerConfig": "Nothing explains answers here; leave it out.",
        "CrossRegionTrafficConfig": "There is one Region; leave it out.",
    },
    notes={"ShadowProductionVariants": "one, beside one production variant"},
    inside={
        "ProductionVariants": VARIANT, "ShadowProductionVariants": VARIANT, "DataCaptureConfig": _CAPTURE,
        "MetricsConfig": _METRICS, **_TAGS,
    },
)  # fmt: skip

_SPECIFICATION = structure(
    noun="Specification",
    honoured=(
        "InstanceType", "ModelName", "Container", "StartupParameters", "ComputeResourceRequirements",
        "BaseInferenceComponentName", "SchedulingConfig",
    ),
    stored=("DataCacheConfig",),
    notes={"InstanceType": "the model's enum, and the instance types that the settings declare"},
    inside={
        "Container": structure(
            honoured=("Image", "ArtifactUrl", "Environment"),
            stored=("ContainerMetricsConfig",),
            notes={"ArtifactUrl": "`file://` is allowed beside `s3://` and `https://`"},
        ),
        "StartupParameters": structure(
            honoured=("ContainerStartupHealthCheckTimeoutInSeconds",),
            stored=("ModelDataDownloadTimeoutInSeconds",),
        ),
        "ComputeResourceRequirements": structure(
            honoured=(
                "NumberOfCpuCoresRequired", "NumberOfAcceleratorDevicesRequired", "MinMemoryRequiredInMb",
                "MaxMemoryRequiredInMb",
            ),
            refused={
                "AcceleratorPartitionType": "Declare an instance type for the partition in the settings."
            },
            notes={
                "NumberOfAcceleratorDevicesRequired": "whole numbers",
                "MaxMemoryRequiredInMb": "may not be more than an instance has; no cap on the process",
            },
        ),
        "SchedulingConfig": structure(
            honoured=("PlacementStrategy",), stored=("AvailabilityZoneBalance",)
        ),
    },
)  # fmt: skip
_COPIES = structure(honoured=("CopyCount",))

_TRAFFIC = structure(
    honoured=("Type", "WaitIntervalInSeconds", "CanarySize", "LinearStepSize"),
    inside={"CanarySize": _CAPACITY, "LinearStepSize": _CAPACITY},
)
_BLUE_GREEN = structure(
    honoured=(
        "TrafficRoutingConfiguration", "TerminationWaitInSeconds", "MaximumExecutionTimeoutInSeconds",
    ),
    inside={"TrafficRoutingConfiguration": _TRAFFIC},
)  # fmt: skip
_ROLLING = structure(
    honoured=(
        "MaximumBatchSize", "WaitIntervalInSeconds", "MaximumExecutionTimeoutInSeconds",
        "RollbackMaximumBatchSize",
    ),
    inside={"MaximumBatchSize": _CAPACITY, "RollbackMaximumBatchSize": _CAPACITY},
)  # fmt: skip
_COMPONENT_DEPLOYMENT = structure(
    noun="DeploymentConfig",
    honoured=("RollingUpdatePolicy", "AutoRollbackConfiguration"),
    inside={
        "RollingUpdatePolicy": _ROLLING,
        "AutoRollbackConfiguration": structure(honoured=("Alarms",), inside={"Alarms": _ALARM}),
    },
)
_DEPLOYMENT = structure(
    noun="DeploymentConfig",
    honoured=("BlueGreenUpdatePolicy", "RollingUpdatePolicy", "AutoRollbackConfiguration"),
    notes={"BlueGreenUpdatePolicy": "not together with RollingUpdatePolicy"},
    inside={
        "BlueGreenUpdatePolicy": _BLUE_GREEN,
        "RollingUpdatePolicy": _ROLLING,
        "AutoRollbackConfiguration": structure(honoured=("Alarms",), inside={"Alarms": _ALARM}),
    },
)


def _page(*filters: str) -> Structure:
    return structure(
        honoured=(
            "SortBy", "SortOrder", "NextToken", "MaxResults", "NameContains", "CreationTimeBefore",
            "CreationTimeAfter", *filters,
        )
    )  # fmt: skip


COVERAGE: Final[Mapping[str, Structure]] = {
    "CreateModel": _MODEL,
    "DescribeModel": structure(honoured=("ModelName",)),
    "ListModels": _page(),
    "DeleteModel": structure(honoured=("ModelName",)),
    "CreateEndpointConfig": _CONFIG,
    "DescribeEndpointConfig": structure(honoured=("EndpointConfigName",)),
    "ListEndpointConfigs": _page(),
    "DeleteEndpointConfig": structure(honoured=("EndpointConfigName",)),
    "CreateEndpoint": structure(
        noun="endpoint",
        named_by="EndpointName",
        honoured=("EndpointName", "EndpointConfigName", "DeploymentConfig", "Tags"),
        inside={"DeploymentConfig": _DEPLOYMENT, **_TAGS},
    ),
    "DescribeEndpoint": structure(honoured=("EndpointName",)),
    "ListEndpoints": _page("LastModifiedTimeBefore", "LastModifiedTimeAfter", "StatusEquals"),
    "UpdateEndpoint": structure(
        noun="endpoint",
        named_by="EndpointName",
        honoured=(
            "EndpointName", "EndpointConfigName", "RetainAllVariantProperties",
            "ExcludeRetainedVariantProperties", "DeploymentConfig", "RetainDeploymentConfig",
        ),
        inside={
            "DeploymentConfig": _DEPLOYMENT,
            "ExcludeRetainedVariantProperties": structure(honoured=("VariantPropertyType",)),
        },
    ),
    "UpdateEndpointWeightsAndCapacities": structure(
        noun="endpoint",
        named_by="EndpointName",
        honoured=("EndpointName", "DesiredWeightsAndCapacities"),
        inside={
            "DesiredWeightsAndCapacities": structure(
                noun="variant",
                named_by="VariantName",
                honoured=("VariantName", "DesiredWeight", "DesiredInstanceCount"),
                refused={"ServerlessUpdateConfig": "No variant is serverless; give DesiredInstanceCount."},
            )
        },
    ),
    "DeleteEndpoint": structure(honoured=("EndpointName",)),
    "CreateInferenceComponent": structure(
        noun="inference component",
        named_by="InferenceComponentName",
        honoured=(
            "InferenceComponentName", "EndpointName", "VariantName", "Specification", "Specifications",
            "RuntimeConfig", "Tags",
        ),
        inside={
            "Specification": _SPECIFICATION,
            "Specifications": _SPECIFICATION,
            "RuntimeConfig": _COPIES,
            **_TAGS,
        },
    ),
    "DescribeInferenceComponent": structure(honoured=("InferenceComponentName",)),
    "ListInferenceComponents": _page(
        "LastModifiedTimeBefore", "LastModifiedTimeAfter", "StatusEquals", "EndpointNameEquals",
        "VariantNameEquals",
    ),
    "UpdateInferenceComponent": structure(
        noun="inference component",
        named_by="InferenceComponentName",
        honoured=(
            "InferenceComponentName", "Specification", "Specifications", "RuntimeConfig", "DeploymentConfig",
        ),
        inside={
            "Specification": _SPECIFICATION,
            "Specifications": _SPECIFICATION,
            "RuntimeConfig": _COPIES,
            "DeploymentConfig": _COMPONENT_DEPLOYMENT,
        },
    ),
    "UpdateInferenceComponentRuntimeConfig": structure(
        noun="inference component",
        named_by="InferenceComponentName",
        honoured=("InferenceComponentName", "DesiredRuntimeConfig"),
        inside={"DesiredRuntimeConfig": _COPIES},
    ),
    "DeleteInferenceComponent": structure(honoured=("InferenceComponentName",)),
    "AddTags": structure(honoured=("ResourceArn", "Tags"), inside=_TAGS),
    "ListTags": structure(honoured=("ResourceArn", "NextToken", "MaxResults")),
    "DeleteTags": structure(honoured=("ResourceArn", "TagKeys")),
}  # fmt: skip
"""By operation."""
