"""The decision log: each call of a router and its answer, as one line of JSON.

A log says what a router was told and what it answered, from its first moment on, so that the same code
fed with the same calls must give the same answers (`warmroute.sim.replay`). It holds hashes and lengths of
prompts, never text; no credential and no address's path; session ids as hashes. Leases and variants have
the numbers in which the log first speaks of them.

Hashes are written in hexadecimal: many readers of JSON keep only 53 bits of a number.
"""

from collections.abc import Sequence
from dataclasses import replace
from struct import pack, unpack
from typing import assert_never

import msgspec
from msgspec import Struct
from xxhash import xxh3_64_intdigest

from warmroute.core.decision import NEW_SESSION, Lease, RoutingRequest
from warmroute.core.events import (
    AttemptEvent,
    CacheCleared,
    CacheEvent,
    Cancelled,
    Completed,
    EventsLost,
    Failed,
    FailureCause,
    FirstToken,
    TextBlocksRemoved,
    TextBlocksStored,
)
from warmroute.core.fleet import Endpoint, Fleet, Target, Variant
from warmroute.core.limits import SESSION_ID_CHARACTERS_MAX
from warmroute.routing.sessions import Session

FORMAT = 2
"""Of the lines. It grows with every change that an older reader would not understand.

2: a fleet may have several revisions of a variant."""
_FORMAT_MIN = 1
UNKNOWN = "?"
"""Stands for a variant or component that an endpoint does not have: callers may write anything there."""


class _Line(
    Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True, tag_field="what"
):  # fmt: skip
    """What the lines have in common: their kind, in ``what``."""


class Began(_Line, frozen=True, gc=False, tag="log"):
    """The first line.

    Attributes:
        format: Of the lines that follow.
        warmroute: Version of the program.
        key_version: Of the routing keys.
        seed: Of the router's random source, 64 bits in hexadecimal.
        router: Its name.
        began_s: Seconds since 1970.
        began_ns: The router's clock at that time: what the times of the other lines are of.
    """

    format: int
    warmroute: str
    key_version: int
    seed: str
    router: str = ""
    began_s: float = 0.0
    began_ns: int = 0


class FleetApplied(_Line, frozen=True, gc=False, tag="fleet"):
    """``apply_fleet``: the fleet, without its secrets, and whether it is in force now."""

    fleet: Fleet
    applied: bool


class VariantChosen(_Line, frozen=True, gc=False, tag="choose"):
    """``choose_variant``.

    Attributes:
        endpoint: Whose variants.
        asked: TargetVariant; None for a draw.
        component: Inference component that the caller names; ``""`` for none.
        session: What stands for the session id.
        variant: Its name; ``""`` when there was none to choose.
        book: Its number, by which decisions name it; 0 with no variant. A variant that comes back after it
            was gone may have another number, and each of its revisions has one.
        revision: Of the variant.
        shadow: It is the shadow variant, and a copy of an invocation goes there (``shadow_of``).
    """

    endpoint: str
    asked: str | None = None
    component: str = ""
    session: str = ""
    variant: str = ""
    book: int = 0
    revision: int = 0
    shadow: bool = False


class Decided(_Line, frozen=True, gc=False, tag="decide"):
    """``decide``: the request, then the decision. `asked_of` makes the request again.

    Attributes:
        now_ns: The router's clock.
        book: Number of the variant.
        key: Routing key; ``""`` without one.
        characters: Length of the prompt.
        chain: Hashes of its blocks, 16 digits each.
        component: Inference component.
        adapter: LoRA adapter.
        session: What stands for the session id (`alias`).
        tried: Targets that failed this invocation.
        lease: Number of the reservation; 0 when refused.
        target: Where the request goes.
        generation: Of that target.
        variant: Name of the variant.
        strategy: In force.
        reason: Why there.
        rank: Place in the key's order; -1 without one.
        in_flight: Leases open there before.
        candidates: Targets that could be picked.
        refusal: Why nothing was picked; ``""`` otherwise.
    """

    now_ns: int
    book: int
    key: str = ""
    characters: int = 0
    chain: str = ""
    component: str = ""
    adapter: str = ""
    session: str = ""
    tried: tuple[str, ...] = ()
    lease: int = 0
    target: str = ""
    generation: int = 0
    variant: str = ""
    strategy: str = ""
    reason: str = ""
    rank: int = -1
    in_flight: int = 0
    candidates: int = 0
    refusal: str = ""


class Health(Struct, frozen=True, gc=False):
    """A change of a target's health: ejected, or back."""

    target: str
    generation: int
    ejected: bool
    reason: str


