"""What warmroute does with each member of each request: honour it, store it, or refuse it.

The rows themselves are in ``coverage_rows``; a test holds each of them against SageMaker's service model
and against what the operations really do, and ``docs/reference/sagemaker-operations.md`` is written from
them. A member without a row is refused, so that nothing is ever ignored silently: a newer service model
brings newer members by itself, and those wait until somebody has decided about them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from warmroute.resources.errors import unsupported


class Treatment(StrEnum):
    """What becomes of a member."""

    HONOURED = "honoured"
    """It changes what warmroute does or answers."""
    STORED = "stored"
    """It changes nothing on one's own machines; a Describe returns it as it was given."""
    REFUSED = "refused"
    """A request that has it is refused, with what to send instead."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a structure.

    Attributes:
        treatment: What becomes of it.
        text: Of a refused one: what to send instead. Of the others: what the reference says beside.
        inside: Rows of its own members, or of those of its items; None when all are treated alike.
    """

    treatment: Treatment
    text: str = ""
    inside: "Structure | None" = None


@dataclass(frozen=True, slots=True)
class Structure:
    """The rows of one structure of the service model.

    Attributes:
        members: By name.
        noun: What a message calls it: ``variant``; ``""`` for what its surroundings are called.
        named_by: Member whose value a message quotes; ``""`` for none.
    """

    members: Mapping[str, Member]
    noun: str = ""
    named_by: str = ""


Inside = Mapping[str, Structure]


def structure(
    *,
    honoured: Iterable[str] = (),
    stored: Iterable[str] = (),
    refused: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    inside: Inside | None = None,
    noun: str = "",
    named_by: str = "",
) -> Structure:
    """Write down a structure.

    Args:
        honoured: Members that are honoured.
        stored: Members that are stored and returned.
        refused: Members that are refused, each with what to send instead.
        notes: What the reference says beside a member.
        inside: Rows of structures below.
        noun: See ``Structure``.
        named_by: See ``Structure``.
    """
    notes, inside = notes or {}, inside or {}
    treatments = dict.fromkeys(honoured, Treatment.HONOURED) | dict.fromkeys(stored, Treatment.STORED)
    members = {
        name: Member(treatment, notes.get(name, ""), inside.get(name))
        for name, treatment in treatments.items()
    }
    members |= {name: Member(Treatment.REFUSED, text) for name, text in (refused or {}).items()}
    return Structure(members, noun, named_by)


@dataclass(slots=True)
class _Walk:
    """Where a walk through a request is, in a message's words."""

    where: str = field(default="the request")

    def into(self, row: Structure, document: Mapping[str, Any]) -> "_Walk":
        if not row.noun:
            return self
        name = document.get(row.named_by)
        return _Walk(f'{row.noun} "{name}"' if name is not None else f"{row.noun} of {self.where}")


def check_coverage(row: Structure, request: Mapping[str, Any]) -> None:
    """Refuse members that are neither honoured nor without meaning here.

    Empty values ask for nothing and pass.

    Args:
        row: Of the operation.
        request: The validated request.

    Raises:
        ApiError: ``ValidationException`` that names the first such member and says what to send instead.
    """
    _check(row, request, _Walk().into(row, request))


def _check(row: Structure, document: Mapping[str, Any], walk: _Walk) -> None:
    for name, value in document.items():
        member = row.members.get(name)
        if member is None or member.treatment is Treatment.REFUSED:
            if value is not None and value is not False and value not in ([], {}):
                raise unsupported(
                    f"{name} of {walk.where}", member.text if member is not None else "Leave it out."
                )
        elif member.inside is not None:
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Mapping):
                    _check(member.inside, item, walk.into(member.inside, item))
