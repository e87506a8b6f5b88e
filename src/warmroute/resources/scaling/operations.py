"""The operations of Application Auto Scaling that are served, by the name in ``X-Amz-Target``."""

from collections.abc import Callable, Mapping

from warmroute.resources.records import JsonObject
from warmroute.resources.scaling import policies as scaling_policies
from warmroute.resources.scaling import scheduled_actions
from warmroute.resources.scaling import targets as scalable_targets
from warmroute.resources.scaling.requests import AllTables, ScalingContext, ScalingOutcome

ScalingOperation = Callable[[JsonObject, AllTables, ScalingContext], ScalingOutcome]

SCALING_OPERATIONS: Mapping[str, ScalingOperation] = {
    "RegisterScalableTarget": scalable_targets.register_scalable_target,
    "DescribeScalableTargets": scalable_targets.describe_scalable_targets,
    "DeregisterScalableTarget": scalable_targets.deregister_scalable_target,
    "PutScalingPolicy": scaling_policies.put_scaling_policy,
    "DescribeScalingPolicies": scaling_policies.describe_scaling_policies,
    "DeleteScalingPolicy": scaling_policies.delete_scaling_policy,
    "PutScheduledAction": scheduled_actions.put_scheduled_action,
    "DescribeScheduledActions": scheduled_actions.describe_scheduled_actions,
    "DeleteScheduledAction": scheduled_actions.delete_scheduled_action,
    "DescribeScalingActivities": scheduled_actions.describe_scaling_activities,
    "TagResource": scalable_targets.tag_resource,
    "UntagResource": scalable_targets.untag_resource,
    "ListTagsForResource": scalable_targets.list_tags_for_resource,
}
"""GetPredictiveScalingForecast is not among them: nothing here predicts."""
