"""Facts about attempts and invocations, in the past tense.

Routing, metrics and the access log are all projections of these; nobody counts anywhere else.
Times are nanoseconds of one monotonic clock.
"""

from enum import StrEnum

from msgspec import Struct

from warmroute.core.decision import Lease


class FailureCause(StrEnum):
    """How an attempt failed on its instance."""

    CONNECT_FAILED = "connect_failed"
    STALE_CONNECTION = "stale_connection"
    """A reused connection turned out closed before the whole request was handed to the kernel."""
    LOADING = "loading"
    """503 from a server that says it is still loading its model."""
    CLOSED = "closed"
    """The connection ended before an answer."""
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    """No piece of the answer for too long."""
    TOTAL_TIMEOUT = "total_timeout"
    BROKEN = "broken"
    """The answer ended in its middle."""
    MALFORMED = "malformed"
    """The answer is not HTTP, or its head is over the limit."""
    SERVER_ERROR = "server_error"
    """A complete answer with a 5xx status."""

    @property
    def nothing_ran(self) -> bool:
        """Whether the model cannot have worked on the request, so that another target may."""
        return self in _NOTHING_RAN


_NOTHING_RAN = frozenset({FailureCause.CONNECT_FAILED, FailureCause.STALE_CONNECTION, FailureCause.LOADING})


class FirstToken(Struct, frozen=True, gc=False):
    """The first token of a streamed answer came: the engine has computed the prompt."""

    lease: Lease


class Completed(Struct, frozen=True, gc=False):
    """The attempt's answer went through to its end (or was a client's mistake, answered by the model).

    Attributes:
        lease: Of the attempt.
        prompt_tokens: Length of the prompt as the engine reports it; -1 when it did not, 0 when it
            has computed nothing of it.
        cached_tokens: How many of these it found in its cache; -1 when it did not say.
        output_tokens: Length of the answer, likewise.
    """

    lease: Lease
    prompt_tokens: int = -1
    cached_tokens: int = -1
    output_tokens: int = -1


class Failed(Struct, frozen=True, gc=False):
    """The instance failed the attempt."""

    lease: Lease
    cause: FailureCause


class Cancelled(Struct, frozen=True, gc=False):
    """The caller went away, or we ended the attempt ourselves; says nothing about the instance."""

    lease: Lease


AttemptEnded = Completed | Failed | Cancelled
AttemptEvent = FirstToken | AttemptEnded


class TextBlocksStored(Struct, frozen=True, gc=False):
    """A target's engine has these text blocks in its cache from now on.

    Attributes:
        target_id: Which target.
        generation: Of the target; facts about another one are void.
        blocks: Chained hashes as in `RoutingRequest.chain`.
    """

    target_id: str
    generation: int
    blocks: tuple[int, ...]


class TextBlocksRemoved(Struct, frozen=True, gc=False):
    """A target's engine has evicted these text blocks."""

    target_id: str
    generation: int
    blocks: tuple[int, ...]


class CacheCleared(Struct, frozen=True, gc=False):
    """A target's engine has an empty cache; what is told from now on is everything there is."""

    target_id: str
    generation: int


class EventsLost(Struct, frozen=True, gc=False):
    """Facts about a target's cache were missed, or come no more.

    Attributes:
        target_id: Which target.
        generation: Of the target.
        why: For people: ``gap``, ``disconnected``, ``silent``.
    """

    target_id: str
    generation: int
    why: str


CacheEvent = TextBlocksStored | TextBlocksRemoved | CacheCleared | EventsLost


class ShadowOutcome(StrEnum):
    """What became of a copy that a shadow variant was to get."""

    COMPLETED = "completed"
    """It was answered, with whatever status."""
    FAILED = "failed"
    """Its instance did not answer it to the end."""
    CANCELLED_LATE = "cancelled_late"
    """It took longer than a copy may."""
    CANCELLED_STOPPING = "cancelled_stopping"
    """The router stops."""
    DROPPED_FULL = "dropped_full"
    """Too many copies, or too many bytes of them, were under way."""
    DROPPED_NO_TARGET = "dropped_no_target"
    """The shadow has no instance that could take it."""
    DROPPED_NO_ROUTE = "dropped_no_route"
    """Its server has no route for this body."""


class ShadowCopyEnded(Struct, frozen=True, gc=False):
    """A copy of an invocation ended, or never began.

    Attributes:
        endpoint: Whose.
        variant: The shadow variant.
        outcome: What became of it.
        status: Of the answer; 0 without one.
        first_byte_ns: From its dispatch to the answer's head; 0 without one.
        total_ns: From its dispatch to its end; 0 for one that never began.
    """

    endpoint: str
    variant: str
    outcome: ShadowOutcome
    status: int = 0
    first_byte_ns: int = 0
    total_ns: int = 0


class Invocation(Struct, gc=False):
    """The record of one invocation, handed to the projections once, when it has ended.

    Not frozen: it is filled in on the way and read once. Times are nanoseconds, 0 = did not happen.
    """

    request_id: str
    route: str
    started_ns: int
    endpoint: str = ""
    variant: str = ""
    target: str = ""
    strategy: str = ""
    reason: str = ""
    principal: str = ""
    component: str = ""
    """Inference component whose copies serve it, the base component of an adapter; ``""`` for none."""
    adapter: str = ""
    """Inference component of the LoRA adapter that was called."""
    session: str = ""
    """``new``, ``opened``, ``resumed`` or ``closed``; ``""`` for a call without a session."""
    rank: int = -1
    in_flight: int = 0
    attempts: int = 0
    status: int = 0
    model_status: int = 0
    """Of the last attempt's answer where that is no success; 0 otherwise."""
    outcome: str = ""
    """``completed``, ``failed``, ``cancelled`` or ``rejected``."""
    problem: str = ""
    cause: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    prompt_tokens: int = -1
    """As the engine reports them, under KV_AWARE; -1 otherwise, and when it does not."""
    cached_tokens: int = -1
    """How many of these it found in its cache, likewise."""
    output_tokens: int = -1
    broken: bool = False
    """The answer failed after its head had been sent."""
    dispatched_ns: int = 0
    first_byte_ns: int = 0
    ended_ns: int = 0
