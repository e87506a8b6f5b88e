"""What every exchange of a router works with."""

from dataclasses import dataclass

from warmroute.core import limits
from warmroute.core.fleet import Target
from warmroute.dataplane.ports import Clock, Observer, Underway, Upstreams
from warmroute.routing.retry import RetryBudget
from warmroute.routing.router import Router


@dataclass(frozen=True, slots=True)
class RelayTimeouts:
    """Deadlines of an exchange, in seconds; see ``core/limits.py`` for the reasons."""

    first_byte_native_s: float = limits.FIRST_BYTE_NATIVE_S
    first_byte_openai_s: float = limits.FIRST_BYTE_OPENAI_S
    chunk_idle_s: float = limits.CHUNK_IDLE_S
    native_stream_total_s: float = limits.NATIVE_STREAM_TOTAL_S


class Desk:
    """The router and the ports, and what exchanges learn for those after them.

    Attributes:
        open: Answers under way: exchanges, and calls of control.
        open_exchanges: How many of them are exchanges, each with at most one lease.
        budget: The retry budget they share.
    """

    def __init__(
        self,
        *,
        router: Router,
        upstreams: Upstreams,
        observer: Observer,
        clock: Clock,
        timeouts: RelayTimeouts,
    ) -> None:
        self.router = router
        self.upstreams = upstreams
        self.observer = observer
        self.clock = clock
        self.timeouts = timeouts
        self.budget = RetryBudget()
        self.open: set[Underway] = set()
        self.open_exchanges = 0
        self._lacking: dict[str, int] = {}

    def host_of(self, target: Target) -> bytes:
        """Return the Host header for a target."""
        default = 443 if target.tls else 80
        host = f"[{target.host}]" if ":" in target.host else target.host
        return (host if target.port == default else f"{host}:{target.port}").encode()

    def lacks_invocations(self, target: Target) -> bool:
        """Return whether this server was found to have no ``/invocations`` route."""
        return self._lacking.get(target.target_id) == target.generation

    def note_lacks_invocations(self, target: Target) -> None:
        """Remember that it has none."""
        self._lacking[target.target_id] = target.generation

    def forget_targets_but(self, target_ids: set[str]) -> None:
        """Drop what was learnt about targets that are gone."""
        for target_id in [known for known in self._lacking if known not in target_ids]:
            del self._lacking[target_id]