class AttemptTold(_Line, frozen=True, gc=False, tag="apply"):
    """``apply``.

    Attributes:
        now_ns: The router's clock.
        lease: Number of the attempt's lease.
        event: ``first_token``, ``completed``, ``failed`` or ``cancelled``.
        cause: Of a failure.
        prompt_tokens: As reported; -1 when not.
        cached_tokens: Likewise.
        output_tokens: Likewise.
        change: Of the target's health.
    """

    now_ns: int
    lease: int
    event: str
    cause: str = ""
    prompt_tokens: int = -1
    cached_tokens: int = -1
    output_tokens: int = -1
    change: Health | None = None


class SessionOpened(_Line, frozen=True, gc=False, tag="open"):
    """``open_session``: the lease's number, what stands for the id, the deadline, and whether it is open."""

    now_ns: int
    lease: int
    session: str
    deadline_ns: int
    opened: bool


class SessionAdopted(_Line, frozen=True, gc=False, tag="adopt"):
    """``adopt_session``: what stands for the id, what the session is pinned to, and whether it is open."""

    now_ns: int
    endpoint: str
    session: str
    variant: str
    revision: int
    target: str
    generation: int
    deadline_ns: int
    opened: bool


class SessionClosed(_Line, frozen=True, gc=False, tag="close"):
    """``close_session``: the lease's number, what stands for the id, and whether it was open there."""

    lease: int
    session: str
    closed: bool


class CacheTold(_Line, frozen=True, gc=False, tag="learn"):
    """``learn``.

    Attributes:
        now_ns: The router's clock.
        event: ``stored``, ``removed``, ``cleared`` or ``lost``.
        target: Whose cache.
        generation: Of that target.
        blocks: Hashes of text blocks, 16 digits each.
        why: Of what was lost.
    """

    now_ns: int
    event: str
    target: str
    generation: int
    blocks: str = ""
    why: str = ""


class DeadlineMet(_Line, frozen=True, gc=False, tag="deadline"):
    """``on_deadline``, when something was due."""

    now_ns: int
    changes: tuple[Health, ...] = ()


class Ended(_Line, frozen=True, gc=False, tag="end"):
    """The last line of a log that was not cut off: ``stopped`` with the router, or ``full``."""

    why: str


Line = (
    Began
    | FleetApplied
    | VariantChosen
    | Decided
    | AttemptTold
    | SessionOpened
    | SessionAdopted
    | SessionClosed
    | CacheTold
    | DeadlineMet
    | Ended
)


class _Kind(Struct, gc=False):
    """As much of a first line as every version of it has."""

    what: str
    format: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)
_kind = msgspec.json.Decoder(_Kind)


class LogError(Exception):
    """A line is not one of ours; the text says what it is instead."""


def encode(lines: Sequence[Line]) -> bytes:
    """Return lines as they stand in a file.

    Raises:
        ValueError: A text in one of them cannot be written as UTF-8.

    Cost:
        About 1 µs per line, and 0.05 µs per text block.
    """
    return _encoder.encode_lines(lines)


def decode_first(data: bytes) -> Began:
    """Read a file's first line.

    Raises:
        LogError: It begins no log, or one of a format that this version does not know.
    """
    try:
        kind = _kind.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        kind = None
    if kind is None or kind.what != "log":
        raise LogError("it does not begin like a decision log")
    if not _FORMAT_MIN <= kind.format <= FORMAT:
        raise LogError(
            f"it is a decision log of format {kind.format}; this version reads {_FORMAT_MIN} to {FORMAT}"
        )
    first = decode(data)
    if not isinstance(first, Began):
        raise LogError("it does not begin like a decision log")
    return first


