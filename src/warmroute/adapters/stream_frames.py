"""Frames of the stream between control and the routers.

A frame is its length (four bytes, big-endian, of what follows), one byte that names the message, and
the message in MessagePack.
"""

import asyncio
import struct
from typing import Final

import msgspec

from warmroute.core.fleet import Fleet
from warmroute.core.stream import (
    AdapterUses,
    AdapterWanted,
    Applied,
    Counters,
    FromRouter,
    Hello,
    Publish,
    TargetReport,
)

_HEAD: Final = struct.Struct(">IB")
_CODES: dict[type[Publish | FromRouter], int] = {
    Publish: 1,
    Hello: 2,
    Applied: 3,
    TargetReport: 4,
    Counters: 5,
    AdapterWanted: 6,
    AdapterUses: 7,
}
_DECODERS: dict[int, msgspec.msgpack.Decoder[Publish | FromRouter]] = {
    code: msgspec.msgpack.Decoder(kind) for kind, code in _CODES.items()
}


class FrameError(Exception):
    """The peer does not speak this protocol, or a newer form of it."""


def encode(message: Publish | FromRouter) -> bytes:
    """Return a frame."""
    body = msgspec.msgpack.encode(message)
    return _HEAD.pack(len(body) + 1, _CODES[type(message)]) + body


async def read(reader: asyncio.StreamReader, *, bytes_max: int) -> Publish | FromRouter:
    """Read one message.

    Raises:
        asyncio.IncompleteReadError: The stream ended.
        FrameError: A frame is too long, unknown or unreadable.
    """
    length, code = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if not 1 <= length <= bytes_max:
        raise FrameError(f"a frame of {length} bytes came; 1 to {bytes_max} are allowed")
    decoder = _DECODERS.get(code)
    if decoder is None:
        raise FrameError(f"a frame of kind {code} came; known are {min(_DECODERS)} to {max(_DECODERS)}")
    try:
        return decoder.decode(await reader.readexactly(length - 1))
    except msgspec.DecodeError as error:
        raise FrameError(f"a frame of kind {code} is unreadable: {error}") from None


def encode_fleet(fleet: Fleet) -> bytes:
    """Return a fleet as it is kept in a router's file."""
    return msgspec.json.encode(fleet)


def decode_fleet(data: bytes) -> Fleet:
    """Read a router's file.

    Raises:
        msgspec.DecodeError: It is damaged, or of another version.
    """
    return msgspec.json.decode(data, type=Fleet)
