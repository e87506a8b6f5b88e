"""Every member that a request can reach, and requests with one of them changed."""

import copy
from dataclasses import dataclass
from typing import Any

from tests.conformance.samples import minimal, text

ITEM = 0
"""A step into a list: its first item."""
VALUE = "<value>"
"""A step into a map: the value of its first entry."""
KEY = "<key>"
"""A step into a map: the key of its first entry."""


@dataclass(frozen=True)
class Node:
    """A member, an item of a list, or a key or value of a map.

    Attributes:
        path: Steps from the request: names of members, ``ITEM``, ``VALUE`` or ``KEY``.
        shape: Of botocore's.
        required: By the structure it is in.
    """

    path: tuple[Any, ...]
    shape: Any
    required: bool

    @property
    def name(self) -> str:
        """Of the member it is, or is in."""
        return next(step for step in reversed(self.path) if step not in (ITEM, VALUE, KEY))

    @property
    def dotted(self) -> str:
        """For people: ``ProductionVariants[].VariantName``."""
        out = ""
        for step in self.path:
            out += "[]" if step == ITEM else f".{step}"
        return out.removeprefix(".")


def nodes(shape, path=(), around=()):
    """Yield every node below a shape."""
    if shape.name in around:
        return
    around = (*around, shape.name)
    match shape.type_name:
        case "structure":
            for name, member in shape.members.items():
                yield Node((*path, name), member, name in shape.required_members)
                yield from nodes(member, (*path, name), around)
        case "list":
            yield Node((*path, ITEM), shape.member, required=False)
            yield from nodes(shape.member, (*path, ITEM), around)
        case "map":
            yield Node((*path, KEY), shape.key, required=False)
            yield Node((*path, VALUE), shape.value, required=False)


def changed(shape, request, path, value):
    """Return a copy of a request with a node set, and what is around it made as small as it may be."""
    request = copy.deepcopy(request)
    container = _reach(shape, request, path[:-1])
    match path[-1]:
        case 0:
            container[:] = [value]
        case "<value>":
            container[next(iter(container))] = value
        case "<key>":
            held = next(iter(container.values()))
            container.clear()
            container[value] = held
        case name:
            container[name] = value
    return request


def without(shape, request, path):
    """Return a copy of a request without a member."""
    request = copy.deepcopy(request)
    _reach(shape, request, path[:-1]).pop(path[-1], None)
    return request


def at(document, path):
    """Return what a document has there; None for nothing."""
    for step in path:
        if step == ITEM:
            document = document[0] if document else None
        elif step == VALUE:
            document = next(iter(document.values()), None) if document else None
        elif step == KEY:
            document = next(iter(document), None) if document else None
        else:
            document = document.get(step) if document else None
    return document


def wire_path(request, path):
    """Return how SageMaker's messages name a node: ``productionVariants.1.member.variantName``."""
    out = []
    document = request
    for step in path:
        if step == ITEM:
            out.append("1.member")
            document = document[0]
        elif step in (VALUE, KEY):
            out.append(str(next(iter(document))))
            document = None
        else:
            out.append(step[:1].lower() + step[1:])
            document = document.get(step) if isinstance(document, dict) else None
    return ".".join(out)


def _reach(shape, document, path):
    """Return what a path leads to; what is not there is made."""
    for step in path:
        if step == ITEM:
            if not document:
                document.append(minimal(shape.member))
            shape, document = shape.member, document[0]
        else:
            shape = shape.members[step]
            if document.get(step) is None:
                document[step] = minimal(shape)
            document = document[step]
    if shape.type_name == "map" and not document:
        document[text(shape.key)] = minimal(shape.value)
    return document
