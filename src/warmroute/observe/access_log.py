"""One line of JSON per invocation. Never any prompt text, header value or credential."""

import msgspec

from warmroute.core.events import Invocation

MEMBERS = {
    "time": "seconds since 1970 at the end of the invocation",
    "id": "request id",
    "status": "HTTP status sent; 0 when the caller went away before",
    "ms": "from the whole request received to the end, milliseconds",
    "first_byte_ms": "to the first byte of the instance's answer",
    "bytes_in": "request body",
    "bytes_out": "response body, before framing",
    "prompt_tokens": "length of the prompt as the engine reports it; under KV_AWARE, as the next two",
    "cached_tokens": "how many of these it had in its cache",
    "output_tokens": "length of the answer",
    "in_flight": "requests on the target when it was picked",
    "rank": "place of the target in the key's order, 0 = home",
    "attempts": "tries made",
    "route": "what was asked for",
    "outcome": "completed, failed, cancelled or rejected",
    "principal": "who was authenticated",
    "endpoint": "as invoked",
    "component": "inference component whose copies serve it; of an adapter, its base",
    "adapter": "inference component of the LoRA adapter that was invoked",
    "session": "new, opened, resumed or closed, for an invocation with a SessionId, which is not logged",
    "variant": "that served it",
    "target": "that served the last attempt",
    "strategy": "of the variant",
    "reason": "why this target",
    "problem": "row of the error table",
    "cause": "how the last attempt failed",
}
"""Every member of a line, in order, with its meaning. What did not happen is left out."""
_TAILS_MAX = 4096
"""Ends of lines kept: as many as there are combinations of labels in a busy fleet."""
_LABELS = (
    "route", "outcome", "principal", "endpoint", "component", "adapter", "session", "variant",
    "target", "strategy", "reason", "problem", "cause",
)  # fmt: skip


class AccessLines:
    """Spells records as lines.

    Most of a line is labels, which repeat from one invocation to the next: their JSON is kept.
    """

    __slots__ = ("_tails",)

    def __init__(self) -> None:
        self._tails: dict[tuple[str, ...], str] = {}

    def __len__(self) -> int:
        """Return how many combinations of labels are kept."""
        return len(self._tails)

    def line(self, record: Invocation, wall_s: float) -> bytes:
        """Return the line of an invocation that has ended, with its line feed.

        Args:
            record: Of the invocation.
            wall_s: Seconds since 1970 at its end.

        Cost:
            About 1.5 µs.
        """
        labels = (
            record.route, record.outcome, record.principal, record.endpoint, record.component, record.adapter,
            record.session, record.variant, record.target, record.strategy, record.reason, record.problem,
            record.cause,
        )  # fmt: skip
        tail = self._tails.get(labels)
        if tail is None:
            tail = self._keep(labels)
        started_ns = record.started_ns
        first_byte = ""
        if record.first_byte_ns:
            first_byte = f',"first_byte_ms":{(record.first_byte_ns - started_ns) / 1e6:.3f}'
        attempts = ""
        if record.attempts:
            rank = f',"rank":{record.rank}' if record.rank >= 0 else ""
            attempts = f',"in_flight":{record.in_flight}{rank},"attempts":{record.attempts}'
        tokens = ""
        if record.prompt_tokens >= 0:
            tokens = f',"prompt_tokens":{record.prompt_tokens}'
            if record.cached_tokens >= 0:
                tokens += f',"cached_tokens":{record.cached_tokens}'
        if record.output_tokens >= 0:
            tokens += f',"output_tokens":{record.output_tokens}'
        return (
            f'{{"time":{wall_s:.3f},"id":"{record.request_id}","status":{record.status},'
            f'"ms":{(record.ended_ns - started_ns) / 1e6:.3f}{first_byte},"bytes_in":{record.bytes_in},'
            f'"bytes_out":{record.bytes_out}{tokens}{attempts}{tail}'
        ).encode()

    def _keep(self, labels: tuple[str, ...]) -> str:
        if len(self._tails) >= _TAILS_MAX:
            self._tails.clear()
        present = {name: value for name, value in zip(_LABELS, labels, strict=True) if value}
        tail = "," + msgspec.json.encode(present).decode()[1:] + "\n"
        self._tails[labels] = tail
        return tail
