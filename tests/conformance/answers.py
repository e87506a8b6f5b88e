"""Answers held to the service model: what is required is there, and nothing that SageMaker does not have."""

import re

import msgspec
from botocore.parsers import create_parser

from warmroute.resources.patterns import compile_java

JSON_TYPES = {
    "string": str, "integer": int, "long": int, "float": (int, float), "double": (int, float),
    "boolean": bool, "timestamp": (int, float), "structure": dict, "map": dict, "list": list,
}  # fmt: skip


def flaws(operation_model, output):
    """Return what is wrong with an output, as sentences; none when it is right."""
    shape = operation_model.output_shape
    if shape is None:
        return [] if output == {} else [f"{operation_model.name} has no output, and got {output}"]
    out = []
    _look(shape, output, operation_model.name, out)
    out += _parsed(shape, output)
    return out


def _parsed(shape, output):
    """Read an output with botocore's own parser, as boto3 does."""
    response = {"status_code": 200, "headers": {}, "body": msgspec.json.encode(output)}
    parsed = create_parser("json").parse(response, shape)
    lost = set(output) - set(parsed)
    return [f"botocore does not see {', '.join(sorted(lost))}"] if lost else []


def _look(shape, value, path, out):
    wanted = JSON_TYPES[shape.type_name]
    if not isinstance(value, wanted) or (isinstance(value, bool) and shape.type_name != "boolean"):
        out.append(f"{path} is {value!r}, not a {shape.type_name}")
        return
    match shape.type_name:
        case "structure":
            out += [f"{path} lacks {name}" for name in shape.required_members if name not in value]
            out += [f"{path} has {name}, which the model has not" for name in set(value) - set(shape.members)]
            for name in set(value) & set(shape.members):
                _look(shape.members[name], value[name], f"{path}.{name}", out)
        case "list":
            for item in value:
                _look(shape.member, item, f"{path}[]", out)
        case "map":
            for key, item in value.items():
                _look(shape.key, key, f"{path} key", out)
                _look(shape.value, item, f"{path}.{key}", out)
    out += [f"{path} is {value!r}: {text}" for text in _bounds(shape, value)]


def _bounds(shape, value):
    bounds = shape.metadata
    if shape.type_name in ("structure", "boolean", "timestamp"):
        return
    size = value if isinstance(value, int | float) else len(value)
    if size < bounds.get("min", size):
        yield f"below {bounds['min']}"
    if size > bounds.get("max", size):
        yield f"above {bounds['max']}"
    if isinstance(value, str):
        if bounds.get("enum") and value not in bounds["enum"]:
            yield "not one of the enum"
        pattern = bounds.get("pattern")
        if pattern and not compile_java(pattern).fullmatch(value) and not re.match("file://", value):
            yield f"does not match {pattern}"
