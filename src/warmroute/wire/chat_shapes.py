"""The shapes of request bodies, as far as routing reads them, and their decoders.

Apart from the code that uses them, which may be compiled: msgspec reads these annotations at run time.
"""

from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

NO_VALUE: Final = Raw(b"")
"""Stands for a member that is not there."""


class Message(Struct, gc=False):
    """For a little text out of a long body: content is decoded only while text is missing."""

    content: Raw = NO_VALUE


class WholeMessage(Struct, gc=False):
    """For most of the text: one pass is twice as fast as going back to every content."""

    content: object = None


AnyMessage = TypeVar("AnyMessage", Message, WholeMessage)


class Body(Struct, Generic[AnyMessage], gc=False):
    """The members that routing looks at, of any of the APIs."""

    messages: list[AnyMessage] = []
    prompt: Raw = NO_VALUE
    input: Raw = NO_VALUE
    instructions: Raw = NO_VALUE
    system: Raw = NO_VALUE
    model: str | None = None
    stream: bool | None = None
    prompt_cache_key: str | None = None
    tools: Raw = NO_VALUE
    cache_salt: str | None = None


class Salted(Struct, gc=False):
    """What partitions an engine's cache, of a body that is not read otherwise."""

    cache_salt: str = ""


decode_start: Final = msgspec.json.Decoder(Body[Message]).decode
decode_whole: Final = msgspec.json.Decoder(Body[WholeMessage]).decode
decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
decode_salt: Final = msgspec.json.Decoder(Salted).decode
decode_any: Final = msgspec.json.Decoder().decode
