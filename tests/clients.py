"""boto3's clients as tests make them, and what they do with answers."""

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.running import wait_until

ONCE = {"total_max_attempts": 1}
"""Retries of a client that sends every request once."""


def boto3_client(service, url, *, region="us-east-1", **config):
    """Return boto3's client of a service at a URL; ``config`` is that of botocore, retries included."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=region,
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(**config),
    )


def refused(call, **arguments):
    """Return code and message of a refusal."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


class Cluster:
    """One warmroute, boto3's clients for it, and what they see of its inference components."""

    def __init__(self, server):
        self.server = server
        self.sagemaker = boto3_client("sagemaker", server.url, retries=ONCE)
        self.runtime = boto3_client("sagemaker-runtime", server.url, retries=ONCE)

    def describe(self, name):
        return self.sagemaker.describe_inference_component(InferenceComponentName=name)

    def settled(self, *names):
        """Wait until components are not changing; return their statuses."""

        def done():
            statuses = [self.describe(name)["InferenceComponentStatus"] for name in names]
            return not {"Creating", "Updating"} & set(statuses)

        wait_until(done, explain=self.server.log_text, seconds=60.0)
        return [self.describe(name)["InferenceComponentStatus"] for name in names]
