r"""Java regular expressions of the service model, as Python ones.

The service model's patterns are java.util.regex and are matched against the whole value. Differences
that matter: ``\p{..}`` classes, ``.`` that stops at five line terminators, ASCII-only ``\d \w \s``,
``\z`` for the very end.

Source: java.util.regex.Pattern's documentation.
"""

import re
import sys
import unicodedata
from functools import cache

_POSIX = {
    "Alnum": "0-9A-Za-z",
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Lower": "a-z",
    "Upper": "A-Z",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Space": " \\t\\n\\x0b\\f\\r",
    "XDigit": "0-9A-Fa-f",
    "ASCII": "\\x00-\\x7f",
}
_DOT = "[^\\n\\r\\u0085\\u2028\\u2029]"
_ANCHORS = {"z": "\\Z", "Z": "(?=\\n?\\Z)"}
_PAIR = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
"""Two UTF-16 units that Java reads as one character."""


@cache
def _category_ranges(category: str) -> str:
    """Return the body of a character class that holds every code point of a general category.

    Cost: about 0.1 s and a few kilobytes, once per category and process; only tags use them.
    """
    ranges: list[str] = []
    first: int | None = None
    for point in range(sys.maxunicode + 2):
        inside = point <= sys.maxunicode and unicodedata.category(chr(point)).startswith(category)
        if inside and first is None:
            first = point
        elif not inside and first is not None:
            ranges.append(f"\\U{first:08x}-\\U{point - 1:08x}")
            first = None
    return "".join(ranges)


def _property(name: str) -> str:
    """Return the body of a character class for a property."""
    return _POSIX.get(name) or _category_ranges(name.removeprefix("Is"))


def translate(pattern: str) -> str:
    """Write a Java pattern as a Python one.

    Args:
        pattern: As in the service model.

    Returns:
        A pattern for ``re.compile(…, re.ASCII)``.

    Raises:
        ValueError: It uses a construct that no pattern of the model used so far.
    """
    out: list[str] = []
    depth = 0
    at = 0
    pattern = _PAIR.sub(_joined, pattern)
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            if at + 1 == len(pattern):
                raise ValueError(f"pattern {pattern!r} ends in a backslash")
            escaped = pattern[at + 1]
            at += 2
            if escaped in "pP":
                close = pattern.find("}", at)
                if pattern[at : at + 1] != "{" or close < 0:
                    raise ValueError(f"pattern {pattern!r}: \\{escaped} without braces")
                out.append(_spell_property(pattern[at + 1 : close], negated=escaped == "P", inside=depth > 0))
                at = close + 1
            else:
                out.append(_ANCHORS.get(escaped, "\\" + escaped) if depth == 0 else "\\" + escaped)
            continue
        if character == "[":
            if depth:
                raise ValueError(f"pattern {pattern!r} nests character classes")
            depth = 1
        elif character == "]" and depth:
            depth = 0
        out.append(_DOT if character == "." and not depth else character)
        at += 1
    return "".join(out)


def _joined(pair: re.Match[str]) -> str:
    high, low = int(pair[1], 16), int(pair[2], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _spell_property(name: str, *, negated: bool, inside: bool) -> str:
    body = _property(name)
    if inside:
        if negated:
            raise ValueError(f"\\P{{{name}}} inside a character class")
        return body
    return f"[^{body}]" if negated else f"[{body}]"


@cache
def compile_java(pattern: str) -> re.Pattern[str]:
    """Compile a Java pattern; use ``fullmatch`` on the result.

    Raises:
        ValueError: See ``translate``.
        re.error: Python cannot read the translation.
    """
    return re.compile(translate(pattern), re.ASCII)
