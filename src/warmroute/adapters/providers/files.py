"""Small JSON files that are either the old version or the new one, never half of one."""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


def write_json(path: Path, value: object) -> None:
    """Replace ``path`` by ``value`` as JSON, readable by its owner only.

    Args:
        path: In a directory that exists.
        value: Anything msgspec can encode.

    Raises:
        OSError: The disk refused.
    """
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_json(path: Path, kind: type[T]) -> T | None:
    """Return what ``write_json`` wrote; None when there is no such file.

    Raises:
        ValueError: The file is there and is not a ``kind``; the text names the file.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:  # a ValidationError is one
        raise ValueError(f"{path} cannot be read: {error}") from error
