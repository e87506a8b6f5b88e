"""DeploymentConfig: what of it is honoured, and what is refused.

All at once is how a deployment goes here, with or without a DeploymentConfig that says so. Waits
between shifting traffic and ending the old instances exist to give alarms time to trip; there are no
alarms, so they are accepted, returned, and not waited for.
"""

from warmroute.resources.errors import invalid, unsupported
from warmroute.resources.records import JsonObject

_LATER = "Use BlueGreenUpdatePolicy with traffic routing of type ALL_AT_ONCE, or leave DeploymentConfig out."


def check_policy(policy: JsonObject | None) -> None:
    """Refuse a DeploymentConfig that cannot be honoured.

    Raises:
        ApiError: Two policies at once; a canary, linear or rolling one; alarms.
    """
    if policy is None:
        return
    blue_green = policy.get("BlueGreenUpdatePolicy")
    rolling = policy.get("RollingUpdatePolicy")
    if blue_green is not None and rolling is not None:
        raise invalid(
            "DeploymentConfig has both BlueGreenUpdatePolicy and RollingUpdatePolicy. Only one is allowed."
        )
    if rolling is not None:
        raise unsupported("RollingUpdatePolicy", _LATER)
    if blue_green is not None:
        routing = blue_green["TrafficRoutingConfiguration"]
        if routing["Type"] != "ALL_AT_ONCE":
            raise unsupported(f"Traffic routing of type {routing['Type']}", _LATER)
        for member in ("CanarySize", "LinearStepSize"):
            if member in routing:
                raise invalid(f"{member} is not allowed with traffic routing of type ALL_AT_ONCE.")
    if policy.get("AutoRollbackConfiguration", {}).get("Alarms"):
        raise unsupported(
            "AutoRollbackConfiguration", "Leave it out: an update whose instances fail is rolled back anyway."
        )
