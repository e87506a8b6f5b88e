"""Golden text of one endpoint's screen, as wide as terminals are."""

import click
import pytest

from tests.unit.cli.scripted import adapter, component, endpoint_document, instance, variant
from warmroute.cli.screen import (
    endpoint_screen,
    health_text,
    model_text,
    policy_text,
    rollout_text,
    strategy_text,
)
from warmroute.cli.terminal import cells

NOW_S = 1120.0


def shown(document, width):
    return [click.unstyle(line) for line in endpoint_screen(document, width=width, now_s=NOW_S)]


def canary():
    """An endpoint in the middle of a canary whose new instance does not come up."""
    document = endpoint_document(
        status="Updating",
        variants=[
            variant(Share=0.9),
            variant(revision=2, Share=0.1, Pending=True, ModelName="llama-3.1-8b-instruct-finetuned"),
        ],
        instances=[
            instance(1),
            instance(2, InFlight=12, State="draining", DrainingTime=1100.0, Reason="drained by an operator"),
            instance(
                3,
                Revision=2,
                State="starting",
                Attempt=2,
                FailedHealthChecks=3,
                Health="GET http://127.0.0.1:5003/health: connection refused",
                CreationTime=1110.0,
            ),
        ],
        PendingDeploymentSummary={"EndpointConfigName": "c2"},
        FailureReason="The last one\nfailed.",
    )
    document["Rollout"] = {"Step": 0, "Steps": 2, "Phase": "provisioning", "Since": 1105.0}
    return document


def hosts():
    """An endpoint of host slots: a base component with two copies, two adapters, one of which failed."""
    on_host = {"InferenceComponentName": "base", "HostInstanceId": "i-00000000000a"}
    loading = {"State": "starting", "Health": "loading the model", "Devices": [1]}
    document = endpoint_document(
        variants=[variant(InstanceType="ml.box", ModelName="", RoutingConfig=None, DesiredInstanceCount=1)],
        instances=[
            instance(1, **on_host, Devices=[0], Adapters=["lora-1", "lora-2"]),
            instance(2, **on_host, **loading),
            instance(10, CarriesCopies=True, Url="", ProcessId="", Health="nothing to ask"),
        ],
    )
    document["Instances"][2].pop("InFlight")
    failed = {"InferenceComponentStatus": "Failed", "FailureReason": "The engine refused it: no such file"}
    document["InferenceComponents"] = [adapter("lora-1"), component("base"), adapter("lora-2", **failed)]
    document["ScalableTargets"] = [
        {"ResourceId": "inference-component/base", "MinCapacity": 0, "MaxCapacity": 4}
    ]
    tracking = {
        "TargetValue": 5.0,
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
        },
    }
    document["ScalingPolicies"] = [
        {
            "PolicyName": "busy",
            "ResourceId": "inference-component/base",
            "TargetTrackingScalingPolicyConfiguration": tracking,
        },
        {"PolicyName": "wake", "ResourceId": "inference-component/base"},
        {"PolicyName": "other", "ResourceId": "inference-component/other"},
    ]
    return document


