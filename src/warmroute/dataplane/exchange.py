"""One invocation, from its first attempt to the last byte of its answer.

A state machine without sockets: the instance's answer comes in through `head`, `body`, `ended` and `failed`;
the caller's bytes go out through a `Downstream`; leases are taken and given back here and nowhere else.
Whatever happens, an exchange ends exactly once, and then holds no lease and no call.
"""

from warmroute.core.decision import Assigned, Lease, Reason
from warmroute.core.errors import Failure, Problem
from warmroute.core.events import AttemptEnded, Cancelled, Completed, Failed, FailureCause, Invocation
from warmroute.core.fleet import Target
from warmroute.core.limits import CALLER_UNREAD_S, ERROR_BODY_BYTES_MAX, WHOLE_ANSWER_BYTES_MAX
from warmroute.dataplane.desk import Desk
from warmroute.dataplane.dialects import is_event_stream, is_json
from warmroute.dataplane.hearing import Hearing, listen
from warmroute.dataplane.plan import Plan
from warmroute.dataplane.ports import Call, Downstream
from warmroute.dataplane.sending import is_mapped, message_for, path_of
from warmroute.dataplane.stage import Stage
from warmroute.dataplane.telling import (
    Before,
    adapter_out_of_reach,
    explained,
    no_openai_shape,
    refused,
    told,
)
from warmroute.routing.retry import may_try_again
from warmroute.routing.router import VariantBook
from warmroute.wire import http1
from warmroute.wire.headers import HeaderList
from warmroute.wire.sse import First, FirstEvent, FirstKind

LAST_ATTEMPT_SHARE = 20
"""No attempt begins in the last part, one of so many, of the time that the caller waits."""
_ADAPTER_NOT_LOADED = Reason.ADAPTER_NOT_LOADED
_UNREAD_NS_MAX = int(CALLER_UNREAD_S * 1e9)
# Enum members are looked up through their class on every use; the hot path reads module globals instead.
_WAITING, _WHOLE, _ERROR, _FIRST_EVENT, _RELAY, _OVER = Stage


