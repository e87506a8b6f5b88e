"""Comparing documents of the API: fingerprints of content, and differences by place."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

JsonObject = dict[str, Any]

_NAMES: Final = ("VariantName", "Key", "Name", "ModelName")
"""Members that tell entries of a list apart; the first that every entry has."""
_SECRET: Final = re.compile(r"(?i)secret|passw|(^|[._-])(token|credentials?|(api|access)?key)$")
"""Names of environment variables whose values are not shown."""
HIDDEN: Final = "(hidden)"
SHOWN_CHARACTERS_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class Difference:
    """One place at which two documents differ.

    Attributes:
        path: Such as ``ProductionVariants[a].InitialInstanceCount``.
        before: As JSON; None where there was nothing.
        after: As JSON; None where there is nothing.
    """

    path: str
    before: str | None
    after: str | None


def fingerprint(*documents: object) -> str:
    """Return eight hexadecimal digits that equal content shares, whatever the order of its members."""
    text = json.dumps(documents, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def differences(
    before: object, after: object, *, defaults: Mapping[str, object] | None = None
) -> tuple[Difference, ...]:
    """Return where two documents differ, in the order of the second.

    Args:
        before: What there is.
        after: What is wanted.
        defaults: By the last member of a path: values that a server fills in by itself, which are no
            difference where ``after`` says nothing.

    Returns:
        Values of environment variables that look like secrets are not part of it.
    """
    old, new = (dict(_leaves(document, "")) if document else {} for document in (before, after))
    filled = defaults or {}
    found = []
    for path in [*new, *(path for path in old if path not in new)]:
        if path in old and path in new and old[path] == new[path]:
            continue
        name = path.rpartition(".")[2]
        if path not in new and name in filled and old[path] == filled[name]:
            continue
        found.append(Difference(path, _shown(path, old), _shown(path, new)))
    return tuple(found)


def is_secret(name: str) -> bool:
    """Return whether a variable's value should not be shown, by its name."""
    return _SECRET.search(name) is not None


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    match value:
        case dict() if value:
            for name, inner in value.items():
                yield from _leaves(inner, f"{path}.{name}" if path else name)
        case list() if value and all(isinstance(item, dict) for item in value):
            name = _name_of(value)
            for index, item in enumerate(value):
                label = item[name] if name is not None else index
                rest = {member: inner for member, inner in item.items() if member != name}
                yield from _leaves(rest, f"{path}[{label}]")
        case _:
            yield path, value


def _name_of(items: Sequence[JsonObject]) -> str | None:
    """Return the member that tells the entries of a list apart; None where none does."""
    for name in _NAMES:
        labels = {item[name] for item in items if isinstance(item.get(name), str)}
        if len(labels) == len(items):
            return name
    return None


def _shown(path: str, leaves: Mapping[str, object]) -> str | None:
    if path not in leaves:
        return None
    if ".Environment." in f".{path}" and is_secret(path.rpartition(".")[2]):
        return HIDDEN
    value = leaves[path]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, float) and value == int(value):
        text = str(int(value))
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…"