def decode(data: bytes) -> Line:
    """Read a line.

    Raises:
        LogError: It is damaged.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogError(f"it is no line of a decision log: {error}") from None


# --- what is written instead of what was said -----------------------------------------------------------
def without_secrets(fleet: Fleet) -> Fleet:
    """Return the fleet as the log may have it: without credentials, and without the paths of addresses."""
    endpoints = tuple(_bare_endpoint(endpoint) for endpoint in fleet.endpoints)
    return replace(fleet, endpoints=endpoints, access_keys=(), api_keys=(), session_key="")


def _bare_endpoint(endpoint: Endpoint) -> Endpoint:
    return replace(
        endpoint,
        variants=tuple(_bare_variant(variant) for variant in endpoint.variants),
        shadow=None if endpoint.shadow is None else _bare_variant(endpoint.shadow),
    )


def _bare_variant(variant: Variant) -> Variant:
    return replace(variant, targets=tuple(_bare_target(target) for target in variant.targets))


def _bare_target(target: Target) -> Target:
    # Some servers have their key in the path of their URL.
    return replace(target, api_key=None, path_prefix="")


def alias(session: str) -> str:
    """Return what stands for a session id: whoever knows one could use the session.

    Routing compares ids and looks whether one is too long; the hash is no id of a session, and too long as
    well for one that is. ``""`` and `NEW_SESSION`, which are none, stay.
    """
    if not session or session == NEW_SESSION:
        return session
    hashed = f"{xxh3_64_intdigest(session.encode('utf-8', 'surrogatepass')):016x}"
    return (
        hashed
        if len(session) <= SESSION_ID_CHARACTERS_MAX
        else hashed.ljust(SESSION_ID_CHARACTERS_MAX + 1, "+")
    )


# --- hashes, requests and events, there and back -------------------------------------------------------
def in_hex(hashes: Sequence[int]) -> str:
    """Return 64-bit hashes as hexadecimal, 16 digits each."""
    return pack(f">{len(hashes)}Q", *hashes).hex()


def from_hex(text: str) -> tuple[int, ...]:
    """Return the hashes that `in_hex` wrote.

    Raises:
        LogError: It wrote something else.
    """
    if len(text) % 16:
        raise LogError(f"hashes have 16 hexadecimal digits each, got {text[:40]}")
    try:
        return unpack(f">{len(text) // 16}Q", bytes.fromhex(text))
    except ValueError:
        raise LogError(f"hashes have 16 hexadecimal digits each, got {text[:40]}") from None


def asked_of(line: Decided) -> RoutingRequest:
    """Return the request of a decision.

    Raises:
        LogError: Its hashes are none.
    """
    key = from_hex(line.key)
    return RoutingRequest(
        key=key[0] if key else None,
        chain=from_hex(line.chain),
        characters=line.characters,
        component=line.component,
        adapter=line.adapter,
        session=line.session,
    )


def adopted(line: SessionAdopted) -> Session:
    """Return what a line says that a session is pinned to."""
    return Session(line.variant, line.target, line.generation, line.deadline_ns, line.revision)


def attempt_told(event: AttemptEvent, *, now_ns: int, lease: int, change: Health | None) -> AttemptTold:
    """Return the line of a fact about an attempt.

    Args:
        event: The fact.
        now_ns: When it was told.
        lease: Number of the attempt's lease.
        change: Of the target's health.
    """
    match event:
        case FirstToken():
            return AttemptTold(now_ns, lease, "first_token", change=change)
        case Completed():
            tokens = (event.prompt_tokens, event.cached_tokens, event.output_tokens)
            return AttemptTold(now_ns, lease, "completed", "", *tokens, change)
        case Failed():
            return AttemptTold(now_ns, lease, "failed", event.cause.value, change=change)
        case Cancelled():
            return AttemptTold(now_ns, lease, "cancelled", change=change)
        case _:
            assert_never(event)


def attempt_event(line: AttemptTold, lease: Lease) -> AttemptEvent:
    """Return the fact of a line, about an attempt that has this lease.

    Raises:
        LogError: There is no such event or cause.
    """
    match line.event:
        case "first_token":
            return FirstToken(lease)
        case "completed":
            return Completed(lease, line.prompt_tokens, line.cached_tokens, line.output_tokens)
        case "failed" if line.cause in _CAUSES:
            return Failed(lease, FailureCause(line.cause))
        case "cancelled":
            return Cancelled(lease)
        case _:
            raise LogError(f"no attempt has the event {f'{line.event} {line.cause}'.strip()}")


def cache_told(event: CacheEvent, *, now_ns: int) -> CacheTold:
    """Return the line of a fact about a target's cache."""
    at = (event.target_id, event.generation)
    match event:
        case TextBlocksStored():
            return CacheTold(now_ns, "stored", *at, in_hex(event.blocks))
        case TextBlocksRemoved():
            return CacheTold(now_ns, "removed", *at, in_hex(event.blocks))
        case CacheCleared():
            return CacheTold(now_ns, "cleared", *at)
        case EventsLost():
            return CacheTold(now_ns, "lost", *at, why=event.why)
        case _:
            assert_never(event)


def cache_event(line: CacheTold) -> CacheEvent:
    """Return the fact of a line.

    Raises:
        LogError: There is no such event.
    """
    match line.event:
        case "stored":
            return TextBlocksStored(line.target, line.generation, from_hex(line.blocks))
        case "removed":
            return TextBlocksRemoved(line.target, line.generation, from_hex(line.blocks))
        case "cleared":
            return CacheCleared(line.target, line.generation)
        case "lost":
            return EventsLost(line.target, line.generation, line.why)
        case _:
            raise LogError(f"no cache has the event {line.event}")


_CAUSES = frozenset(cause.value for cause in FailureCause)
