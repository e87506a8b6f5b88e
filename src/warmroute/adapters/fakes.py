"""In-memory stand-ins for the data plane's ports, for tests and for trying things out."""

from dataclasses import dataclass, field

from warmroute.core.events import FailureCause, Invocation, ShadowCopyEnded
from warmroute.core.fleet import Target
from warmroute.dataplane.ports import Sink
from warmroute.routing.health import HealthChange


class FakeClock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.ns = 1_000_000_000

    def now_ns(self) -> int:
        """Return the time set."""
        return self.ns

    def wall_s(self) -> float:
        """Return the time set, as if the clock had started in 2026."""
        return 1_790_000_000 + self.ns / 1e9

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.ns += int(seconds * 1e9)


class FakeDownstream:
    """A client that remembers what it was sent."""

    def __init__(self) -> None:
        self.sent = b""
        self.finished = 0
        self.closed = False
        self.holds_body = True

    def write(self, data: bytes) -> None:
        """Remember the bytes."""
        assert not self.finished, "nothing may be written after the end"
        self.sent += data

    def release_body(self) -> None:
        """Remember that the body is not held any more."""
        self.holds_body = False

    def finish(self, *, close: bool) -> None:
        """Remember the end."""
        self.finished += 1
        self.closed = close

    @property
    def status(self) -> int:
        """Status of the answer; 0 when none came."""
        return int(self.sent.split(b" ", 2)[1]) if self.sent else 0

    @property
    def head(self) -> bytes:
        """Everything up to the empty line."""
        return self.sent.partition(b"\r\n\r\n")[0]

    @property
    def body(self) -> bytes:
        """What follows the head, with its framing."""
        return self.sent.partition(b"\r\n\r\n")[2]

    def header(self, name: bytes) -> bytes | None:
        """Return a header field of the answer; None when it is not there."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b": ")
            if key.lower() == name.lower():
                return value
        return None


@dataclass
class FakeCall:
    """An attempt that the test answers through ``sink``."""

    target: Target | None
    head: bytes
    body: bytes
    sink: Sink
    cancelled: bool = False
    paused: bool = False

    @property
    def path(self) -> str:
        """Path of the request."""
        return self.head.split(b" ", 2)[1].decode()

    def cancel(self) -> None:
        """Remember it."""
        self.cancelled = True

    def pause(self) -> None:
        """Remember it."""
        self.paused = True

    def resume(self) -> None:
        """Remember it."""
        self.paused = False


@dataclass
class FakeUpstreams:
    """Instances that answer when the test says so."""

    calls: list[FakeCall] = field(default_factory=list)

    def call(self, target: Target, head: bytes, body: bytes, sink: Sink) -> FakeCall:
        """Remember the attempt."""
        self.calls.append(FakeCall(target, head, body, sink))
        return self.calls[-1]

    def call_control(self, head: bytes, body: bytes, sink: Sink) -> FakeCall:
        """Remember the call."""
        self.calls.append(FakeCall(None, head, body, sink))
        return self.calls[-1]

    @property
    def last(self) -> FakeCall:
        """The latest attempt."""
        return self.calls[-1]

    def answer(
        self, status: int = 200, body: bytes = b"{}", content_type: bytes = b"application/json"
    ) -> None:
        """Answer the latest attempt, whole."""
        sink = self.last.sink
        sink.head(status, [(b"Content-Type", content_type)], len(body))
        if body:
            sink.body(body)
        sink.ended()


@dataclass
class FakeObserver:
    """Remembers every fact."""

    ended: list[Invocation] = field(default_factory=list)
    failures: list[tuple[str, FailureCause, bool]] = field(default_factory=list)
    changes: list[HealthChange] = field(default_factory=list)
    copies: list[ShadowCopyEnded] = field(default_factory=list)

    def invocation_ended(self, invocation: Invocation) -> None:
        """Remember it."""
        self.ended.append(invocation)

    def attempt_failed(self, target: Target, cause: FailureCause, *, again: bool) -> None:
        """Remember it."""
        self.failures.append((target.target_id, cause, again))

    def health_changed(self, change: HealthChange) -> None:
        """Remember it."""
        self.changes.append(change)

    def shadow_copy_ended(self, copy: ShadowCopyEnded) -> None:
        """Remember it."""
        self.copies.append(copy)
