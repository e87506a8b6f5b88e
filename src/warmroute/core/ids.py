"""Identifiers, each a type of its own so that one cannot be passed for another."""

from typing import NewType

EndpointName = NewType("EndpointName", str)
VariantName = NewType("VariantName", str)
InstanceId = NewType("InstanceId", str)
"""Names an instance for its whole life, e.g. ``i-3f9c2a7d10b4``; never used again for another one."""
TargetId = NewType("TargetId", str)
"""Names what takes a lease. Equal to the instance id while an instance carries one model server."""
ComponentName = NewType("ComponentName", str)
"""Names an inference component, an adapter's included; unique within a Region and account."""
