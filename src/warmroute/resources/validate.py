"""Checks a request against the service model, in the words SageMaker uses.

boto3 checks minima and types only; upper bounds, enums, patterns and required members of what other
clients send are the server's work. Unknown members are ignored, as services of this protocol do.

Choice: a wrong JSON type is a ``SerializationException`` at the first one met; broken constraints are
collected and reported together.
"""

import sys
from dataclasses import dataclass, field
from typing import Any, Final

from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.patterns import compile_java
from warmroute.resources.shapes import Shape

PATTERN_CHARACTERS_MAX: Final = 8192
"""Longer values break a length constraint anyway and are not given to a backtracking matcher."""
QUOTED_CHARACTERS_MAX: Final = 1024
"""How much of a wrong value is quoted back."""
ERRORS_MAX: Final = 20
"""Constraint violations listed in one answer."""

_JSON_NAMES = {str: "STRING_VALUE", int: "NUMBER_VALUE", float: "NUMBER_VALUE"}
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "integer": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "float": (-sys.float_info.max, sys.float_info.max),
    "double": (-sys.float_info.max, sys.float_info.max),
    "timestamp": (-62_135_596_800, 253_402_300_799),
}
"""What the wire types hold; timestamps are of the years 1 to 9999. JSON knows no bounds."""
_JAVA_NAMES = {"integer": "Integer", "long": "Long", "float": "Float", "double": "Double"}


@dataclass(slots=True)
class _Findings:
    texts: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    """The same without the values: an Environment has secrets."""

    def add(self, value: object, path: str, constraint: str) -> None:
        quoted = "null" if value is None else f"'{_quote(value)}'"
        rest = f"at '{path}' failed to satisfy constraint: {constraint}"
        self.texts.append(f"Value {quoted} {rest}")
        self.logged.append(f"Value {rest}")


def validate(shape: Shape, document: object) -> dict[str, Any]:
    """Check a request.

    Args:
        shape: The operation's input.
        document: The parsed JSON body.

    Returns:
        The request with known members only, nulls left out, timestamps as epoch seconds.

    Raises:
        ApiError: ``SerializationException`` or ``ValidationException``.
    """
    findings = _Findings()
    value = _check(shape, document, "", findings)
    if findings.texts:
        count = len(findings.texts)
        told = f"{count} validation error{'' if count == 1 else 's'} detected: "
        raise ApiError(
            ApiCode.VALIDATION,
            told + "; ".join(findings.texts[:ERRORS_MAX]),
            logged=told + "; ".join(findings.logged[:ERRORS_MAX]),
        )
    assert isinstance(value, dict)
    return value


def _check(shape: Shape, value: object, path: str, findings: _Findings) -> object:
    match shape.kind:
        case "structure":
            return _structure(shape, value, path, findings)
        case "list":
            return _list(shape, value, path, findings)
        case "map":
            return _map(shape, value, path, findings)
        case _:
            scalar = _scalar(shape, value, path)
            for constraint in _broken(shape, scalar):
                findings.add(value, path, constraint)
            return scalar


def _structure(shape: Shape, value: object, path: str, findings: _Findings) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unreadable(value, "structure", path)
    out: dict[str, Any] = {}
    for name, member in shape.members.items():
        given = value.get(name)
        member_path = _join(path, name[:1].lower() + name[1:])
        if given is not None:
            out[name] = _check(member, given, member_path, findings)
        elif name in shape.required:
            findings.add(None, member_path, "Member must not be null")
    return out


def _list(shape: Shape, value: object, path: str, findings: _Findings) -> list[Any]:
    if not isinstance(value, list):
        raise _unreadable(value, "list", path)
    assert shape.item is not None
    for constraint in _broken(shape, value):
        findings.add(value, path, constraint)
    if shape.item.kind in ("structure", "list", "map"):
        return [
            _check(shape.item, item, _join(path, f"{index}.member"), findings)
            for index, item in enumerate(value, 1)
        ]
    items = [_scalar(shape.item, item, _join(path, f"{index}.member")) for index, item in enumerate(value, 1)]
    broken = dict.fromkeys(text for item in items for text in _broken(shape.item, item))
    if broken:
        findings.add(value, path, f"Member must satisfy constraint: [{', '.join(broken)}]")
    return items


