"""ARNs of the resources. Source: shapes ModelArn, EndpointConfigArn and EndpointArn of the service model.

Its InferenceComponentArn has no pattern; that of the others is followed.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kinds of resource, as they are written in an ARN."""

    MODEL = "model"
    ENDPOINT_CONFIG = "endpoint-config"
    ENDPOINT = "endpoint"
    INFERENCE_COMPONENT = "inference-component"


NOUNS: dict[Kind, str] = {
    Kind.MODEL: "model",
    Kind.ENDPOINT_CONFIG: "endpoint configuration",
    Kind.ENDPOINT: "endpoint",
    Kind.INFERENCE_COMPONENT: "inference component",
}
"""As SageMaker's messages call them."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the resources are.

    Attributes:
        region: AWS Region name.
        account: Twelve digits.
    """

    region: str
    account: str

    def arn(self, kind: Kind, name: str) -> str:
        """Return the ARN of a resource. The name keeps its case."""
        return f"arn:aws:sagemaker:{self.region}:{self.account}:{kind}/{name}"

    def parse(self, arn: str) -> tuple[Kind, str] | None:
        """Return kind and name of an ARN of this place, or None for any other string."""
        head, _, name = arn.partition("/")
        for kind in Kind:
            if name and head == f"arn:aws:sagemaker:{self.region}:{self.account}:{kind}":
                return kind, name
        return None
