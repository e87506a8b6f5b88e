"""What an attempt sends to its target: path, head and body."""

from warmroute.core.fleet import NativeMapping, Target
from warmroute.dataplane.desk import Desk
from warmroute.dataplane.plan import Plan
from warmroute.wire import http1, invocation
from warmroute.wire.chat import splice_model

INVOCATIONS = "/invocations"
ADAPTER = b"X-Amzn-SageMaker-Adapter-Identifier"
"""By which a container for SageMaker knows the adapter. Source: SageMaker's container standards."""

_INVOCATIONS = NativeMapping.INVOCATIONS


def path_of(plan: Plan, target: Target, desk: Desk, *, lacking: bool) -> str:
    """Return the path on a target.

    Args:
        plan: Of the invocation.
        target: Of the attempt.
        desk: Which knows what other invocations found out about the target.
        lacking: This one found out that there is no ``/invocations``.

    Returns:
        The path; ``""`` for a native body that fits none of the target's routes.
    """
    if plan.path or target.native is _INVOCATIONS:
        return plan.path or INVOCATIONS
    if target.native is NativeMapping.OPENAI or lacking or desk.lacks_invocations(target):
        return invocation.openai_path(plan.body) or ""
    return INVOCATIONS


def is_mapped(plan: Plan, target: Target, path: str, status: int) -> bool:
    """Return whether an answer says that the server lacks ``/invocations`` and may be asked as OpenAI's is.

    Args:
        plan: Of the invocation.
        target: Of the attempt.
        path: That was asked.
        status: Of the answer.
    """
    if status != 404 or path != INVOCATIONS or target.native is not NativeMapping.AUTO:
        return False  # another answer, or another route's
    return invocation.openai_path(plan.body) is not None


def message_for(plan: Plan, target: Target, path: str, desk: Desk) -> tuple[bytes, bytes]:
    """Return head and body of the request on a path of a target.

    An adapter is named in a header, and on OpenAI's routes as ``model`` too, which is all that plain engines
    look at. On ``/invocations`` the body stays as it came: SageMaker's containers put the name in themselves.
    """
    body = plan.body
    fields = plan.dialect.upstream_fields(target)
    adapter = plan.request.adapter
    if adapter:
        fields = [*fields, (ADAPTER, adapter.encode())]
        if path != INVOCATIONS:
            body = splice_model(body, target.adapter_prefix + adapter)
    elif plan.names_model:
        body = splice_model(body, target.model_name or "")
    return http1.fields_after(desk.head_start(target, path), fields, len(body)), body
