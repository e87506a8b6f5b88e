"""Arithmetic over several metrics, as alarms and customized metrics spell it: ``errors / invocations * 100``.

Numbers, names of metrics, ``+ - * /``, parentheses, ``min(a, b, …)``, ``max(a, b, …)`` and
``fill(a, number)``, which takes the number where ``a`` is missing. What is computed from a missing value
is missing, and so is a division by zero.
"""

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

EXPRESSION_CHARACTERS_MAX: Final = 1024
"""Of one expression: CloudWatch's own bound, taken from MetricDataQuery.Expression."""
EXPRESSION_DEPTH_MAX: Final = 20
"""Operations inside one another; enough for whatever a person can read."""

_FUNCTIONS: Final = ("min", "max", "fill")
_ALLOWED: Final = "numbers, names of metrics, + - * /, parentheses, min(…), max(…) and fill(metric, number)"


class ExpressionError(ValueError):
    """An expression cannot be used; the text says why and what is allowed."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression.

    Attributes:
        text: As it was written.
        names: The metrics that it reads.
    """

    text: str
    names: frozenset[str]

    def value(self, values: Mapping[str, float | None]) -> float | None:
        """Return what it comes to.

        Args:
            values: Of every name; None for a missing one.

        Returns:
            A finite number, or None where it cannot be computed.
        """
        result = _compute(ast.parse(self.text, mode="eval").body, values)
        return result if result is not None and math.isfinite(result) else None


def parse(text: str, names: Iterable[str]) -> Expression:
    """Check an expression.

    Args:
        text: For example ``errors / invocations``.
        names: The metrics that it may read.

    Raises:
        ExpressionError: It is too long, not arithmetic, or reads what is not there.
    """
    known = frozenset(names)
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise ExpressionError(
            f"the expression has {len(text)} characters; at most {EXPRESSION_CHARACTERS_MAX} are allowed"
        )
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"the expression '{text}' cannot be read; allowed are {_ALLOWED}") from None
    used: set[str] = set()
    _check(tree, known, used, depth=0)
    if not used:
        raise ExpressionError(f"the expression '{text}' reads no metric; give at least one")
    return Expression(text, frozenset(used))


def _check(node: ast.expr, known: frozenset[str], used: set[str], *, depth: int) -> None:
    if depth > EXPRESSION_DEPTH_MAX:
        raise ExpressionError(f"the expression is more than {EXPRESSION_DEPTH_MAX} operations deep")
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return
        case ast.Name(id=name):
            if name not in known:
                raise ExpressionError(
                    f"the expression reads '{name}', which is not one of its metrics: "
                    f"{', '.join(sorted(known)) or 'there are none'}"
                )
            used.add(name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check(operand, known, used, depth=depth + 1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            _check(left, known, used, depth=depth + 1)
            _check(right, known, used, depth=depth + 1)
        case ast.Call(func=ast.Name(id=function), args=args, keywords=[]) if function in _FUNCTIONS:
            if len(args) < 1 or (function == "fill" and len(args) != 2):
                raise ExpressionError(
                    f"{function}() got {len(args)} values; fill takes two, the others one or more"
                )
            for argument in args:
                _check(argument, known, used, depth=depth + 1)
        case _:
            raise ExpressionError(
                f"'{ast.unparse(node)}' is not allowed in an expression; allowed are {_ALLOWED}"
            )


def _compute(node: ast.expr, values: Mapping[str, float | None]) -> float | None:
    match node:
        case ast.Name(id=name):
            return values[name]
        case ast.Constant(value=int() | float() as number):
            return float(number) if abs(number) < 1e300 else None
        case ast.UnaryOp(op=sign, operand=operand):
            inner = _compute(operand, values)
            return inner if inner is None or isinstance(sign, ast.UAdd) else -inner
        case ast.BinOp(left=left, op=operator, right=right):
            one, other = _compute(left, values), _compute(right, values)
            return None if one is None or other is None else _apply(operator, one, other)
        case ast.Call(func=ast.Name(id=function), args=args):
            return _call(function, [_compute(argument, values) for argument in args])
        case _:
            raise AssertionError(f"{ast.dump(node)} was refused by parse")


def _apply(operator: ast.operator, one: float, other: float) -> float | None:
    match operator:
        case ast.Add():
            return one + other
        case ast.Sub():
            return one - other
        case ast.Mult():
            return one * other
        case _:
            return one / other if other else None


def _call(function: str, values: list[float | None]) -> float | None:
    if function == "fill":
        return values[1] if values[0] is None else values[0]
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return None
    return min(present) if function == "min" else max(present)