class Exchange:
    """An invocation under way. Implements `ports.Sink`; the connection calls `client_gone` and `pause`.

    Args:
        desk: The router, the clock and everything else an exchange works with.
        book: The variant that serves it.
        plan: What to send.
        downstream: Where the answer goes.
        record: Filled in on the way and handed to the observer at the end.
        keep_alive: The caller's connection may serve another request afterwards.
        chunks_allowed: The caller can read a chunked answer.
    """

    __slots__ = (
        "_asked_path", "_book", "_call", "_chunked", "_close", "_decision", "_desk", "_downstream", "_fields",
        "_first_event", "_hearing", "_invocations_missing_on", "_keep_alive", "_kept", "_kept_bytes",
        "_lease", "_plan", "_silent_until_ns", "_stage", "_status", "_tried", "_unread_since_ns",
        "chunks_allowed", "deadline_ns", "record", "total_deadline_ns",
    )  # fmt: skip

    def __init__(
        self, *, desk: Desk, book: VariantBook, plan: Plan, downstream: Downstream, record: Invocation,
        keep_alive: bool, chunks_allowed: bool,
    ) -> None:  # fmt: skip
        self._desk = desk
        self._book = book
        self._plan = plan
        self._downstream = downstream
        self._keep_alive = keep_alive
        self.chunks_allowed = chunks_allowed
        self.record = record
        self._stage = _WAITING
        self._call: Call | None = None
        self._lease: Lease | None = None
        self._decision: Assigned | None = None
        self._tried: tuple[str, ...] = ()
        self._status = 0
        self._fields: HeaderList = []
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._first_event: FirstEvent | None = None
        self._hearing: Hearing | None = None
        self._asked_path = ""
        self._invocations_missing_on = ""
        self._chunked = False
        self._close = False
        self._unread_since_ns = 0
        self.deadline_ns = 0
        self.total_deadline_ns = 0
        self._silent_until_ns = 0

    def __repr__(self) -> str:
        where = self.record.target or "nothing"
        return f"<exchange {self.record.request_id} {self._stage.name.lower()} on {where}>"

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._stage is _OVER

    # --- attempts ---------------------------------------------------------------------------
    def start(self, failure: Failure | None = None) -> None:
        """Make the first attempt, or answer with what is in its way."""
        desk = self._desk
        now_ns = desk.clock.now_ns()
        desk.open[self] = None
        desk.open_exchanges += 1
        if failure is not None:
            self._fail(failure)
            return
        desk.budget.invocation(now_ns)
        self._silent_until_ns = now_ns + self._plan.first_byte_ns
        if self._plan.total_ns is not None:
            self.total_deadline_ns = now_ns + self._plan.total_ns
        self._attempt(now_ns, None)

    def _attempt(self, now_ns: int, after: Before | None) -> None:
        decision = self._desk.router.decide(self._book, self._plan.request, now_ns, self._tried)
        if not isinstance(decision, Assigned):
            self._fail(refused(decision.refusal, self._plan.place, after))
            return
        lease = decision.lease
        self._decision = decision
        self._lease = lease
        if decision.reason is _ADAPTER_NOT_LOADED and self._plan.adapter_loaded:
            self._release(Cancelled(self._take_lease()))
            self._fail(adapter_out_of_reach(self._plan.request))
            return
        record = self.record
        record.attempts += 1
        record.target = lease.target.target_id
        record.strategy = str(decision.strategy)
        record.reason = str(decision.reason)
        record.rank = decision.rank
        record.in_flight = decision.in_flight
        record.variant = decision.variant
        record.dispatched_ns = now_ns
        self._send(lease.target, now_ns)

    def _send(self, target: Target, now_ns: int) -> None:
        plan = self._plan
        desk = self._desk
        path = path_of(plan, target, desk, lacking=bool(self._invocations_missing_on))
        if not path:
            self._release(Cancelled(self._take_lease()))
            self._fail(no_openai_shape())
            return
        head, body = message_for(plan, target, path, desk)
        self._asked_path = path
        self._stage = _WAITING
        self._wait(now_ns, plan.first_byte_ns)
        self._call = desk.upstreams.call(target, head, body, self)

    def _wait(self, now_ns: int, duration_ns: int) -> None:
        deadline_ns = now_ns + duration_ns
        if self.total_deadline_ns and self.total_deadline_ns < deadline_ns:
            deadline_ns = self.total_deadline_ns
        if self._silent_until_ns and self._silent_until_ns < deadline_ns:
            deadline_ns = self._silent_until_ns
        self.deadline_ns = deadline_ns

    # --- the instance's answer --------------------------------------------------------------
    def head(self, status: int, fields: HeaderList, length: int | None) -> None:
        """Take the answer's head and choose how to treat its body."""
        desk = self._desk
        now_ns = desk.clock.now_ns()
        self._wait(now_ns, desk.chunk_idle_ns)
        self._status = status
        if status >= 300:
            self.record.model_status = status
        self._fields = fields
        dialect = self._plan.dialect
        if status >= 300 and not dialect.relays_error(status):
            self._stage = _ERROR
            return
        self.record.first_byte_ns = now_ns
        self._hearing = listen(desk, self._lease, fields) if status < 300 else None
        short = is_json(fields) if length is None else length <= WHOLE_ANSWER_BYTES_MAX
        if short and not dialect.streams_frames:
            self._stage = _WHOLE
        elif self._target().hold_first_event and is_event_stream(fields):
            self._stage = _FIRST_EVENT
            self._first_event = FirstEvent()
        else:
            self._begin(length)

    def body(self, data: bytes) -> None:
        """Take a piece of the answer's body."""
        stage = self._stage
        desk = self._desk
        self._wait(desk.clock.now_ns(), desk.chunk_idle_ns)
        if stage is _RELAY:
            self._relay(data)
        elif stage is _WHOLE:
            self._kept.append(data)
            self._kept_bytes += len(data)
            if self._kept_bytes > WHOLE_ANSWER_BYTES_MAX:  # in chunks: its length was not known before
                self._begin(None)
        elif stage is _FIRST_EVENT:
            self._look(data)
        else:
            assert stage is _ERROR, f"{self!r} got a body before its head or after its end"
            if self._kept_bytes < ERROR_BODY_BYTES_MAX:
                self._kept.append(data[: ERROR_BODY_BYTES_MAX - self._kept_bytes])
                self._kept_bytes += len(data)

    def ended(self) -> None:
        """Take the end of a complete answer."""
        self._call = None
        stage = self._stage
        if stage is _WHOLE:
            kept = self._kept
            body = kept[0] if len(kept) == 1 else b"".join(kept)
            self._downstream.write(self._head(self._status, self._answer_fields(len(body))) + body)
            self.record.bytes_out = len(body)
            self._complete(body)
        elif stage is _RELAY or (stage is _FIRST_EVENT and self._is_good(self._held().end())):
            self._complete()
        else:
            assert self._stage is _ERROR, f"{self!r} ended before its head or twice"
            self._error_answer()

    def failed(self, cause: FailureCause, detail: str) -> None:
        """Take the failure of the attempt: go on elsewhere where nothing can have run, else tell it."""
        self._call = None
        desk = self._desk
        now_ns = desk.clock.now_ns()
        target = self._target()
        assert self._stage is not _OVER, f"{self!r} failed after its end"
        if self._stage is _RELAY:
            self._release(Failed(self._take_lease(), cause))
            desk.observer.attempt_failed(target, cause, again=False)
            self._break(cause, detail)
            return
        if self._stage is not _WAITING and cause.nothing_ran:
            cause = FailureCause.BROKEN
        in_time = now_ns + self._plan.first_byte_ns // LAST_ATTEMPT_SHARE < self._silent_until_ns
        again = in_time and may_try_again(
            cause, attempts=self.record.attempts, budget=desk.budget, now_ns=now_ns
        )
        self._release(Failed(self._take_lease(), cause))
        desk.observer.attempt_failed(target, cause, again=again)
        self.record.cause = cause.value
        if again:
            if cause is not FailureCause.STALE_CONNECTION:  # an old connection's fault, not the target's
                self._tried = (*self._tried, target.target_id)
            self._reset_answer()
            self._attempt(now_ns, (cause, detail, target))
        else:
            self._fail(told(cause, detail, self._plan.place, target))

    # --- treating the answer ----------------------------------------------------------------
    def _begin(self, length: int | None) -> None:
        """Send the answer's head; from now on pieces go through as they come."""
        self._stage = _RELAY
        self._silent_until_ns = 0
        self._wait(self._desk.clock.now_ns(), self._desk.chunk_idle_ns)
        self._plan.body = b""  # the kept body goes at the first byte: streams are long, prompts large
        self._downstream.release_body()
        if self._plan.dialect.streams_frames:
            length = None
        self._chunked = length is None and self.chunks_allowed
        self._close = length is None and not self.chunks_allowed
        self._downstream.write(self._head(self._status, self._answer_fields(length)))
        for piece in self._kept:
            self._relay(piece)
        self._kept.clear()

    def _relay(self, data: bytes) -> None:
        self.record.bytes_out += len(data)
        dialect = self._plan.dialect
        self._downstream.write(dialect.chunk(data) if self._chunked else dialect.piece(data))
        if self._hearing is not None:
            self._hearing.piece(data)

    def _look(self, data: bytes) -> None:
        self._kept.append(data)
        found = self._held().feed(data)
        if found is not None and not self._is_good(found):
            self._error_answer()

    def _held(self) -> FirstEvent:
        assert self._first_event is not None, "set with the stage"
        return self._first_event

    def _is_good(self, found: First) -> bool:
        """Begin the answer of a stream whose first event is none of an error; else take it for one."""
        if found.kind is FirstKind.READY:
            self._begin(None)
            return True
        # The engine reports its refusal inside a stream that it opened with 200.
        # What else it says, and whether it ends at all, changes nothing.
        self._status = found.status
        self._stage = _ERROR
        self.record.first_byte_ns = 0
        self._cancel_call()
        return False

    def _error_answer(self) -> None:
        body = b"".join(self._kept)
        target = self._target()
        in_a_stream = self._first_event is not None  # it opened with 200: something may have run
        if self._status == 503 and not in_a_stream and b"loading" in body.lower():
            self._stage = _WAITING
            self.failed(FailureCause.LOADING, "the model server is still loading its model")
            return
        if self._retry_without_invocations(target):
            return
        lease = self._take_lease()
        if self._status >= 500:
            self._release(Failed(lease, FailureCause.SERVER_ERROR))
            self._desk.observer.attempt_failed(target, FailureCause.SERVER_ERROR, again=False)
            self.record.cause = FailureCause.SERVER_ERROR.value
        else:
            self._release(Completed(lease, prompt_tokens=0))
        self._fail(self._plan.dialect.model_failure(self._status, body, target))

    def _retry_without_invocations(self, target: Target) -> bool:
        """Ask again on the OpenAI routes where a server turned out to have no ``/invocations``.

        A 404 for that route means that nothing ran, and the lease stays; one for an OpenAI route is the
        model's own answer, which says nothing of the kind.
        """
        if self._first_event is not None or not is_mapped(self._plan, target, self._asked_path, self._status):
            return False
        self._invocations_missing_on = target.target_id
        self._reset_answer()
        self._send(target, self._desk.clock.now_ns())
        return True

    def _reset_answer(self) -> None:
        self._stage = _WAITING
        self._kept = []
        self._kept_bytes = 0
        self._fields = []
        self._first_event = None
        self.record.first_byte_ns = self.record.model_status = 0

    # --- endings ----------------------------------------------------------------------------
    def client_gone(self) -> None:
        """Stop the instance's work: nobody waits for it any more."""
        if self._stage is _OVER:
            return
        self._cancel_call()
        if self._lease is not None:
            self._release(Cancelled(self._take_lease()))
        self.record.outcome = "cancelled"
        self._over()

    def expire(self, now_ns: int) -> None:
        """End the attempt whose time is over."""
        if self._stage is _OVER:
            return
        if self.total_deadline_ns and now_ns >= self.total_deadline_ns:
            self._cancel_call()
            self.failed(FailureCause.TOTAL_TIMEOUT, "the response took too long as a whole")
            return
        if self._unread_since_ns:  # the instance waits for the caller
            if now_ns >= self._unread_since_ns + _UNREAD_NS_MAX:
                self._end_unread()
            return
        if now_ns < self.deadline_ns:
            return
        self._cancel_call()
        if self._stage is _WAITING or now_ns >= self._silent_until_ns > 0:
            self.failed(FailureCause.FIRST_BYTE_TIMEOUT, "no answer in time")
        else:
            self.failed(FailureCause.IDLE_TIMEOUT, "no further piece of the response in time")

    def shut_down(self) -> None:
        """End an exchange that the process cannot wait for any longer."""
        if self._stage is _OVER:
            return
        self._cancel_call()
        if self._lease is not None:
            self._release(Cancelled(self._take_lease()))
        message = "warmroute is shutting down; the model's work on this request was stopped."
        if self._stage is _RELAY:
            self._end_broken(Failure(Problem.MODEL_DIED, message))
        else:
            self._fail(Failure(Problem.MODEL_DIED, message))

    def _cancel_call(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def pause(self) -> None:
        """Stop reading from the instance: the caller reads too slowly."""
        self._unread_since_ns = self._desk.clock.now_ns()
        if self._call is not None:
            self._call.pause()

    def resume(self) -> None:
        """Read on."""
        self._unread_since_ns = 0
        self._wait(self._desk.clock.now_ns(), self._desk.chunk_idle_ns)
        if self._call is not None:
            self._call.resume()

    def _end_unread(self) -> None:
        """End an answer that its caller does not read, which is not the instance's fault."""
        self._cancel_call()
        self._release(Cancelled(self._take_lease()))
        self._end_broken(Failure(Problem.REQUEST_TIMEOUT, "The response was not read in time."))

    def _complete(self, whole: bytes = b"") -> None:
        lease, hearing = self._take_lease(), self._hearing
        silent = Completed(lease, prompt_tokens=0 if self._status >= 300 else -1)
        self._release(silent if hearing is None else hearing.completed(whole, self.record))
        if self._invocations_missing_on == self._target().target_id:
            self._desk.note_lacks_invocations(self._target())
        if self._chunked:
            self._downstream.write(http1.LAST_CHUNK)
        self.record.status = self._status
        self.record.outcome = "completed"
        self._over()
        self._downstream.finish(close=self._close or not self._keep_alive)

    def _break(self, cause: FailureCause, detail: str) -> None:
        self.record.cause = cause.value
        self._end_broken(told(cause, detail, self._plan.place, self._target()))

    def _end_broken(self, failure: Failure) -> None:
        """End an answer in its middle, with an error event where the dialect has one.

        With it in chunks the answer has an end of its own; else only the connection's end tells it.
        """
        event = self._plan.dialect.broken(failure)
        if event:
            self._downstream.write(http1.chunk(event) if self._chunked else event)
            if self._chunked:
                self._downstream.write(http1.LAST_CHUNK)
        self.record.status = self._status
        self.record.problem = failure.problem.value
        self.record.outcome = "failed"
        self.record.broken = True
        self._over()
        self._downstream.finish(close=not (event and self._chunked and self._keep_alive))

    def _fail(self, failure: Failure) -> None:
        status, fields, body = self._plan.dialect.error(failure, self._book.name)
        fields = [*fields, (b"content-length", str(len(body)).encode()), *self._explained()]
        self._downstream.write(self._head(status, fields) + body)
        self.record.status = status
        self.record.problem = failure.problem.value
        self.record.outcome = "failed"
        self._over()
        self._downstream.finish(close=not self._keep_alive)

    def _over(self) -> None:
        assert self._lease is None, f"{self!r} ended with a lease"
        assert self._call is None, f"{self!r} ended with a call"
        self._stage = _OVER
        self._plan.body = b""
        self._kept = []
        del self._desk.open[self]
        self._desk.open_exchanges -= 1
        self.record.ended_ns = self._desk.clock.now_ns()
        self._desk.observer.invocation_ended(self.record)

    # --- leases -----------------------------------------------------------------------------
    def _target(self) -> Target:
        assert self._decision is not None, "there has been an attempt"
        return self._decision.target

    def _take_lease(self) -> Lease:
        lease = self._lease
        assert lease is not None, f"{self!r} has no lease to give back"
        self._lease = None
        return lease

    def _release(self, event: AttemptEnded) -> None:
        change = self._desk.router.apply(event, self._desk.clock.now_ns())
        if change is not None:
            self._desk.observer.health_changed(change)

    # --- words ------------------------------------------------------------------------------
    def _answer_fields(self, length: int | None) -> HeaderList:
        upstream = self._fields
        if self._plan.session is not None and self._lease is not None:
            upstream = self._plan.session.answered(self._lease, upstream, self.record)
        fields = self._plan.dialect.fields(upstream, self.record.variant)
        if length is not None and self._status != 204:  # RFC 9110 §8.6
            fields.append((b"content-length", b"%d" % length))
        elif self._chunked:
            fields.append((b"transfer-encoding", b"chunked"))
        if self._plan.explain:
            fields += self._explained()
        return fields

    def _explained(self) -> HeaderList:
        plan = self._plan
        return explained(self._decision, self.record, plan.request) if plan.explain else []

    def _head(self, status: int, fields: HeaderList) -> bytes:
        if self._close or not self._keep_alive:
            fields.append((b"connection", b"close"))
        return http1.response_head(status, fields)
