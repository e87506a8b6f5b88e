"""Values made from botocore's service model: smallest ones, ones at a bound, ones that break a rule."""

import re
from functools import cache
from re import _constants as ops
from re import _parser as parser

from warmroute.resources.patterns import translate

UNIQUE = {"Tag": "Key", "ProductionVariant": "VariantName", "DesiredWeightAndCapacity": "VariantName"}
"""Structures that a list may not hold twice, and the member that tells them apart."""
LEAST_OF = {"DestinationS3Uri": "s3://b", "ResourceArn": "arn:aws:sagemaker:us-east-1:000000000000:model/m"}


CHOICES = {"MetricPublishFrequencyInSeconds": (10, 30, 60, 120, 180, 240, 300)}
"""Numbers that only the text of the service model tells."""


def minimal(shape, number=1):
    """Return the smallest value of a shape: required members only.

    Args:
        shape: Of botocore's.
        number: Values for different numbers differ, where the shape allows it.
    """
    match shape.type_name:
        case "structure":
            return {name: minimal(shape.members[name], number) for name in shape.required_members}
        case "list":
            return items(shape, max(shape.metadata.get("min", 0), 1))
        case "map":
            return entries(shape, 1)
        case "boolean":
            return True
        case "timestamp":
            return 1_700_000_000 + number
        case "string":
            return text(shape, number=number)
        case kind:
            assert kind in ("integer", "long", "float", "double"), kind
            if shape.name in CHOICES:
                return CHOICES[shape.name][0]
            return shape.metadata.get("min", 1)


def items(shape, count):
    """Return a list of so many items that differ where they have to."""
    found = [minimal(shape.member, number) for number in range(1, count + 1)]
    unique = UNIQUE.get(shape.member.name)
    if unique is not None:
        for number, item in enumerate(found, 1):
            item[unique] = f"x{number}"
    return found


def entries(shape, count):
    """Return a map of so many entries."""
    return {f"{text(shape.key)}{number}": minimal(shape.value, number) for number in range(1, count + 1)}


def text(shape, number=1, length=None):
    """Return a string that a shape allows.

    Args:
        shape: A string.
        number: Which of its enum.
        length: Of this length; None for a short one.

    Raises:
        LookupError: No string of that length was found.
    """
    if shape.metadata.get("enum"):
        enum = shape.metadata["enum"]
        return enum[(number - 1) % len(enum)]
    pattern = shape.metadata.get("pattern")
    if length is None:
        if shape.name in LEAST_OF:
            return LEAST_OF[shape.name]
        least = max(shape.metadata.get("min", 0), 1)
        for size in range(least, 200):
            try:
                return text(shape, length=size)
            except LookupError:
                continue
    return "x" * length if pattern is None else matching(pattern, length)


BRANCH = "branch"
"""Beside the numbers of repeats: which alternative is written, everywhere."""
BRANCHES_MAX = 3


@cache
def matching(pattern, length):
    """Return a string of this length that a Java pattern matches whole.

    Raises:
        LookupError: None was found.
    """
    tree = list(parser.parse(translate(pattern), re.ASCII))
    compiled = re.compile(translate(pattern), re.ASCII)
    for branch in range(BRANCHES_MAX):
        around = []
        _number(tree, (), around, branch)
        for stretched in [None, *range(len(around))]:
            opened = dict.fromkeys(around[stretched] if stretched is not None else (), 1) | {BRANCH: branch}
            shortest, longer = (len(_write(tree, opened | {stretched: times}, [-1])) for times in (0, 1))
            times = (length - shortest) // (longer - shortest) if longer > shortest else 0
            found = _write(tree, opened | {stretched: max(times, 0)}, [-1])
            if len(found) == length and compiled.fullmatch(found):
                return found
    raise LookupError(f"{pattern} with {length} characters")


def _number(tree, above, around, branch):
    """Note, for each repeat of a pattern in the order they are written, the repeats around it."""
    for operation, argument in tree:
        if operation is ops.MAX_REPEAT:
            around.append(above)
            _number(argument[2], (*above, len(around) - 1), around, branch)
        elif operation is ops.SUBPATTERN:
            _number(argument[3], above, around, branch)
        elif operation is ops.BRANCH:
            _number(_chosen(argument, branch), above, around, branch)


def _chosen(argument, branch):
    """Return the alternative of that number, or the last one."""
    return argument[1][min(branch, len(argument[1]) - 1)]


def _write(tree, times, seen):
    """Write a match: every repeat as few times as it may be, or as many more as ``times`` says."""
    out = []
    for operation, argument in tree:
        match operation:
            case ops.LITERAL:
                out.append(chr(argument))
            case ops.IN:
                out.append(_member_of(argument))
            case ops.NOT_LITERAL | ops.ANY:
                out.append("x")
            case ops.SUBPATTERN:
                out.append(_write(argument[3], times, seen))
            case ops.BRANCH:
                out.append(_write(_chosen(argument, times[BRANCH]), times, seen))
            case ops.MAX_REPEAT:
                least, most, inner = argument
                seen[0] += 1
                before = seen[0]
                once = _write(inner, times, seen)
                out.append(once * min(least + times.get(before, 0), most))
            case ops.ASSERT | ops.ASSERT_NOT | ops.AT:
                pass
            case _:
                raise AssertionError(f"{operation} is new: write it")
    return "".join(out)


def _member_of(argument):
    if argument[0][0] is ops.NEGATE:
        return "x"
    for operation, value in argument:
        if operation is ops.RANGE and value[0] <= ord("x") <= value[1]:
            return "x"
    operation, value = argument[0]
    match operation:
        case ops.LITERAL:
            return chr(value)
        case ops.RANGE:
            return chr(value[0])
        case ops.CATEGORY:
            return "1" if value is ops.CATEGORY_DIGIT else "x"
    raise AssertionError(f"{operation} is new: write it")


def breaking(shape):
    """Return a string of an allowed length that the shape's pattern does not match; None if there is none."""
    pattern = shape.metadata["pattern"]
    compiled = re.compile(translate(pattern), re.ASCII)
    good = text(shape)
    most = shape.metadata.get("max", 2**31)
    for bad in (good + " !", " !", "é\n", good[:-1] + "\n", "\n", "!!!", "   ", "~" * len(good)):
        if shape.metadata.get("min", 0) <= len(bad) <= most and not compiled.fullmatch(bad):
            return bad
    return None
