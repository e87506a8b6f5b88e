"""A server that answers what a test says, and remembers what it was asked."""

from warmroute.cli.api import Api
from warmroute.cli.failure import Refused
from warmroute.cli.server import Server

ARN = "arn:aws:sagemaker:us-east-1:000000000000"


def missing(what):
    return Refused("ValidationException", f'Could not find {what} "{ARN}:x/y".')


class ScriptedApi(Api):
    """Answers by operation: a document, an exception, a function, or a list of those in turn."""

    def __init__(self, **answers):
        super().__init__(Server(endpoint_url="http://server:1", environment={}))
        self.answers = answers
        self.calls = []

    def call_service(self, service, operation, members=None):
        name = operation if service == "SageMaker" else f"{service}_{operation}"
        self.calls.append((name, dict(members or {})))
        answer = self.answers.get(name, {})
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(members)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


def endpoint_document(
    name="chat", status="InService", *, config="c1", variants=(), instances=(), tags=(), **members
):
    """Return what Warmroute.DescribeEndpoint answers."""
    return {
        "Endpoint": {
            "EndpointName": name,
            "EndpointArn": f"{ARN}:endpoint/{name}",
            "EndpointConfigName": config,
            "EndpointStatus": status,
            "CreationTime": 1000.0,
            "LastModifiedTime": 1060.0,
            **members,
        },
        "Variants": list(variants),
        "Instances": list(instances),
    }


def variant(name="AllTraffic", revision=1, **members):
    return {
        "VariantName": name,
        "Revision": revision,
        "InstanceType": "ml.local",
        "DesiredInstanceCount": 2,
        "Weight": 1.0,
        "Share": 1.0,
        "ModelName": "llama",
        "RoutingConfig": {
            "RoutingStrategy": "PREFIX_AWARE",
            "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 32},
        },
        "ConfigName": "c1",
        "Pending": False,
    } | members


def instance(number=1, **members):
    return {
        "InstanceId": f"i-{number:012x}",
        "EndpointName": "chat",
        "VariantName": "AllTraffic",
        "Revision": 1,
        "State": "in_service",
        "InstanceType": "ml.local",
        "CreationTime": 1000.0,
        "Attempt": 1,
        "InFlight": 3,
        "Url": f"http://127.0.0.1:{5000 + number}",
        "ProcessId": 4000 + number,
    } | members


def component(name="base", status="InService", **members):
    """Return what DescribeInferenceComponent answers."""
    return {
        "InferenceComponentName": name,
        "InferenceComponentArn": f"{ARN}:inference-component/{name}",
        "EndpointName": "chat",
        "EndpointArn": f"{ARN}:endpoint/chat",
        "VariantName": "AllTraffic",
        "InferenceComponentStatus": status,
        "CreationTime": 1000.0,
        "LastModifiedTime": 1060.0,
        "Specification": {
            "ModelName": "llama",
            "ComputeResourceRequirements": {
                "NumberOfAcceleratorDevicesRequired": 1,
                "MinMemoryRequiredInMb": 8192,
            },
        },
        "RuntimeConfig": {"DesiredCopyCount": 2, "CurrentCopyCount": 2},
    } | members


def adapter(name="lora", base="base", **members):
    specification = {"BaseInferenceComponentName": base, "Container": {"ArtifactUrl": f"file:///{name}"}}
    return component(name, Specification=specification, RuntimeConfig={}) | members
