"""Write the reference of the operations from the rows of ``coverage`` and the service models."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from warmroute.adapters.service_model import read_model
from warmroute.resources.coverage.rows import COVERAGE, DECIDED_WITH
from warmroute.resources.coverage.scaling_rows import SCALING_COVERAGE
from warmroute.resources.coverage.tables import Member, Structure, Treatment
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.scaling.operations import SCALING_OPERATIONS

_HEAD = f"""\
# Operations of SageMaker and of Application Auto Scaling

<!-- Written by `warmroute config reference operations`. Change resources/coverage_*.py instead. -->

Every operation of AWS that the control API serves, member by member, as of the service model of botocore
{DECIDED_WITH}. What that model requires and allows (types, bounds, patterns, enums) is checked for every
member, also for those that are only stored.

- **honoured**: it changes what warmroute does or answers.
- **stored**: it changes nothing on one's own machines; Describe returns it as it was given.
- **refused**: a request that has it gets a `ValidationException` that names it and says what to send instead.
  Empty lists, empty structures and `false` ask for nothing and pass.

A member that a later service model adds is refused until somebody has decided about it. Members that no
service model has are ignored, as AWS does.

## SageMaker
"""
_OTHERS = """
### Operations that are not served

They are answered with `UnknownOperationException`, HTTP 404, and a message that begins with
`Operation NAME is not supported by warmroute.`

"""
_SCALING = """
## Application Auto Scaling

`POST /` with `X-Amz-Target: AnyScaleFrontendService.<Operation>`.
"""
_WIDTH: Final = 110


def markdown() -> str:
    """Return the reference as one Markdown page."""
    model, scaling = read_model("sagemaker"), read_model("application-autoscaling")
    return (
        _HEAD
        + served_part(model, COVERAGE, OPERATIONS)
        + _OTHERS
        + _others(model, OPERATIONS)
        + _SCALING
        + served_part(scaling, SCALING_COVERAGE, SCALING_OPERATIONS)
        + f"\nNot served: {_others(scaling, SCALING_OPERATIONS)}"
    )


def served_part(model: Mapping[str, Any], rows: Mapping[str, Structure], operations: Collection[str]) -> str:
    """Return the sections of the operations that are served.

    Args:
        model: A service model of botocore's, parsed.
        rows: Of the operations, by name.
        operations: Their names, in the order of the sections.
    """
    return "".join(_section(model, name, rows[name]) for name in operations)


def _section(model: Mapping[str, Any], operation: str, row: Structure) -> str:
    lines = [f"\n### {operation}\n", "| member | treatment | notes |", "|---|---|---|"]
    shape = model["operations"][operation]["input"]["shape"]
    lines += _Rows(model).of(row, shape, "")
    return "\n".join(lines) + "\n"


class _Rows:
    """The lines of one table; what was written once is referred to."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        self._shapes = model["shapes"]
        self._written: dict[int, str] = {}

    def of(self, row: Structure, shape: str, prefix: str) -> Iterator[str]:
        """Yield the lines of a structure's members, in the service model's order."""
        members = self._shapes[shape]["members"]
        for name in [member for member in members if member in row.members]:
            member = row.members[name]
            required = name in self._shapes[shape].get("required", ())
            below, is_list = self._below(members[name]["shape"])
            path = f"{prefix}{name}{'[]' if is_list else ''}"
            note = self._note(member, below)
            yield f"| `{path}`{', required' if required else ''} | {member.treatment} | {note} |"
            if member.inside is not None and below is not None and id(member.inside) not in self._written:
                self._written[id(member.inside)] = path
                yield from self.of(member.inside, below, f"{path}.")

    def _below(self, shape: str) -> tuple[str | None, bool]:
        """Return the structure that a member holds, itself or in a list; and whether it is a list."""
        raw = self._shapes[shape]
        is_list = raw["type"] == "list"
        if is_list:
            shape = raw["member"]["shape"]
            raw = self._shapes[shape]
        return (shape if raw["type"] == "structure" else None), is_list

    def _note(self, member: Member, below: str | None) -> str:
        texts = [member.text] if member.text else []
        if member.inside is not None and id(member.inside) in self._written:
            texts.append(f"members as those of `{self._written[id(member.inside)]}`")
        elif member.inside is None and below is not None and member.treatment is not Treatment.REFUSED:
            texts.append("with everything in it")
        return "; ".join(texts)


def _others(model: Mapping[str, Any], operations: Collection[str]) -> str:
    """Return the names of the others, a paragraph of lines that are not too long."""
    lines = [""]
    for name in sorted(set(model["operations"]) - set(operations)):
        if len(lines[-1]) + len(name) + 2 > _WIDTH:
            lines.append("")
        lines[-1] += f" {name}," if lines[-1] else f"{name},"
    return "\n".join(lines).rstrip(",") + ".\n"
