"""Holds a document against a shape of a service model; names every mistake, its place and what is allowed."""

import difflib
import json
import math
import re
from datetime import UTC, date, datetime, time
from typing import Any, Final

from warmroute.resources.patterns import compile_java
from warmroute.resources.shapes import INSTANCE_TYPE_SHAPE, Shape

JsonObject = dict[str, Any]

DEPTH_MAX: Final = 32
"""Of tables within tables; the API's own go to nine."""
SHOWN_CHARACTERS_MAX: Final = 60
"""How much of a wrong value is repeated."""
PATTERN_CHARACTERS_MAX: Final = 8192
"""Longer texts are not given to a backtracking matcher."""
_ANYTHING: Final = (None, ".*", r"[\S\s]*", r"[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\r\n\t]*")
"""Patterns that say nothing to a person."""


def check(shape: Shape, value: object) -> tuple[object, list[str]]:
    """Check a document.

    Args:
        shape: What it must be.
        value: As TOML or YAML gave it.

    Returns:
        The document with whole numbers as integers and times as epoch seconds, and every mistake as a
        sentence that begins with its place, such as ``Models[0].ModelName``.
    """
    mistakes: list[str] = []
    return _check(shape, value, "", mistakes), mistakes


def _check(shape: Shape, value: object, path: str, mistakes: list[str], depth: int = 0) -> object:
    if depth > DEPTH_MAX:
        mistakes.append(f"{path}: tables within tables go too deep")
        return value
    match shape.kind:
        case "structure":
            return _structure(shape, value, path, mistakes, depth)
        case "list":
            return _list(shape, value, path, mistakes, depth)
        case "map":
            return _map(shape, value, path, mistakes, depth)
        case _:
            return _scalar(shape, value, path, mistakes)


def _structure(shape: Shape, value: object, path: str, mistakes: list[str], depth: int) -> object:
    if not isinstance(value, dict):
        _wrong(value, path, "a table", mistakes)
        return value
    out: JsonObject = {}
    for name, inner in value.items():
        member = shape.members.get(name) if isinstance(name, str) else None
        if member is None:
            mistakes.append(f"{_join(path, str(name))}: no such member; {_suggest(str(name), shape)}")
        elif inner is not None:
            out[name] = _check(member, inner, _join(path, name), mistakes, depth + 1)
    mistakes.extend(
        f"{_join(path, name)} is missing; it must be {allowed(shape.members[name])}"
        for name in shape.required
        if value.get(name) is None
    )
    return out


def _list(shape: Shape, value: object, path: str, mistakes: list[str], depth: int) -> object:
    assert shape.item is not None, "a list has items"
    if not isinstance(value, list):
        _wrong(value, path, allowed(shape), mistakes)
        return value
    _check_size(shape, len(value), value, path, mistakes)
    return [
        _check(shape.item, item, f"{path}[{index}]", mistakes, depth + 1) for index, item in enumerate(value)
    ]


def _map(shape: Shape, value: object, path: str, mistakes: list[str], depth: int) -> object:
    assert shape.item is not None, "a map has values"
    if not isinstance(value, dict):
        _wrong(value, path, allowed(shape), mistakes)
        return value
    _check_size(shape, len(value), value, path, mistakes)
    return {
        str(name): _check(shape.item, item, _join(path, str(name)), mistakes, depth + 1)
        for name, item in value.items()
    }


def _scalar(shape: Shape, value: object, path: str, mistakes: list[str]) -> object:
    if isinstance(value, datetime) and shape.kind == "timestamp":
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if not _fits(shape, value):
        _wrong(value, path, allowed(shape), mistakes)
    elif isinstance(value, int | float) and shape.kind in ("integer", "long"):
        return int(value)
    return value


def _fits(shape: Shape, value: object) -> bool:
    if shape.kind == "boolean":
        return isinstance(value, bool)
    if shape.kind in ("string", "blob"):
        return isinstance(value, str) and _text_fits(shape, value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    whole = shape.kind in ("float", "double", "timestamp") or value == int(value)
    low, high = shape.least, shape.most
    return whole and (low is None or value >= low) and (high is None or value <= high)


def _text_fits(shape: Shape, value: str) -> bool:
    if shape.enum and shape.name != INSTANCE_TYPE_SHAPE and value not in shape.enum:
        return False  # instance types are the server's own, which knows them
    if (shape.least is not None and len(value) < shape.least) or (
        shape.most is not None and len(value) > shape.most
    ):
        return False
    if shape.pattern is None:
        return True
    return len(value) <= PATTERN_CHARACTERS_MAX and bool(compile_java(shape.pattern).fullmatch(value))


def _check_size(shape: Shape, size: int, value: object, path: str, mistakes: list[str]) -> None:
    low, high = shape.least, shape.most
    if (low is not None and size < low) or (high is not None and size > high):
        _wrong(value, path, allowed(shape), mistakes)


def allowed(shape: Shape) -> str:
    """Return what a member accepts, as the end of "must be …"."""
    bounds = _bounds(shape)
    match shape.kind:
        case "structure":
            text = "a table"
        case "map":
            text = "a table of text values"
        case "list":
            inner = "tables" if shape.item is not None and shape.item.kind == "structure" else "values"
            text = f"a list of {bounds} {inner}" if bounds else f"a list of {inner}"
        case "boolean":
            text = "true or false"
        case "timestamp":
            text = "a time such as 2026-11-30T21:54:17Z"
        case "string" | "blob" if shape.enum and shape.name != INSTANCE_TYPE_SHAPE:
            text = f"one of {', '.join(shape.enum)}"
        case "string" | "blob":
            pattern = f" that matches {shape.pattern}" if shape.pattern not in _ANYTHING else ""
            text = f"text of {bounds} characters{pattern}" if bounds else f"text{pattern}"
        case kind:
            noun = "an integer" if kind in ("integer", "long") else "a number"
            text = f"{noun}, {bounds}" if bounds else noun
    return text


def _bounds(shape: Shape) -> str:
    low = shape.least if shape.least or shape.is_number else None
    high = shape.most if shape.kind != "float" else None
    if low is None:
        return "" if high is None else f"at most {high:.15g}"
    return f"at least {low:.15g}" if high is None else f"{low:.15g} to {high:.15g}"


def _wrong(value: object, path: str, must_be: str, mistakes: list[str]) -> None:
    text = json.dumps(value, default=str, ensure_ascii=False)
    shown = text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…"
    hint = ""
    if isinstance(value, bool | int | float | date | time) and must_be.startswith(("text", "one of")):
        hint = "; put it in quotes"
    mistakes.append(f"{path or 'the file'} = {shown}: must be {must_be}{hint}")


def _suggest(name: str, shape: Shape) -> str:
    close = difflib.get_close_matches(name, shape.members, n=1)
    return f"did you mean {close[0]}?" if close else f"allowed are {', '.join(shape.members)}"


def _join(path: str, name: str) -> str:
    shown = name if re.fullmatch(r"[\w:.-]+", name) else json.dumps(name, ensure_ascii=False)
    return f"{path}.{shown}" if path else shown
