"""What every exchange of a router works with."""

from dataclasses import dataclass

from warmroute.core import limits
from warmroute.core.fleet import Target
from warmroute.dataplane.ports import AdapterLoads, Clock, NoAdapterLoads, Observer, Underway, Upstreams
from warmroute.routing.retry import RetryBudget
from warmroute.routing.router import Router


@dataclass(frozen=True, slots=True)
class RelayTimeouts:
    """Deadlines of an exchange, in seconds; see ``core/limits.py`` for the reasons."""

    first_byte_native_s: float = limits.FIRST_BYTE_NATIVE_S
    first_byte_openai_s: float = limits.FIRST_BYTE_OPENAI_S
    chunk_idle_s: float = limits.CHUNK_IDLE_S
    native_stream_total_s: float = limits.NATIVE_STREAM_TOTAL_S


HEAD_STARTS_MAX = 4096
"""Request lines kept: several per target, of thousands of targets."""


class Desk:
    """The router and the ports, and what exchanges learn for those after them.

    Attributes:
        open: Answers under way, exchanges and calls of control, in the order they began: the order in
            which deadlines end them decides who is ejected, so it must not be that of addresses in memory.
        open_exchanges: How many of them are exchanges, each with at most one lease.
        adapters: Who has LoRA adapters loaded.
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
        adapters: AdapterLoads | None = None,
    ) -> None:
        self.router = router
        self.upstreams = upstreams
        self.observer = observer
        self.clock = clock
        self.adapters: AdapterLoads = NoAdapterLoads() if adapters is None else adapters
        self.first_byte_native_ns = int(timeouts.first_byte_native_s * 1e9)
        self.first_byte_openai_ns = int(timeouts.first_byte_openai_s * 1e9)
        self.chunk_idle_ns = int(timeouts.chunk_idle_s * 1e9)
        self.native_stream_total_ns = int(timeouts.native_stream_total_s * 1e9)
        self.budget = RetryBudget()
        self.open: dict[Underway, None] = {}
        self.open_exchanges = 0
        self._lacking: dict[str, int] = {}
        self._head_starts: dict[tuple[str, int, str], bytes] = {}

    def head_start(self, target: Target, path: str) -> bytes:
        """Return request line, Host and the instance's own key for a path on a target; made once each."""
        key = (target.target_id, target.generation, path)
        start = self._head_starts.get(key)
        if start is None:
            if len(self._head_starts) >= HEAD_STARTS_MAX:
                self._head_starts.clear()
            start = self._head_starts[key] = _head_start(target, path)
        return start

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
        self._head_starts.clear()


def _head_start(target: Target, path: str) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    if target.port != (443 if target.tls else 80):
        host = f"{host}:{target.port}"
    start = f"POST {target.path_prefix}{path} HTTP/1.1\r\nhost: {host}\r\n"
    if target.api_key:
        start += f"authorization: Bearer {target.api_key}\r\n"
    return start.encode()
