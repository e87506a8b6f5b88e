"""What an engine says of an invocation's tokens, found in the start and the end of its answer.

The answer may be one JSON document or a stream of events; it is not parsed as a whole. Known are

* ``usage`` of OpenAI's chats and completions: ``prompt_tokens``, ``completion_tokens`` and
  ``prompt_tokens_details.cached_tokens``;
* ``usage`` of OpenAI's responses: ``input_tokens``, ``output_tokens`` and
  ``input_tokens_details.cached_tokens``;
* ``usage`` of Anthropic's messages: ``input_tokens``, without those that ``cache_read_input_tokens`` and
  ``cache_creation_input_tokens`` count, and ``output_tokens``; a stream has all but the last in its first
  event;
* llama.cpp's ``timings``: ``cache_n``, ``prompt_n`` (computed), ``predicted_n``.

Source: the response schemas of the OpenAI and Anthropic APIs; llama.cpp's and vLLM's servers.
"""

import json
import re
from typing import Final

from msgspec import Struct

from warmroute.core.limits import TOKENS_REPORTED_MAX, USAGE_BYTES_MAX, USAGE_SEARCHED_BYTES_MAX

_TRIES_MAX: Final = 8
"""Places looked at that have the name; many events have ``"usage": null``."""
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_COLON: Final = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+(?=\{)")
_raw_decode: Final = json.JSONDecoder().raw_decode

_Object = dict[str, object]


class Usage(Struct, frozen=True, gc=False):
    """Tokens of an invocation as the engine reports them; -1 for what it does not say.

    Attributes:
        prompt_tokens: Length of the whole prompt.
        cached_tokens: How many of these it found in its cache.
        output_tokens: Length of the answer.
    """

    prompt_tokens: int = -1
    cached_tokens: int = -1
    output_tokens: int = -1


def reported(end: bytes, start: bytes = b"") -> Usage:
    """Return what an answer says of its tokens.

    Args:
        end: The answer's last bytes, or all of them; no more than `USAGE_SEARCHED_BYTES_MAX` are looked at.
        start: Its first bytes, where ``end`` is not all: for what only the first event of a stream says.

    Returns:
        What was found. Never raises, whatever the bytes.

    Cost:
        About 6 µs for 4 KiB; up to 1 ms for bytes that are made to be slow.
    """
    end = end[-USAGE_SEARCHED_BYTES_MAX:]
    told = _of_usage(_last_object(end, b'"usage"'), _first_object(start, b'"usage"'))
    if min(told) < 0 and (timings := _last_object(end, b'"timings"')):
        told = tuple([max(pair) for pair in zip(told, _of_timings(timings), strict=True)])
    prompt, cached, output = told
    return Usage(prompt, cached if cached <= prompt else -1, output)


def begins_output(piece: bytes) -> bool:
    """Return whether a piece of a stream, the first that is not known to precede it, has a model's output.

    Some servers open a stream before the model has begun: with comments that keep it open, or with the
    first events of OpenAI's responses.

    Args:
        piece: As it came; where it begins in the middle of an event, it has output.
    """
    if not piece.startswith(_BEFORE_OUTPUT):
        return True
    if piece.startswith(b":"):
        return b"\ndata:" in piece
    return b"response.output" in piece


_BEFORE_OUTPUT: Final = (
    b":",
    b"event: ping",
    b"event: response.created",
    b"event: response.queued",
    b"event: response.in_progress",
)


def _of_usage(last: _Object, first: _Object) -> tuple[int, ...]:
    early = {name: value for name, value in first.items() if name not in _OUTPUT}  # counted on since then
    members = early | {name: value for name, value in last.items() if value is not None}
    output = max(_count(members, name) for name in _OUTPUT)
    if "prompt_tokens" in members:
        return _count(members, "prompt_tokens"), _cached(members, "prompt_tokens_details"), output
    prompt = _count(members, "input_tokens")
    if "input_tokens_details" in members:
        return prompt, _cached(members, "input_tokens_details"), output
    cached = _count(members, "cache_read_input_tokens")
    if prompt >= 0:
        prompt += max(cached, 0) + max(_count(members, "cache_creation_input_tokens"), 0)
    return prompt, cached, output


def _of_timings(timings: _Object) -> tuple[int, ...]:
    cached, computed = _count(timings, "cache_n"), _count(timings, "prompt_n")
    prompt = cached + computed if cached >= 0 and computed >= 0 else -1
    return prompt, cached, _count(timings, "predicted_n")


def _cached(members: _Object, name: str) -> int:
    details = members.get(name)
    return _count(details, "cached_tokens") if isinstance(details, dict) else -1


def _count(members: _Object, name: str) -> int:
    """Return a number of tokens; -1 for what is none."""
    value = members.get(name)
    if type(value) is int and 0 <= value <= TOKENS_REPORTED_MAX:  # True is no number
        return value
    return -1


def _last_object(data: bytes, name: bytes) -> _Object:
    """Return the value of the last member of a name that is an object; an empty one where there is none."""
    at = len(data)
    for _ in range(_TRIES_MAX):
        at = data.rfind(name, 0, at)
        if at < 0:
            break
        if value := _object(data, at + len(name)):
            return value
    return {}


def _first_object(data: bytes, name: bytes) -> _Object:
    """Return the same of the first such member."""
    at = 0
    for _ in range(_TRIES_MAX):
        at = data.find(name, at) + len(name)
        if at < len(name):
            break
        if value := _object(data, at):
            return value
    return {}


def _object(data: bytes, at: int) -> _Object:
    """Return the object that follows the name of a member; an empty one where something else does."""
    colon = _COLON.match(data, at)
    if colon is None:
        return {}
    try:
        value = _raw_decode(data[colon.end() : colon.end() + USAGE_BYTES_MAX].decode("latin-1"))[0]
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
