"""What a caller is told when an attempt failed, when no target could be picked, and of a decision."""

from dataclasses import dataclass
from typing import assert_never

from warmroute.core.decision import NEW_SESSION, Assigned, Refusal, RoutingRequest
from warmroute.core.errors import Failure, Problem
from warmroute.core.events import FailureCause, Invocation
from warmroute.core.fleet import Target
from warmroute.observe.receipt import receipt
from warmroute.routing.books import VariantBook
from warmroute.routing.explain import foreseen, order
from warmroute.wire import texts
from warmroute.wire.headers import HeaderList


@dataclass(frozen=True, slots=True)
class Place:
    """What SageMaker's words have to name: where we are, and what was called.

    Attributes:
        region: AWS Region.
        account: Twelve digits.
        endpoint: Its name.
        component: Inference component whose copies serve the call, or ``""``.
    """

    region: str
    account: str
    endpoint: str
    component: str = ""

    def container(self, target: Target) -> str:
        """Return what SageMaker's words call the server that answered.

        Choice: on endpoints of components, where SageMaker has an opaque id, it is that of the copy.
        """
        return target.target_id if self.component else texts.CONTAINER


def model_answered(status: int, body: bytes, place: Place, target: Target) -> Failure:
    """Return the failure that quotes a model server's own error answer."""
    text = body.decode("utf-8", "replace")
    return texts.model_error(
        status, text, region=place.region, account=place.account, endpoint=place.endpoint,
        component=place.component, container=place.container(target),
    )  # fmt: skip


def told(cause: FailureCause, detail: str, place: Place, target: Target) -> Failure:
    """Return the failure of an attempt that is not made again.

    Args:
        cause: How it failed; a complete answer with a 5xx status is told by `model_answered` instead.
        detail: For people.
        place: For SageMaker's words.
        target: Where the attempt was made.
    """
    match cause:
        case FailureCause.CONNECT_FAILED | FailureCause.STALE_CONNECTION | FailureCause.LOADING:
            return Failure(Problem.INSTANCE_UNREACHABLE, f"No instance could be reached: {detail}.")
        case FailureCause.FIRST_BYTE_TIMEOUT | FailureCause.IDLE_TIMEOUT | FailureCause.TOTAL_TIMEOUT:
            return texts.model_timeout(
                region=place.region, account=place.account, endpoint=place.endpoint,
                component=place.component, container=place.container(target),
            )  # fmt: skip
        case FailureCause.CLOSED | FailureCause.BROKEN | FailureCause.MALFORMED:
            return texts.model_died(
                region=place.region, account=place.account, endpoint=place.endpoint,
                component=place.component, container=place.container(target),
            )  # fmt: skip
        case FailureCause.SERVER_ERROR:
            raise AssertionError("an answer with a 5xx status is told as the model's error")
        case _:
            assert_never(cause)


Before = tuple[FailureCause, str, Target]
"""How an attempt failed, for people too, and where."""


def refused(refusal: Refusal, place: Place, after: Before | None) -> Failure:
    """Return the failure of an invocation that no target could take.

    Args:
        refusal: Why none could.
        place: With its endpoint.
        after: How the attempt before failed; None at the first attempt.
    """
    match refusal:
        case Refusal.NO_TARGET:
            text = f"Endpoint {place.endpoint} has no instance in service yet."
            return Failure(Problem.NO_CAPACITY, text)
        case Refusal.NO_COPY:
            return texts.component_without_capacity()
        case Refusal.SESSION_UNKNOWN | Refusal.SESSION_GONE | Refusal.SESSIONS_FULL:
            return _session_refused(refusal, place)
        case Refusal.ALL_EJECTED | Refusal.ALL_TRIED | Refusal.SESSION_UNAVAILABLE:
            if after is not None:
                cause, detail, target = after
                return told(cause, detail, place, target)
            what = f"copy of inference component {place.component}" if place.component else "instance"
            whose = (
                f"Every {what} of endpoint {place.endpoint} failed recently; they are tried again shortly."
            )
            if refusal is Refusal.SESSION_UNAVAILABLE:
                whose = (
                    f"The instance of endpoint {place.endpoint} that has the session failed recently; it is "
                    "tried again shortly."
                )
            return Failure(Problem.INSTANCE_UNREACHABLE, whose)
        case _:
            assert_never(refusal)


def _session_refused(refusal: Refusal, place: Place) -> Failure:
    """Return the failure of a request whose session cannot be gone on with, or begun."""
    if refusal is Refusal.SESSIONS_FULL:
        text = f"No more sessions can be opened on endpoint {place.endpoint} until others end."
        return Failure(Problem.NO_CAPACITY, text)
    what = "is not open: it never was, it was closed, or it has expired"
    if refusal is Refusal.SESSION_GONE:
        what = "is lost: the instance that had it is gone or was started anew"
    text = (
        f"The session that SessionId names {what}. Open another one on endpoint {place.endpoint}: SessionId"
    )
    return Failure(Problem.BAD_REQUEST, f"{text} {NEW_SESSION}.")


def no_openai_shape() -> Failure:
    """Return the failure of a native call whose body fits no route of a server without ``/invocations``."""
    return Failure(
        Problem.BAD_REQUEST,
        "The endpoint's model server has no /invocations route, so the body has to be that of an OpenAI "
        "route: a JSON object with 'messages' (chat), 'prompt' (completion) or 'input' (embedding). It is "
        "none of these.",
    )


def adapter_out_of_reach(request: RoutingRequest) -> Failure:
    """Return the failure of an invocation whose adapter was loaded, but where no attempt came through."""
    why = "the copies that have it cannot be reached"
    return texts.adapter_not_ready(request.adapter, request.component, why)


def explained(decision: Assigned | None, record: Invocation, request: RoutingRequest) -> HeaderList:
    """Return the header field with the receipt of the last decision; none where there was no decision."""
    if decision is None:
        return []
    book = decision.lease.book  # not always the one that was drawn: another revision may have taken over
    assert isinstance(book, VariantBook), "leases come from decide"
    told = receipt(
        record, decision.candidates, foreseen(decision.lease), instance=decision.target.instance_id,
        order=order(book, request),
    )  # fmt: skip
    return [(b"x-warmroute-decision", told)]
