"""The file of ``apply``: read, and held against the service models that the APIs are made from.

Its tables have the names that the API's own lists have, and its members are those of the API's requests:
``Models`` takes what CreateModel takes. Two things are its own: an endpoint has its configuration inside
it, without a name, and ``Name`` names the whole.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from warmroute.cli.apply.check import check
from warmroute.cli.failure import CommandFailed
from warmroute.resources.shapes import Shape, build_schema

JsonObject = dict[str, Any]

BYTES_MAX: Final = 1 << 20
"""Of the file; a thousand endpoints take less."""
MISTAKES_SHOWN_MAX: Final = 20
_SET_NAME: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,62}"

SAGEMAKER_TABLES: Final = {
    "Models": "CreateModel",
    "Endpoints": "CreateEndpoint",
    "InferenceComponents": "CreateInferenceComponent",
}
SCALING_TABLES: Final = {
    "ScalableTargets": "RegisterScalableTarget",
    "ScalingPolicies": "PutScalingPolicy",
    "ScheduledActions": "PutScheduledAction",
}
IDENTITIES: Final = {
    "Models": ("ModelName",),
    "Endpoints": ("EndpointName",),
    "InferenceComponents": ("InferenceComponentName",),
    "ScalableTargets": ("ResourceId", "ScalableDimension"),
    "ScalingPolicies": ("ResourceId", "ScalableDimension", "PolicyName"),
    "ScheduledActions": ("ResourceId", "ScalableDimension", "ScheduledActionName"),
}
"""Members that together may stand in one entry of a table only."""
DIMENSIONS: Final = {
    "endpoint/": "sagemaker:variant:DesiredInstanceCount",
    "inference-component/": "sagemaker:inference-component:DesiredCopyCount",
}
"""ScalableDimension by the form of a ResourceId, which it follows from."""
UPDATE_MEMBERS: Final = (
    "DeploymentConfig",
    "RetainAllVariantProperties",
    "ExcludeRetainedVariantProperties",
    "RetainDeploymentConfig",
)
"""Of an endpoint: passed on to UpdateEndpoint."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file describes, checked; every entry is a request of the API's.

    Attributes:
        name: Of the whole: what was made from it is marked with it.
        models: CreateModel's requests.
        endpoints: CreateEndpoint's, each with ``EndpointConfig`` and UpdateEndpoint's own members.
        components: CreateInferenceComponent's, with UpdateInferenceComponent's ``DeploymentConfig``.
        targets: RegisterScalableTarget's.
        policies: PutScalingPolicy's.
        actions: PutScheduledAction's.
    """

    name: str
    models: tuple[JsonObject, ...] = ()
    endpoints: tuple[JsonObject, ...] = ()
    components: tuple[JsonObject, ...] = ()
    targets: tuple[JsonObject, ...] = ()
    policies: tuple[JsonObject, ...] = ()
    actions: tuple[JsonObject, ...] = ()


class FileMistakes(CommandFailed):
    """A file says what is not allowed.

    Attributes:
        mistakes: One sentence each, with file and place.
    """

    def __init__(self, mistakes: list[str]) -> None:
        shown = mistakes[:MISTAKES_SHOWN_MAX]
        more = len(mistakes) - len(shown)
        super().__init__("; ".join(shown) + (f"; and {more} more" if more else ""))
        self.mistakes = mistakes


def read(path: Path) -> Wanted:
    """Return what a file describes.

    Raises:
        CommandFailed: It cannot be read; ``FileMistakes`` names every place that is wrong.
    """
    table = parse(path)
    checked, mistakes = check(file_shape(), table)
    if not mistakes:
        assert isinstance(checked, dict), "a structure is checked to a table"
        mistakes = _doubles(checked)
    if mistakes:
        raise FileMistakes([f"{path}: {mistake}" for mistake in mistakes])
    assert isinstance(checked, dict), "likewise"
    stem = re.sub(r"[^A-Za-z0-9._-]", "-", path.stem)[:63] or "apply"
    return Wanted(
        name=checked.get("Name", stem),
        models=tuple(checked.get("Models", ())),
        endpoints=tuple(checked.get("Endpoints", ())),
        components=tuple(checked.get("InferenceComponents", ())),
        targets=tuple(map(_scaling_defaults, checked.get("ScalableTargets", ()))),
        policies=tuple(map(_scaling_defaults, checked.get("ScalingPolicies", ()))),
        actions=tuple(map(_scaling_defaults, checked.get("ScheduledActions", ()))),
    )


def parse(path: Path) -> object:
    """Return a file's content: YAML where its name ends so, else TOML.

    Raises:
        CommandFailed: It cannot be read.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{path}: cannot be read: {error.strerror}") from None
    if len(raw) > BYTES_MAX:
        raise CommandFailed(f"{path}: has {len(raw)} bytes; at most {BYTES_MAX} are allowed")
    try:
        text = raw.decode()
        return _yaml(text) if path.suffix in (".yaml", ".yml") else tomllib.loads(text)
    except ImportError:
        raise CommandFailed(
            f"{path}: YAML needs PyYAML: pip install 'warmroute[yaml]', or write the file as TOML"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise CommandFailed(f"{path}: not valid TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{path}: not valid UTF-8: {error}") from None
    except RecursionError:
        raise CommandFailed(f"{path}: nested too deeply") from None
    except _YamlMistake as error:
        raise CommandFailed(f"{path}: not valid YAML: {error}") from None


class _YamlMistake(Exception):  # noqa: N818  (told of as a CommandFailed)
    """A text is no YAML, or has a key twice."""


def _yaml(text: str) -> object:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses a key that stands twice, of which YAML would take the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT002  (yaml's own)
            seen = set()
            for key_node, _ in node.value:
                key = str(key_node.value)
                if key in seen and key != "<<":
                    raise _YamlMistake(f"{key} stands twice, again in line {key_node.start_mark.line + 1}")
                seen.add(key)
            return super().construct_mapping(node, deep=deep)

    loader = Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {})
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _YamlMistake(" ".join(str(error).split())) from None
    finally:
        loader.dispose()


def _count(node: Any, counts: dict[int, int]) -> int:
    """Return how many values a node of YAML stands for, those behind its aliases each time they stand.

    Raises:
        _YamlMistake: It has itself within it, or there are more than a file without aliases can have.
    """
    known = counts.get(id(node))
    if known == 0:
        raise _YamlMistake(f"what begins in line {node.start_mark.line + 1} has itself within it")
    if known is not None:
        return known
    counts[id(node)] = 0
    count = 1
    if not isinstance(node.value, str):
        for inner in node.value:  # a list has nodes, a table pairs of them
            for each in inner if isinstance(inner, tuple) else (inner,):
                count += _count(each, counts)
    if count > BYTES_MAX:
        raise _YamlMistake(f"its aliases make more than {BYTES_MAX} values of it")
    counts[id(node)] = count
    return count


# --- What is allowed -----------------------------------------------------------------------------


def file_shape() -> Shape:
    """Return what a file may hold. Cost: about 0.4 s, for botocore's models."""
    from botocore.loaders import Loader

    loader = Loader()
    operations = (
        *SAGEMAKER_TABLES.values(),
        "CreateEndpointConfig",
        "UpdateEndpoint",
        "UpdateInferenceComponent",
    )
    sagemaker = build_schema(loader.load_service_model("sagemaker", "service-2"), operations)
    scaling = build_schema(
        loader.load_service_model("application-autoscaling", "service-2"), SCALING_TABLES.values()
    )
    tables = {name: sagemaker.inputs[operation] for name, operation in SAGEMAKER_TABLES.items()}
    tables["Endpoints"] = _endpoint_shape(sagemaker.inputs)
    tables["InferenceComponents"] = _with(
        tables["InferenceComponents"],
        {"DeploymentConfig": sagemaker.inputs["UpdateInferenceComponent"].members["DeploymentConfig"]},
    )
    for name, operation in SCALING_TABLES.items():
        shape = scaling.inputs[operation]
        derived = ("ServiceNamespace", "ScalableDimension")
        tables[name] = replace(shape, required=tuple(one for one in shape.required if one not in derived))
    members = {name: Shape(name, "list", item=shape) for name, shape in tables.items()}
    named = Shape("Name", "string", pattern=_SET_NAME)
    return Shape("File", "structure", members={"Name": named, **members})


def _endpoint_shape(inputs: Mapping[str, Shape]) -> Shape:
    config = inputs["CreateEndpointConfig"]
    endpoint = inputs["CreateEndpoint"]
    updates = {name: inputs["UpdateEndpoint"].members[name] for name in UPDATE_MEMBERS}
    shape = _with(endpoint, {"EndpointConfig": _without(config, "EndpointConfigName"), **updates})
    shape = _without(shape, "EndpointConfigName")
    return replace(shape, required=("EndpointName", "EndpointConfig"))


def _with(shape: Shape, members: Mapping[str, Shape]) -> Shape:
    return replace(shape, members={**shape.members, **members})


def _without(shape: Shape, member: str) -> Shape:
    members = {name: inner for name, inner in shape.members.items() if name != member}
    return replace(shape, members=members, required=tuple(n for n in shape.required if n != member))


# --- What no schema says -------------------------------------------------------------------------


def _doubles(table: JsonObject) -> list[str]:
    """Return a sentence for every entry that names what another one names already."""
    found = []
    for name, members in IDENTITIES.items():
        seen: dict[tuple[str, ...], int] = {}
        for index, entry in enumerate(table.get(name, ())):
            identity = tuple(str(entry.get(member, "")) for member in members)
            if identity in seen:
                words = " ".join(filter(None, identity))
                found.append(f"{name}[{index}]: {words} stands in {name}[{seen[identity]}] already")
            seen[identity] = index
    return found


def _scaling_defaults(entry: JsonObject) -> JsonObject:
    """Fill in what follows from the resource id."""
    filled = {"ServiceNamespace": "sagemaker", **entry}
    for prefix, dimension in DIMENSIONS.items():
        if entry["ResourceId"].startswith(prefix):
            filled.setdefault("ScalableDimension", dimension)
    return filled
