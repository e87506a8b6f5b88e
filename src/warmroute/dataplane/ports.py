"""What the data plane needs from the world."""

from typing import Protocol

from warmroute.core.events import FailureCause, Invocation, ShadowCopyEnded
from warmroute.core.fleet import Target
from warmroute.routing.health import HealthChange
from warmroute.wire.headers import HeaderList


class Downstream(Protocol):
    """A client's connection, while one of its requests is being answered."""

    def write(self, data: bytes) -> None:
        """Send bytes; never blocks. The connection calls `pause` on the exchange when it cannot keep up."""
        ...

    def release_body(self) -> None:
        """Take note that the request's body is not held any more; saying so twice does no harm."""
        ...

    def finish(self, *, close: bool) -> None:
        """End the answer. The connection closes, or turns to its next request."""
        ...


class Call(Protocol):
    """An attempt under way at an instance."""

    def cancel(self) -> None:
        """Close the upstream connection at once; nothing is reported any more."""
        ...

    def pause(self) -> None:
        """Stop reading from the instance."""
        ...

    def resume(self) -> None:
        """Read on."""
        ...


class Sink(Protocol):
    """Who receives an instance's answer. After `ended` or `failed` nothing more comes."""

    def head(self, status: int, fields: HeaderList, length: int | None) -> None:
        """Take status and header fields; ``length`` is the body's, None when the instance did not say."""
        ...

    def body(self, data: bytes) -> None:
        """Take a piece of the body, never empty."""
        ...

    def ended(self) -> None:
        """Take the end of a complete answer."""
        ...

    def failed(self, cause: FailureCause, detail: str) -> None:
        """Take the end of an attempt that did not complete."""
        ...


class Upstreams(Protocol):
    """Connections to the instances. Calls back later, never from inside `call`."""

    def call(self, target: Target, head: bytes, body: bytes, sink: Sink) -> Call:
        """Send a request to a target, over an idle connection or a new one."""
        ...

    def call_control(self, head: bytes, body: bytes, sink: Sink) -> Call:
        """Send a request to the control process."""
        ...


class Underway(Protocol):
    """An answer under way: what the client's connection and the watch over deadlines may do to it."""

    def client_gone(self) -> None:
        """Take note that the client closed its connection: stop the work, write nothing more."""
        ...

    def pause(self) -> None:
        """Stop reading from the instance: the client reads too slowly."""
        ...

    def resume(self) -> None:
        """Read on."""
        ...

    def expire(self, now_ns: int) -> None:
        """End what has waited longer than it may."""
        ...

    def shut_down(self) -> None:
        """End it with an error: the process cannot wait any longer."""
        ...


class AdapterLoads(Protocol):
    """Who has LoRA adapters loaded: control, over the fleet stream."""

    def want(self, *, endpoint: str, component: str, adapter: str) -> bool:
        """Ask for an adapter that is loaded nowhere; asked again for every invocation that wants it.

        Args:
            endpoint: Whose adapter it is.
            component: Its base component.
            adapter: Its name.

        Returns:
            Whether it can be asked for, so that it makes sense to wait for a fleet that shows it.
        """
        ...


class NoAdapterLoads:
    """Nobody loads adapters: requests for them go to containers as they are."""

    def want(self, *, endpoint: str, component: str, adapter: str) -> bool:
        """Return False."""
        del endpoint, component, adapter
        return False


class Clock(Protocol):
    """Time."""

    def now_ns(self) -> int:
        """Return monotonic nanoseconds."""
        ...

    def wall_s(self) -> float:
        """Return seconds since 1970."""
        ...


class Observer(Protocol):
    """Who is told of facts: metrics, access log, control."""

    def invocation_ended(self, invocation: Invocation) -> None:
        """Take the record of an invocation, once, when it is over."""
        ...

    def attempt_failed(self, target: Target, cause: FailureCause, *, again: bool) -> None:
        """Take the failure of an attempt and whether the invocation goes on elsewhere."""
        ...

    def health_changed(self, change: HealthChange) -> None:
        """Take an ejection or a recovery."""
        ...

    def shadow_copy_ended(self, copy: ShadowCopyEnded) -> None:
        """Take the end of a copy for a shadow variant."""
        ...
