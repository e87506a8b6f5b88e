"""Requests made from the service model, each with the answer that it has to get."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.conformance.facts import BASES
from tests.conformance.meanings import meaning_of, repair
from tests.conformance.nodes import ITEM, KEY, VALUE, at, changed, nodes, wire_path, without
from tests.conformance.samples import CHOICES, breaking, entries, items, minimal, text
from warmroute.resources.coverage.tables import Treatment

VALIDATION, SERIALIZATION = "ValidationException", "SerializationException"
JSON = {
    "string": "x",
    "integer": 1,
    "fraction": 1.5,
    "boolean": True,
    "structure": {},
    "list": [],
}
"""One value of each type that JSON has, and null besides."""
FITS = {
    "string": {"string"},
    "blob": {"string"},
    "integer": {"integer"},
    "long": {"integer"},
    "float": {"integer", "fraction"},
    "double": {"integer", "fraction"},
    "boolean": {"boolean"},
    "timestamp": {"integer", "fraction"},
    "structure": {"structure"},
    "map": {"structure"},
    "list": {"list"},
}
OWN_PATTERNS = {"ModelDataUrl", "S3Uri", "ArtifactUrl"}
"""Members whose pattern warmroute widens, so that models on this machine can be named."""


@dataclass(frozen=True)
class Case:
    """A request and what it has to be answered.

    Attributes:
        label: Node and what was done to it.
        request: The body.
        code: Of the error; ``""`` for success.
        texts: What the error's message holds.
        alone: Path that every finding of the error is about; None for any.
        same_as: A request that has to get the same answer; None for none.
    """

    label: str
    request: dict[str, Any]
    code: str = ""
    texts: tuple[str, ...] = ()
    alone: str | None = None
    same_as: dict[str, Any] | None = None


def base_of(operation, shape):
    """Return the smallest request of an operation that succeeds."""
    return _merged(minimal(shape), BASES[operation])


def _merged(document, over):
    for name, value in over.items():
        document[name] = value
    return document


def cases_of(operation, shape, coverage):
    """Yield every case of an operation.

    Args:
        operation: Its name.
        shape: Its input, of botocore's.
        coverage: Its rows.
    """
    base = base_of(operation, shape)
    yield Case("the smallest request", base)
    yield from _unknown(shape, base, (), "")
    for kind, value in JSON.items():
        if kind != "structure":
            yield Case(f"a body that is {kind}", value, SERIALIZATION)
    for node in nodes(shape):
        yield from _missing(shape, base, node)
        yield from _wrong_types(shape, base, node)
        yield from _broken(shape, base, node)
        yield from _allowed(operation, shape, base, node, coverage)


def _missing(shape, base, node):
    if node.path[-1] in (ITEM, KEY, VALUE):
        return
    there = changed(shape, base, node.path, minimal(node.shape))
    gone, null = without(shape, there, node.path), changed(shape, there, node.path, None)
    if node.required:
        where = wire_path(there, node.path)
        texts = (f"Value null at '{where}' failed to satisfy constraint: Member must not be null",)
        yield Case(f"{node.dotted} left out", gone, VALIDATION, texts, where)
        yield Case(f"{node.dotted} null", null, VALIDATION, texts, where)
    else:
        yield Case(f"{node.dotted} null", null, same_as=gone, code="same")


def _wrong_types(shape, base, node):
    if node.path[-1] == KEY:
        return
    there = changed(shape, base, node.path, minimal(node.shape))
    values = [(kind, value) for kind, value in JSON.items() if kind not in FITS[node.shape.type_name]]
    if node.path[-1] == ITEM:
        values.append(("null", None))
    for kind, value in values:
        request = changed(shape, there, node.path, value)
        yield Case(
            f"{node.dotted} of type {kind}",
            request,
            SERIALIZATION,
            (f"at '{wire_path(there, node.path)}'",),
        )


def _constraint_path(request, path):
    """Return where a broken constraint is reported: that of a list's or map's scalar, at the list or map."""
    return wire_path(request, path[:-1] if path[-1] in (ITEM, KEY, VALUE) else path)


def _broken(shape, base, node):
    for label, value, constraint in _breaks(node):
        request = changed(shape, base, node.path, value)
        where = _constraint_path(request, node.path)
        yield Case(f"{node.dotted} {label}", request, VALIDATION, (f"at '{where}'", constraint), where)
    if node.shape.type_name == "structure":
        there = changed(shape, base, node.path, minimal(node.shape))
        yield from _unknown(shape, there, node.path, node.dotted)


def _unknown(shape, there, path, dotted):
    extended = changed(shape, there, (*path, "NoSuchMember"), {"x": [1]}) if path else there | {"NoSuch": 1}
    yield Case(f"{dotted} with an unknown member", extended, same_as=there, code="same")


def _breaks(node):
    """Yield values that break one constraint, and its words."""
    shape, bounds = node.shape, node.shape.metadata
    least, most = bounds.get("min"), bounds.get("max")
    if bounds.get("enum"):
        for wrong in ("NO_SUCH_VALUE", bounds["enum"][0].swapcase(), ""):
            yield f"of value {wrong!r}", wrong, "Member must satisfy enum value set: ["
        return
    if shape.type_name in ("integer", "long", "float", "double"):
        if shape.name in CHOICES:
            yield "between its choices", 11, "Member must satisfy enum value set: [10, 30, 60, "
        if least is not None:
            yield "below its minimum", least - 1, f"value greater than or equal to {least}"
        if most is not None:
            yield "above its maximum", most + 1, f"value less than or equal to {most}"
        return
    if least:
        yield "too short", _wrong_length(shape, least - 1), f"length greater than or equal to {least}"
    if most is not None:
        yield "too long", _wrong_length(shape, most + 1), f"length less than or equal to {most}"
    if "pattern" in bounds and (bad := breaking(shape)) is not None:
        words = "Member must satisfy regular expression pattern: "
        yield f"of value {bad!r}", bad, words + ("" if node.name in OWN_PATTERNS else bounds["pattern"])


def _wrong_length(shape, length):
    try:
        return _of_length(shape, length)
    except LookupError:
        return "x" * length


def _of_length(shape, length):
    match shape.type_name:
        case "list":
            return items(shape, length)
        case "map":
            return entries(shape, length)
        case _:
            return text(shape, length=length)


def _allowed(operation, shape, base, node, coverage):
    """Yield values at the bounds; each is accepted, unless it means something that is not served."""
    for label, value in _limits(node.shape):
        request = repair(operation, node.path, changed(shape, base, node.path, value))
        texts, code = (), ""
        refused = refused_member(coverage, node.path)
        meaning = meaning_of(operation, node.dotted, value)
        if refused is not None and at(request, node.path[: node.path.index(refused) + 1]) not in ([], {}):
            texts, code = (f"{refused} of ", "is not supported by warmroute"), VALIDATION
        elif meaning is not None:
            texts, code = (meaning.text,), meaning.code
        yield Case(f"{node.dotted} {label}", request, code, texts)


def _limits(shape):
    bounds = shape.metadata
    least, most = bounds.get("min"), bounds.get("max")
    if bounds.get("enum"):
        yield from ((f"of value {value}", value) for value in bounds["enum"])
        return
    match shape.type_name:
        case "boolean":
            yield from (("true", True), ("false", False))
        case "integer" | "long" | "float" | "double":
            yield from ((f"of value {value}", value) for value in CHOICES.get(shape.name, ()))
            if least is not None:
                yield "at its minimum", least
            if most is not None:
                yield "at its maximum", most
        case "list" | "map" | "string":
            # A length that no string of the pattern has is no case.
            for words, length in (("as short as it may be", least), ("as long as it may be", most)):
                with suppress(LookupError):
                    if length:
                        yield words, _of_length(shape, length)
    yield "as small as it may be", minimal(shape)


def refused_member(coverage, path):
    """Return the first member of a path that is refused whatever its value; None for none."""
    row = coverage
    for step in path:
        if not isinstance(step, str) or step in (KEY, VALUE):
            continue
        member = row.members.get(step)
        if member is None or member.treatment is Treatment.REFUSED:
            return step
        if member.inside is None:
            return None
        row = member.inside
    return None


def difference(case, answer):
    """Return what is wrong with an answer; None for nothing."""
    if case.code == "":
        return None if answer.output is not None else f"{case.label}: refused: {answer.message}"
    if answer.output is not None:
        return f"{case.label}: accepted, wanted {case.code}"
    if (answer.code, answer.status) != (case.code, 400):
        return f"{case.label}: {answer.code} {answer.status}, wanted {case.code} 400: {answer.message}"
    missing = [text for text in case.texts if text not in answer.message]
    if missing:
        return f"{case.label}: the message lacks {missing}: {answer.message}"
    elsewhere = {found for found in re.findall(r"at '([^']*)' failed", answer.message) if found != case.alone}
    if case.alone is not None and elsewhere:
        return f"{case.label}: the message names {elsewhere} too: {answer.message}"
    return None
