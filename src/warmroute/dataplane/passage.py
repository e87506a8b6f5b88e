"""A call of the SageMaker API on its way to the control process and back."""

from warmroute.core.errors import Failure, Problem
from warmroute.core.events import FailureCause, Invocation
from warmroute.dataplane.desk import Desk
from warmroute.dataplane.ports import Call, Downstream
from warmroute.wire import awsjson, http1
from warmroute.wire.headers import HeaderList
from warmroute.wire.http1 import Request

ANSWER_S = 60.0
"""DescribeEndpoint may hold its answer for 20 s; nothing takes longer than that."""
_PASSED_UP = (b"content-type", b"x-amz-target", b"user-agent")


class ControlPassage:
    """Implements `ports.Sink`: relays control's answer, or says that control is away."""

    __slots__ = (
        "_call",
        "_desk",
        "_downstream",
        "_fields",
        "_kept",
        "_over",
        "_record",
        "_request",
        "_status",
        "deadline_ns",
    )

    def __init__(self, *, desk: Desk, request: Request, downstream: Downstream, record: Invocation) -> None:
        self._desk = desk
        self._request = request
        self._downstream = downstream
        self._record = record
        self._call: Call | None = None
        self._kept: list[bytes] = []
        self._status = 0
        self._fields: HeaderList = []
        self._over = False
        self.deadline_ns = desk.clock.now_ns() + int(ANSWER_S * 1e9)

    def start(self) -> None:
        """Send the call to control."""
        request = self._request
        fields: HeaderList = [(b"host", b"control")]
        fields += [(name, request.headers[name]) for name in _PASSED_UP if name in request.headers]
        fields.append((b"x-warmroute-principal", self._record.principal.encode()))
        fields.append((b"x-warmroute-request-id", self._record.request_id.encode()))
        fields.append((b"content-length", str(len(request.body)).encode()))
        self._desk.open[self] = None
        head = http1.request_head("POST", "/", fields)
        self._call = self._desk.upstreams.call_control(head, request.body, self)

    def head(self, status: int, fields: HeaderList, length: int | None) -> None:
        """Take the answer's head."""
        del length
        self._record.first_byte_ns = self._desk.clock.now_ns()
        self._status = status
        self._fields = fields

    def body(self, data: bytes) -> None:
        """Take a piece of the answer; control's answers are small and are passed on whole."""
        self._kept.append(data)

    def ended(self) -> None:
        """Take the end of the answer and pass it on."""
        body = b"".join(self._kept)
        keep = (b"content-type", b"x-amzn-requestid", b"x-amzn-errortype")
        fields = [field for field in self._fields if field[0].lower() in keep]
        fields.append((b"content-length", str(len(body)).encode()))
        self._answer(self._status, fields, body, outcome="completed")

    def failed(self, cause: FailureCause, detail: str) -> None:
        """Take control's absence."""
        problem = Problem.CONTROL_UNAVAILABLE if cause.nothing_ran else Problem.INTERNAL
        self._record.cause = cause.value
        self._record.problem = problem.value
        failure = Failure(problem, f"The control process did not answer ({detail}); endpoints go on serving.")
        status, fields, body = awsjson.failure(failure)
        fields = [*fields, (b"content-length", str(len(body)).encode())]
        self._answer(status, fields, body, outcome="failed")

    def client_gone(self) -> None:
        """Drop the call."""
        if self._call is not None and not self._over:
            self._call.cancel()
            self._record.outcome = "cancelled"
            self._end()

    def expire(self, now_ns: int) -> None:
        """Give up on control."""
        if not self._over and now_ns >= self.deadline_ns and self._call is not None:
            self._call.cancel()
            self.failed(FailureCause.FIRST_BYTE_TIMEOUT, f"no answer in {ANSWER_S:g} s")

    def shut_down(self) -> None:
        """End the call because the process ends."""
        if not self._over and self._call is not None:
            self._call.cancel()
            self.failed(FailureCause.CLOSED, "warmroute is shutting down")

    def pause(self) -> None:
        """Nothing to pause: the answer is passed on whole."""

    def resume(self) -> None:
        """Nothing to resume."""

    def _answer(self, status: int, fields: HeaderList, body: bytes, *, outcome: str) -> None:
        if not self._request.keep_alive:
            fields = [*fields, (b"connection", b"close")]
        self._downstream.write(http1.response_head(status, fields) + body)
        self._record.status = status
        self._record.bytes_out = len(body)
        self._record.outcome = outcome
        self._end()
        self._downstream.finish(close=not self._request.keep_alive)

    def _end(self) -> None:
        self._over = True
        self._call = None
        self._desk.open.pop(self, None)
        self._record.ended_ns = self._desk.clock.now_ns()
        self._desk.observer.invocation_ended(self._record)