GOLDEN = {
    ("deployment", 80): """
Endpoint chat
  Status     Updating for 60 s, step 1 of 2, provisioning for 15 s
  Last time  The last one failed.
  Config     c1, being replaced by c2
  Created    1970-01-01 00:16:40 UTC (2 m ago)
  ARN        arn:aws:sagemaker:us-east-1:000000000000:endpoint/chat

Variants
  NAME        REV  READY  WEIGHT  SHARE  MODEL              STRATEGY
  AllTraffic    1    1/2       1    90%  llama              PREFIX_AWARE 4096/32
  AllTraffic    2    0/2       1    10%  llama-3.1-8b-ins…  PREFIX_AWARE 4096/32

Instances
  ID              VARIANT     REV  STATE       BUSY   AGE  URL
  i-000000000001  AllTraffic    1  in_service     3   2 m  http://127.0.0.1:5001
  i-000000000002  AllTraffic    1  draining      12   2 m  http://127.0.0.1:5002
      drained by an operator
  i-000000000003  AllTraffic    2  starting       3  10 s  http://127.0.0.1:5003
      try 2, 3 checks failed, GET http://127.0.0.1:5003/health: connection
      refused
""",
    ("deployment", 140): """
Endpoint chat
  Status     Updating for 60 s, step 1 of 2, provisioning for 15 s
  Last time  The last one failed.
  Config     c1, being replaced by c2
  Created    1970-01-01 00:16:40 UTC (2 m ago)
  ARN        arn:aws:sagemaker:us-east-1:000000000000:endpoint/chat

Variants
  NAME        REV  READY  WEIGHT  SHARE  MODEL                            TYPE      STRATEGY
  AllTraffic    1    1/2       1    90%  llama                            ml.local  PREFIX_AWARE 4096/32
  AllTraffic    2    0/2       1    10%  llama-3.1-8b-instruct-finetuned  ml.local  PREFIX_AWARE 4096/32

Instances
  ID              VARIANT     REV  STATE       BUSY   AGE  URL                     PID
  i-000000000001  AllTraffic    1  in_service     3   2 m  http://127.0.0.1:5001  4001
  i-000000000002  AllTraffic    1  draining      12   2 m  http://127.0.0.1:5002  4002
      drained by an operator
  i-000000000003  AllTraffic    2  starting       3  10 s  http://127.0.0.1:5003  4003
      try 2, 3 checks failed, GET http://127.0.0.1:5003/health: connection refused
""",
    ("hosts", 80): """
Endpoint chat
  Status     InService for 60 s
  Config     c1
  Created    1970-01-01 00:16:40 UTC (2 m ago)
  ARN        arn:aws:sagemaker:us-east-1:000000000000:endpoint/chat

Variants
  NAME        READY  WEIGHT  TYPE    STRATEGY
  AllTraffic    1/1       1  ml.box  RANDOM

Components
  NAME      STATUS     COPIES  MODEL           NEEDS          AGE
  base      InService     2/2  llama           1 acc 8192 MB  2 m
    lora-1  InService          file:///lora-1                 2 m
    lora-2  Failed             file:///lora-2                 2 m
      The engine refused it: no such file

Instances
  ID                COPY OF  STATE       BUSY  AGE  DEVICES  ADAPTERS
  i-00000000000a             in_service        2 m
    i-000000000001  base     in_service     3  2 m  0        lora-1 lora-2
    i-000000000002  base     starting       3  2 m  1
      loading the model

Scaling
  TARGET                    MIN  MAX
  inference-component/base    0    4
      busy (target 5 InferenceComponentConcurrentRequestsPerCopy), wake (steps)
""",
    ("hosts", 140): """
Endpoint chat
  Status     InService for 60 s
  Config     c1
  Created    1970-01-01 00:16:40 UTC (2 m ago)
  ARN        arn:aws:sagemaker:us-east-1:000000000000:endpoint/chat

Variants
  NAME        READY  WEIGHT  TYPE    STRATEGY
  AllTraffic    1/1       1  ml.box  RANDOM

Components
  NAME      STATUS     COPIES  MODEL           NEEDS          AGE
  base      InService     2/2  llama           1 acc 8192 MB  2 m
    lora-1  InService          file:///lora-1                 2 m
    lora-2  Failed             file:///lora-2                 2 m
      The engine refused it: no such file

Instances
  ID                COPY OF  STATE       BUSY  AGE  DEVICES  ADAPTERS       URL                     PID
  i-00000000000a             in_service        2 m
    i-000000000001  base     in_service     3  2 m  0        lora-1 lora-2  http://127.0.0.1:5001  4001
    i-000000000002  base     starting       3  2 m  1                       http://127.0.0.1:5002  4002
      loading the model

Scaling
  TARGET                    MIN  MAX
  inference-component/base    0    4
      busy (target 5 InferenceComponentConcurrentRequestsPerCopy), wake (steps)
""",
}


@pytest.mark.parametrize(
    ("name", "make", "width"),
    [
        ("deployment", canary, 80),
        ("deployment", canary, 140),
        ("hosts", hosts, 80),
        ("hosts", hosts, 140),
    ],
)
def test_the_screen_is_as_it_was_looked_at(name, make, width):
    assert shown(make(), width) == GOLDEN[name, width].strip("\n").split("\n")
    assert max(map(cells, shown(make(), width))) <= width


def test_an_endpoint_without_instances_has_no_table_of_them():
    assert shown(endpoint_document(status="Failed", FailureReason="no such image"), 80)[1:3] == [
        "  Status     Failed for 60 s",
        "  Why        no such image",
    ]
    assert "Instances" not in shown(endpoint_document(), 80)


def test_a_shadow_is_named():
    document = endpoint_document(variants=[variant(), variant("shadow", Shadow=True, Share=0.2)])
    assert "  shadow (shadow)    0/2       1    20%" in "\n".join(shown(document, 140))


def test_a_strategy_is_few_words():
    assert strategy_text(None) == "RANDOM"
    assert strategy_text({"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}) == "LEAST_OUTSTANDING"


def test_a_healthy_instance_needs_no_words():
    assert health_text(instance(Health="ok")) == ""
    assert health_text(instance(FailedHealthChecks=2, Health="503")) == "2 checks failed, 503"


def test_where_a_rollout_stands():
    assert rollout_text(None, 0.0) == ""
    back = {"Step": 1, "Steps": 3, "Phase": "provisioning", "Since": 10.0, "RollingBack": True}
    assert rollout_text(back, 15.0) == "rolling back, step 2 of 3, provisioning for 5 s"


def test_what_a_component_runs():
    image = {"Container": {"DeployedImage": {"SpecifiedImage": "img"}}}
    assert model_text(component(Specification=image)) == "img"
    several = [{"ModelName": "a", "InstanceType": "x"}, {"ModelName": "b", "InstanceType": "y"}]
    assert model_text(component(Specification=None, Specifications=several)) == "a"


def test_a_policy_on_a_metric_of_its_own():
    policy = {"PolicyName": "p", "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 2.5}}
    assert policy_text(policy) == "p (target 2.5)"
