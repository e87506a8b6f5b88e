"""The part of a botocore service model that the operations served here can reach, as a small tree."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_NUMBERS = frozenset({"integer", "long", "float", "double"})


@dataclass(slots=True)
class Shape:
    """One shape; not frozen because shapes may contain themselves and are filled after they are made.

    Attributes:
        name: In the service model.
        kind: ``structure list map string integer long float double boolean timestamp blob``.
        members: Of a structure, by name.
        required: Names of the members that must be there.
        item: Of a list; the values of a map.
        key: Of a map.
        least: Smallest value of a number, length of the others; None for no bound.
        most: Likewise.
        pattern: Java regular expression, matched whole; None for none.
        enum: Allowed strings; empty for any.
        choices: Allowed numbers; empty for any.
    """

    name: str
    kind: str
    members: dict[str, "Shape"] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    item: "Shape | None" = None
    key: "Shape | None" = None
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    enum: tuple[str, ...] = ()
    choices: tuple[int, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether ``least`` and ``most`` bound a value and not a length."""
        return self.kind in _NUMBERS


@dataclass(frozen=True, slots=True)
class Schema:
    """What the served operations take and give.

    Attributes:
        inputs: By operation name.
        outputs: By operation name; operations without an output are absent.
        known: Every operation of the service, served or not.
    """

    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]
    known: frozenset[str]


CHOICES = {"MetricPublishFrequencyInSeconds": (10, 30, 60, 120, 180, 240, 300)}
"""Numbers that the model's text allows and its constraints do not tell."""
INSTANCE_TYPE_SHAPE = "ProductionVariantInstanceType"
FLOAT_MAX = 3.4028234663852886e38
"""The largest float of the wire type; the model states no bound for weights, whose sum must stay finite."""


def build_schema(
    model: Mapping[str, Any], operations: Iterable[str], instance_types: Iterable[str] = ()
) -> Schema:
    """Read a service model.

    Two things are added to SageMaker's own schema: the instance types that the operator declared, and
    ``file://`` beside ``s3://`` and ``https://`` for ModelDataUrl and ArtifactUrl, which is how a model on
    this machine is named.

    Args:
        model: ``service-2.json`` of botocore's ``sagemaker``, parsed.
        operations: Names of the operations to serve.
        instance_types: Allowed for InstanceType beside the model's enum.

    Returns:
        Inputs and outputs of the operations; the model itself is not kept.
    """
    made: dict[str, Shape] = {}

    def shape(name: str) -> Shape:
        if name in made:
            return made[name]
        raw = model["shapes"][name]
        built = Shape(
            name=name,
            kind=raw["type"],
            required=tuple(raw.get("required", ())),
            least=raw.get("min"),
            most=raw.get("max", FLOAT_MAX if raw["type"] == "float" else None),
            pattern=raw.get("pattern"),
            enum=tuple(raw.get("enum", ())),
            choices=CHOICES.get(name, ()),
        )
        made[name] = built
        for member, reference in raw.get("members", {}).items():
            built.members[member] = shape(reference["shape"])
        if "member" in raw:
            built.item = shape(raw["member"]["shape"])
        if "value" in raw:
            built.item = shape(raw["value"]["shape"])
            built.key = shape(raw["key"]["shape"])
        return built

    served = {name: model["operations"][name] for name in operations}
    inputs = {name: shape(raw["input"]["shape"]) for name, raw in served.items()}
    outputs = {name: shape(raw["output"]["shape"]) for name, raw in served.items() if "output" in raw}
    types = made.get(INSTANCE_TYPE_SHAPE)
    if types is not None:
        types.enum = tuple(dict.fromkeys((*types.enum, *instance_types)))
    _allow_files(made)
    return Schema(inputs=inputs, outputs=outputs, known=frozenset(model["operations"]))


def _allow_files(made: Mapping[str, Shape]) -> None:
    component = "InferenceComponentContainerSpecification"
    for name in ("ContainerDefinition", "S3ModelDataSource", component, f"{component}Summary"):
        container = made.get(name)
        for member in ("ModelDataUrl", "S3Uri", "ArtifactUrl"):
            if container is not None and member in container.members:
                container.members[member] = replace(
                    container.members[member], pattern="(https|s3|file)://(.+)"
                )
