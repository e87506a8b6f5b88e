"""Text for a terminal: how wide it is, whether it has colours, and tables that fit it.

Written here and not taken from ``rich``, which is in an extra: the core install stays small.
"""

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click

GAP: Final = "  "
"""Between two columns."""
FLEXIBLE_MIN: Final = 12
"""A column that may be cut keeps at least so many characters."""
COLOURS: Final = {
    "InService": "green",
    "in_service": "green",
    "OK": "green",
    "Failed": "red",
    "UpdateRollbackFailed": "red",
    "ALARM": "red",
}
"""Of words for a state; every other one that is no good news yet is yellow."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its heading.
        right: Numbers stand at the right.
        flexible: It may be cut, with an ellipsis, where there is no room.
        optional: It may be left out where there is no room; those with the highest number go first, 0 stays.
        state: Its words are states and have colours.
    """

    title: str
    right: bool = False
    flexible: bool = False
    optional: int = 0
    state: bool = False


def width_of_terminal() -> int | None:
    """Return how many columns standard output has; None where nobody looks at it, as in a pipe.

    ``COLUMNS`` counts in either case.
    """
    if os.environ.get("COLUMNS", "").isdigit():
        return max(int(os.environ["COLUMNS"]), 20)
    return max(shutil.get_terminal_size().columns, 20) if sys.stdout.isatty() else None


def has_colours(environment: Mapping[str, str]) -> bool:
    """Return whether colours may be written: on a terminal, unless ``NO_COLOR`` or ``TERM=dumb`` says no.

    Source: https://no-color.org: the variable counts when it is set and not empty.
    """
    return sys.stdout.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def echo(text: str = "") -> None:
    """Write a line that may have colours, which are taken out where they do not belong."""
    click.echo(text, color=has_colours(os.environ))


def coloured(word: str) -> str:
    """Return a state's word in its colour."""
    return click.style(word, fg=COLOURS.get(word, "yellow")) if word.strip() else word


def plain(text: str) -> str:
    """Return a text of others fit for a terminal: on one line, without control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Return a text that takes at most ``width`` cells, an ellipsis at its end where it was cut."""
    if cells(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _cells(character)
        if used > width - 1:
            break
        kept += character
    return f"{kept}…"


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None,
    indent: str = "",
    notes: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines of a table.

    Columns in which nothing stands are left out. Where there is no room, flexible columns are cut first,
    then optional ones are left out; a table that still does not fit is not made to.

    Args:
        columns: In order.
        rows: A text for each column, on one line.
        width: Of the terminal; None for no bound.
        indent: Before every line.
        notes: For each row a text that stands whole below it, over several lines where it is long; ``""`` for
            none.
    """
    shown = [index for index in range(len(columns)) if not rows or any(row[index] for row in rows)]
    room = None if width is None else width - cells(indent)
    widths = _fit(columns, rows, shown, room)
    yield _line(
        [columns[index] for index in widths], [columns[index].title for index in widths], widths, indent
    )
    for number, row in enumerate(rows):
        yield _line([columns[index] for index in widths], [row[index] for index in widths], widths, indent)
        if number < len(notes) and notes[number]:
            yield from wrapped(notes[number], width=width, indent=f"{indent}    ")


def _fit(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], shown: list[int], room: int | None
) -> dict[int, int]:
    """Return the width of every column that is shown."""
    while True:
        widths = {
            index: max(cells(columns[index].title), *(cells(row[index]) for row in rows), 0)
            for index in shown
        }
        if room is None:
            return widths
        over = sum(widths.values()) + len(GAP) * (len(shown) - 1) - room
        for index in sorted(shown, key=lambda index: -widths[index]):
            if columns[index].flexible and over > 0:
                least = max(cells(columns[index].title), FLEXIBLE_MIN)
                taken = max(0, min(over, widths[index] - least))
                widths[index] -= taken
                over -= taken
        optional = [index for index in shown if columns[index].optional]
        if over <= 0 or not optional:
            return widths
        shown = [index for index in shown if index != max(optional, key=lambda i: columns[i].optional)]


def _line(columns: Sequence[Column], texts: Sequence[str], widths: Mapping[int, int], indent: str) -> str:
    parts = []
    for column, text, width in zip(columns, texts, widths.values(), strict=True):
        short = cut(text, width)
        space = " " * (width - cells(short))
        word = coloured(short) if column.state and text != column.title else short
        parts.append(space + word if column.right else word + space)
    return (indent + GAP.join(parts)).rstrip()


def wrapped(text: str, *, width: int | None, indent: str) -> list[str]:
    """Return a text on as many lines as it needs, each behind ``indent``."""
    if width is None:
        return [f"{indent}{text}"]
    return textwrap.wrap(text, max(width, len(indent) + 20), initial_indent=indent, subsequent_indent=indent)


def age(then_s: float, now_s: float) -> str:
    """Return the time between two moments in words for a column: ``42 s``, ``3 m``, ``7 h``, ``12 d``."""
    seconds = max(0.0, now_s - then_s)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 120 * 60:
        return f"{seconds / 60:.0f} m"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"


def moment(time_s: float) -> str:
    """Return a moment as ``2026-11-30 21:54:17 UTC``."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
