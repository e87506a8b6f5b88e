"""Copies of invocations for a shadow variant: sent beside the caller's, never in its way.

The caller's own attempt is under way before its copy begins, and nothing waits for a copy. How many are
under way, how many bytes they hold and how long each may take are bounded; what does not fit is dropped
and counted. A copy is sent once: that a shadow failed it is a result, too. Its answer is read and thrown
away; kept are its status and how long it took.

Choice: each invocation is drawn by itself, so that no rhythm of the callers can keep some from being copied.
Choice: invocations of a session are not copied, for a shadow does not know the session.
"""

from random import Random
from typing import Final

import msgspec

from warmroute.core import limits
from warmroute.core.decision import NO_PROMPT, Assigned, Lease, RoutingRequest
from warmroute.core.errors import Failure
from warmroute.core.events import (
    AttemptEnded,
    Cancelled,
    Completed,
    Failed,
    FailureCause,
    ShadowCopyEnded,
    ShadowOutcome,
)
from warmroute.dataplane.asking import native_request, openai_request
from warmroute.dataplane.desk import Desk
from warmroute.dataplane.plan import Plan
from warmroute.dataplane.ports import Call
from warmroute.dataplane.routes import match
from warmroute.dataplane.sending import is_mapped, message_for, path_of
from warmroute.routing.router import VariantBook
from warmroute.wire import chat
from warmroute.wire.headers import HeaderList

_COPY_NS_MAX: Final = int(limits.SHADOW_COPY_S_MAX * 1e9)


class Shadows:
    """The copies under way.

    Args:
        desk: What exchanges work with.
        rng: Draws which invocations are copied.

    Attributes:
        under_way: In the order they began; each has one lease.
        held_bytes: Of their bodies.
    """

    def __init__(self, desk: Desk, rng: Random) -> None:
        self._desk = desk
        self._rng = rng
        self.under_way: dict[ShadowCopy, None] = {}
        self.held_bytes = 0

    def copy(self, production: VariantBook, plan: Plan) -> None:
        """Send a copy of an invocation that has just begun, if it is drawn and fits.

        Args:
            production: The book that serves it; it has a shadow.
            plan: Its plan, with its body.
        """
        shadow = production.shadow
        assert shadow is not None, "asked for variants with a shadow"
        if plan.request.session or self._rng.random() >= shadow.share:
            return
        size = len(plan.body)
        full = (
            len(self.under_way) >= limits.SHADOW_COPIES_MAX
            or self.held_bytes + size > limits.SHADOW_COPIES_BYTES_MAX
        )
        if full:
            self._dropped(shadow, ShadowOutcome.DROPPED_FULL)
            return
        router = self._desk.router
        book = router.shadow_of(router.endpoints[production.endpoint])
        assert book is shadow, "books of an endpoint change together"
        decision = router.decide(shadow, _asked(shadow, production, plan), self._desk.clock.now_ns())
        if not isinstance(decision, Assigned):
            self._dropped(shadow, ShadowOutcome.DROPPED_NO_TARGET)
            return
        # Its own: the caller's plan lets the body go at the first byte of the caller's answer.
        own = msgspec.structs.replace(plan)
        copy = ShadowCopy(shadows=self, desk=self._desk, book=shadow, plan=own, lease=decision.lease)
        self.under_way[copy] = None
        self.held_bytes += size
        copy.send()

    def ended(self, copy: "ShadowCopy", told: ShadowCopyEnded) -> None:
        """Take a copy's end."""
        del self.under_way[copy]
        self.held_bytes -= copy.size
        self._desk.observer.shadow_copy_ended(told)

    def expire(self, now_ns: int) -> None:
        """Cancel the copies that have taken too long."""
        for copy in [each for each in self.under_way if now_ns >= each.deadline_ns]:
            copy.cancel(ShadowOutcome.CANCELLED_LATE)

    def shut_down(self) -> None:
        """Cancel all: the process waits for none of them."""
        for copy in list(self.under_way):
            copy.cancel(ShadowOutcome.CANCELLED_STOPPING)

    def _dropped(self, shadow: VariantBook, outcome: ShadowOutcome) -> None:
        self._desk.observer.shadow_copy_ended(ShadowCopyEnded(shadow.endpoint, shadow.name, outcome))


