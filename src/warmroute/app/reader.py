"""Turn tables of settings into their dataclasses, with messages that name the key and what it allows."""

import difflib
import json
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from warmroute.core.errors import ConfigurationError

T = TypeVar("T")

SHOWN_CHARACTERS_MAX = 60
"""How much of a wrong value is repeated in a message."""
NOT_PATHS = ("", "-", "off")
"""Values of path settings that are words, not paths."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section, as declared.

    Attributes:
        name: As written in the file.
        annotation: Its type, constraints included.
        type: The same, taken apart.
        description: For people.
        allowed: What it accepts, as the end of "must be …".
        secret: Its value is never shown.
        path: A file name: made absolute.
        required: It has no default.
        default: The default, where it is a plain value.
    """

    name: str
    annotation: Any
    type: inspect.Type
    description: str
    allowed: str
    secret: bool
    path: bool
    required: bool
    default: object


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: the file's name, the keys that lead to it, and what paths are relative to."""

    source: str
    directory: Path
    keys: tuple[str, ...] = ()

    def at(self, key: str) -> "Place":
        """Return the place of ``key`` inside this one."""
        return Place(self.source, self.directory, (*self.keys, key))

    def __str__(self) -> str:
        return f"{self.source}: {'.'.join(_quoted(key) for key in self.keys)}".removesuffix(": ")


def keys_of(kind: type) -> tuple[Key, ...]:
    """Return the keys of a section's dataclass, in the order they are declared."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.DataclassType), kind
    annotations = typing.get_type_hints(kind, include_extras=True)
    return tuple(_key(field, annotations[field.name]) for field in described.fields)


def read(kind: type[T], table: object, place: Place) -> T:
    """Return the dataclass ``kind`` made of a table as TOML gives it.

    Raises:
        ConfigurationError: An unknown or missing key, or a value that is not allowed.
    """
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{place} = {shown(table)}: must be a table")
    keys = {key.name: key for key in keys_of(kind)}
    for name in table:
        if name not in keys:
            raise ConfigurationError(f"{place.at(str(name))}: no such key; {_suggest(str(name), keys)}")
    for key in keys.values():
        if key.required and key.name not in table:
            raise ConfigurationError(f"{place.at(key.name)} is missing; it must be {key.allowed}")
    return kind(**{name: read_key(keys[name], value, place.at(name)) for name, value in table.items()})


def read_key(key: Key, value: object, place: Place) -> object:
    """Return a key's value, sections and lists of sections included.

    Raises:
        ConfigurationError: It is not allowed.
    """
    match bare(key.type):
        case inspect.DataclassType(cls=kind):
            return read(kind, value, place)
        case inspect.DictType(value_type=inspect.DataclassType(cls=kind)):
            if not isinstance(value, Mapping):
                raise ConfigurationError(f"{place} = {shown(value)}: must be a table of tables")
            return {name: read(kind, table, place.at(name)) for name, table in value.items()}
        case inspect.VarTupleType(item_type=inspect.DataclassType(cls=kind)):
            if not isinstance(value, list):
                raise ConfigurationError(f"{place} = {shown(value)}: must be a list of tables")
            return tuple(read(kind, table, place.at(str(index))) for index, table in enumerate(value))
        case _:
            return read_value(key, value, written=f"{place} = {shown(value, secret=key.secret)}", place=place)


def read_value(key: Key, value: object, *, written: str, place: Place, strict: bool = True) -> object:
    """Return a plain value, checked against its key's type.

    Args:
        key: As declared.
        value: As given.
        written: How it was given, the beginning of the message.
        place: Its directory is what a path is relative to.
        strict: False reads numbers and booleans out of text, as environment variables need it.

    Raises:
        ConfigurationError: It is not allowed.
    """
    try:
        converted: object = msgspec.convert(value, key.annotation, strict=strict)
    except msgspec.ValidationError:
        raise ConfigurationError(f"{written}: must be {key.allowed}") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ConfigurationError(f"{written}: must be {key.allowed}")
    if key.path and isinstance(converted, str) and converted not in NOT_PATHS:
        return str(place.directory.joinpath(Path(converted).expanduser()).absolute())
    return converted


def bare(described: inspect.Type) -> inspect.Type:
    """Return a type without its description and without "or nothing"."""
    match described:
        case inspect.Metadata(type=inner):
            return bare(inner)
        case inspect.UnionType(types=(inner, inspect.NoneType())):
            return bare(inner)
        case _:
            return described


def allowed(described: inspect.Type) -> str:  # noqa: PLR0911  (one line per kind of type)
    """Return what a type accepts, as the end of "must be …"."""
    if isinstance(described, inspect.Metadata):
        return (described.extra or {}).get("allowed") or allowed(described.type)
    match bare(described):
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=low, le=high):
            return f"an integer from {low} to {high}"
        case inspect.FloatType(ge=low, le=high):
            return f"a number from {low} to {high}"
        case inspect.StrType(min_length=low, max_length=high):
            return f"text{_length(low, high)}"
        case inspect.EnumType(cls=kind):
            return "one of " + ", ".join(str(member.value) for member in kind)
        case inspect.VarTupleType(item_type=inspect.DataclassType()):
            return "a list of tables"
        case inspect.VarTupleType(item_type=item):
            return f"a list, each entry {allowed(item)}"
        case inspect.DictType(value_type=inspect.StrType()):
            return "a table of text values"
        case _:
            return "a table"


def shown(value: object, *, secret: bool = False) -> str:
    """Return a value for a message: short, on one line, and never a secret."""
    if secret:
        return "(a secret)"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…"


def _key(field: inspect.Field, annotation: object) -> Key:
    metadata = field.type if isinstance(field.type, inspect.Metadata) else None
    extra = (metadata and metadata.extra) or {}
    schema = (metadata and metadata.extra_json_schema) or {}
    return Key(
        name=field.name,
        annotation=annotation,
        type=field.type,
        description=schema.get("description", ""),
        allowed=allowed(field.type),
        secret=bool(extra.get("secret")),
        path=bool(extra.get("path")),
        required=field.required,
        default=field.default,
    )


def _length(low: int | None, high: int | None) -> str:
    match (low, high):
        case (None, None):
            return ""
        case (1, None):
            return ", not empty"
        case (int(), None):
            return f" of {low} characters or more"
        case _:
            return f" of {low or 0} to {high} characters"


def _quoted(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else f'"{key}"'


def _suggest(name: str, keys: Mapping[str, Key]) -> str:
    close = difflib.get_close_matches(name, keys, n=1)
    return f"did you mean {close[0]}?" if close else f"allowed are {', '.join(keys)}"