def _map(shape: Shape, value: object, path: str, findings: _Findings) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unreadable(value, "map", path)
    assert shape.key is not None
    assert shape.item is not None
    given = {name: item for name, item in value.items() if item is not None}
    for constraint in _broken(shape, given):
        findings.add(given, path, constraint)
    out = {name: _scalar(shape.item, item, _join(path, name)) for name, item in given.items()}
    broken_keys = dict.fromkeys(text for name in out for text in _broken(shape.key, name))
    if broken_keys:
        findings.add(given, path, f"Map keys must satisfy constraint: [{', '.join(broken_keys)}]")
    broken_values = dict.fromkeys(text for item in out.values() for text in _broken(shape.item, item))
    if broken_values:
        findings.add(given, path, f"Map value must satisfy constraint: [{', '.join(broken_values)}]")
    return out


def _scalar(shape: Shape, value: object, path: str) -> Any:
    kind = shape.kind
    if kind in ("string", "blob"):
        if isinstance(value, str):
            return value
        raise _unreadable(value, "String", path)
    if kind == "boolean":
        if isinstance(value, bool):
            return value
        raise _unreadable(value, "Boolean", path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unreadable(value, _JAVA_NAMES.get(kind, "Timestamp"), path)
    least, most = _RANGES[kind]
    if not least <= value <= most:
        raise _unreadable(value, _JAVA_NAMES.get(kind, "Timestamp"), path)
    if kind in ("integer", "long"):
        if value != int(value):
            raise _unreadable(value, _JAVA_NAMES[kind], path)
        return int(value)
    return value


def _broken(shape: Shape, value: Any) -> list[str]:
    """Return the constraints that a value breaks, in SageMaker's words."""
    texts: list[str] = []
    measure = "value" if shape.is_number else "length"
    size = value if shape.is_number else len(value) if isinstance(value, str | list | dict) else None
    if size is not None:
        if shape.least is not None and size < shape.least:
            texts.append(f"Member must have {measure} greater than or equal to {shape.least}")
        if shape.most is not None and size > shape.most:
            texts.append(f"Member must have {measure} less than or equal to {shape.most}")
    if shape.choices and value not in shape.choices:
        texts.append(f"Member must satisfy enum value set: [{', '.join(map(str, shape.choices))}]")
    if isinstance(value, str):
        if shape.enum and value not in shape.enum:
            texts.append(f"Member must satisfy enum value set: [{', '.join(shape.enum)}]")
        if shape.pattern is not None and (
            len(value) > PATTERN_CHARACTERS_MAX or not compile_java(shape.pattern).fullmatch(value)
        ):
            texts.append(f"Member must satisfy regular expression pattern: {shape.pattern}")
    return texts


def _unreadable(value: object, wanted: str, path: str) -> ApiError:
    where = f" at '{path}'" if path else ""
    match value:
        case dict():
            text = f"Start of structure or map found where not expected{where}: expected {wanted}"
        case list():
            text = f"Start of list found where not expected{where}: expected {wanted}"
        case True | False:
            text = f"{str(value).upper()}_VALUE can not be converted to {_article(wanted)}{where}"
        case None:
            text = f"NULL_VALUE can not be converted to {_article(wanted)}{where}"
        case _:
            text = f"{_JSON_NAMES[type(value)]} can not be converted to {_article(wanted)}{where}"
    return ApiError(ApiCode.SERIALIZATION, text)


def _article(noun: str) -> str:
    return f"an {noun}" if noun[:1] in "AEIOU" else f"a {noun}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _quote(value: object) -> str:
    text = _spell(value)
    return text if len(text) <= QUOTED_CHARACTERS_MAX else text[:QUOTED_CHARACTERS_MAX] + "…"


def _spell(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{name}={_spell(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(_spell(item) for item in value) + "]"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
