import io
import sys

import click
import pytest

from warmroute.cli import terminal
from warmroute.cli.terminal import Column, age, cells, cut, moment, plain, table

COLUMNS = (
    Column("NAME", flexible=True),
    Column("STATE", state=True),
    Column("N", right=True),
    Column("URL", optional=1),
    Column("NOTE", optional=2),
)
ROWS = (
    ("a-long-name-of-an-endpoint", "InService", "2", "http://127.0.0.1:1", "a note"),
    ("b", "Failed", "12", "", ""),
)


def lines(width):
    return [click.unstyle(line) for line in table(COLUMNS, ROWS, width=width)]


def test_a_table_with_room_shows_everything():
    assert lines(None) == [
        "NAME                        STATE       N  URL                 NOTE",
        "a-long-name-of-an-endpoint  InService   2  http://127.0.0.1:1  a note",
        "b                           Failed     12",
    ]


def test_without_room_flexible_columns_are_cut_before_others_are_left_out():
    assert lines(60) == [
        "NAME               STATE       N  URL                 NOTE",
        "a-long-name-of-a…  InService   2  http://127.0.0.1:1  a note",
        "b                  Failed     12",
    ]
    assert lines(40) == [
        "NAME                       STATE       N",
        "a-long-name-of-an-endpoi…  InService   2",
        "b                          Failed     12",
    ]


@pytest.mark.parametrize("width", range(27, 90))
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(cells, lines(width))) <= width


def test_a_table_that_cannot_fit_is_shown_all_the_same():
    assert lines(20)[2].startswith("b")


def test_columns_in_which_nothing_stands_are_left_out():
    shown = list(table(COLUMNS, [("a", "", "1", "", "")], width=None))
    assert shown == ["NAME  N", "a     1"]
    assert list(table(COLUMNS[:2], [], width=None, indent="  ")) == ["  NAME  STATE"]


def test_states_have_colours_and_headings_have_none():
    shown = list(
        table((Column("STATE", state=True),), [("InService",), ("Failed",), ("Updating",)], width=None)
    )
    assert shown[0] == "STATE"
    assert shown[1:] == [
        click.style("InService", fg="green"),
        click.style("Failed", fg="red"),
        click.style("Updating", fg="yellow"),
    ]


def test_characters_that_take_two_cells_or_none_are_counted_so():
    assert cells("a日本") == 5
    assert cells("e\N{COMBINING ACUTE ACCENT}") == 1
    assert cut("日本語", 5) == "日本…"
    assert cut("日本語", 6) == "日本語"


def test_text_of_others_is_one_line_without_control_characters():
    assert plain("a\n\x1b[31mb\x07\tc") == "a [31mb c"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (119.4, "119 s"),
        (120, "2 m"),
        (7199, "120 m"),
        (7200, "2 h"),
        (172800, "2 d"),
    ],
)
def test_ages(seconds, text):
    assert age(1000.0, 1000.0 + seconds) == text


def test_a_moment_is_in_utc():
    assert moment(1796075657) == "2026-11-30 21:54:17 UTC"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_are_for_terminals_and_no_color_is_obeyed(monkeypatch):
    assert not terminal.has_colours({})
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert terminal.has_colours({"NO_COLOR": ""})
    assert not terminal.has_colours({"NO_COLOR": "1"})
    assert not terminal.has_colours({"TERM": "dumb"})


def test_lines_lose_their_colours_where_they_do_not_belong(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.echo(click.style("x", fg="red"))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    terminal.echo(click.style("x", fg="red"))
    assert shown.getvalue() == "x\n\x1b[31mx\x1b[0m\n"


def test_a_pipe_has_no_width_unless_columns_says_one(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert terminal.width_of_terminal() is None
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert terminal.width_of_terminal() == 80
    monkeypatch.setenv("COLUMNS", "5")
    assert terminal.width_of_terminal() == 20
    monkeypatch.setenv("COLUMNS", "140")
    assert terminal.width_of_terminal() == 140