class ShadowCopy:
    """One copy. Implements `ports.Sink`."""

    __slots__ = (
        "_asked_path", "_book", "_call", "_desk", "_first_byte_ns", "_lacking", "_lease", "_plan", "_shadows",
        "_started_ns", "_status", "deadline_ns", "size",
    )  # fmt: skip

    def __init__(self, *, shadows: Shadows, desk: Desk, book: VariantBook, plan: Plan, lease: Lease) -> None:
        self._shadows = shadows
        self._desk = desk
        self._book = book
        self._plan = plan
        self._lease = lease
        self._call: Call | None = None
        self._asked_path = ""
        self._lacking = False
        self._status = 0
        self._started_ns = desk.clock.now_ns()
        self._first_byte_ns = 0
        self.size = len(plan.body)
        self.deadline_ns = self._started_ns + _COPY_NS_MAX

    def send(self) -> None:
        """Send it to the target of its lease."""
        target = self._lease.target
        path = path_of(self._plan, target, self._desk, lacking=self._lacking)
        if not path:
            self._end(Cancelled(self._lease), ShadowOutcome.DROPPED_NO_ROUTE)
            return
        head, body = message_for(self._plan, target, path, self._desk)
        self._asked_path = path
        self._call = self._desk.upstreams.call(target, head, body, self)

    def head(self, status: int, fields: HeaderList, length: int | None) -> None:
        """Take the answer's status."""
        del fields, length
        self._status = status
        self._first_byte_ns = self._desk.clock.now_ns()

    def body(self, data: bytes) -> None:
        """Throw a piece away."""

    def ended(self) -> None:
        """Take the end of a complete answer."""
        self._call = None
        lease, status = self._lease, self._status
        if not self._lacking and is_mapped(self._plan, lease.target, self._asked_path, status):
            self._lacking = True
            self._first_byte_ns = 0
            self.send()
        elif status >= 500:
            self._end(Failed(lease, FailureCause.SERVER_ERROR), ShadowOutcome.COMPLETED)
        else:
            if self._lacking and status < 300:
                self._desk.note_lacks_invocations(lease.target)
            tokens = -1 if status < 300 else 0
            self._end(Completed(lease, prompt_tokens=tokens), ShadowOutcome.COMPLETED)

    def failed(self, cause: FailureCause, detail: str) -> None:
        """Take the end of an attempt that did not complete."""
        del detail
        self._call = None
        self._end(Failed(self._lease, cause), ShadowOutcome.FAILED)

    def cancel(self, outcome: ShadowOutcome) -> None:
        """End it here, whatever it is at."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._end(Cancelled(self._lease), outcome)

    def _end(self, event: AttemptEnded, outcome: ShadowOutcome) -> None:
        desk, now_ns = self._desk, self._desk.clock.now_ns()
        change = desk.router.apply(event, now_ns)
        if change is not None:
            desk.observer.health_changed(change)
        told = ShadowCopyEnded(
            self._book.endpoint,
            self._book.name,
            outcome,
            status=self._status,
            first_byte_ns=self._first_byte_ns - self._started_ns if self._first_byte_ns else 0,
            total_ns=now_ns - self._started_ns,
        )
        self._plan.body = b""
        self._shadows.ended(self, told)


def _asked(shadow: VariantBook, production: VariantBook, plan: Plan) -> RoutingRequest:
    """Return what routing sees of a copy: where the shadow's strategy wants more, the body is read again."""
    if not shadow.prefix_length:
        return NO_PROMPT
    same = (production.prefix_length, production.wants_chain) == (shadow.prefix_length, shadow.wants_chain)
    if same:
        return plan.request
    route = match(plan.path) if plan.path else None
    if route is None or route.body_kind is None:
        return native_request(shadow, plan.body, prefix_aware_id="", component="")
    wanted = len(plan.body) if shadow.wants_chain else shadow.prefix_length
    read = chat.read(plan.body, route.body_kind, wanted)
    if isinstance(read, Failure):
        return NO_PROMPT
    return openai_request(shadow, read, names_endpoint=plan.names_model, component="")
