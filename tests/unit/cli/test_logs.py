import sys

import pytest

from tests.unit.cli.scripted import ScriptedApi, endpoint_document, instance
from warmroute.cli import logs
from warmroute.cli.failure import CommandFailed, Refused
from warmroute.cli.logs import Reader, show_logs


class Server(ScriptedApi):
    """Has logs that grow."""

    def __init__(self, instances=(), piece_max=1000, **texts):
        super().__init__(
            Warmroute_DescribeEndpoint=endpoint_document(instances=instances), Warmroute_ReadLog=self.read
        )
        self.texts = {name.replace("_", "-"): text for name, text in texts.items()}
        self.ended = set()
        self.piece_max = piece_max

    def read(self, members):
        name = members["InstanceId"]
        if name not in self.texts:
            return Refused("ValidationException", f'There is no log of instance "{name}" here.')
        text = self.texts[name]
        begin = members.get("Begin")
        begin = max(0, len(text) - self.piece_max) if begin is None else begin if begin <= len(text) else 0
        end = min(len(text), begin + self.piece_max)
        return {
            "InstanceId": name,
            "Text": text[begin:end],
            "Begin": begin,
            "End": end,
            "Size": len(text),
            "Ended": name in self.ended,
        }


def reader(server, *, prefixed=False):
    lines = []
    return Reader(server, lines.append, prefixed), lines


def test_the_last_lines_come_first_and_then_what_is_new():
    server = Server(i_1="one\ntwo\nthree\nfo")
    read, lines = reader(server)
    assert read.begin("i-1", 2)
    assert lines == ["two", "three"]
    server.texts["i-1"] += "ur\nfive"
    assert read.go_on()
    assert not read.go_on()
    assert lines[2:] == ["four"]
    read.finish()
    assert lines[3:] == ["five"]


def test_no_lines_may_be_asked_for():
    read, lines = reader(Server(i_1="one\n"))
    assert read.begin("i-1", 0)
    assert lines == []


def test_a_line_of_which_only_the_end_was_read_is_left_out():
    read, lines = reader(Server(i_1="a long line\nshort\n", piece_max=10))
    read.begin("i-1", 10)
    assert lines == ["short"]


def test_a_log_that_was_cut_is_said_and_read_from_its_beginning():
    server = Server(i_1="old\nold\n")
    read, lines = reader(server)
    read.begin("i-1", 0)
    server.texts["i-1"] = "new\n"
    read.go_on()
    assert lines == ["[warmroute: the log was cut]", "new"]


def test_an_instance_that_ended_is_read_to_its_end_and_left_alone():
    server = Server(i_1="a\n")
    read, lines = reader(server, prefixed=True)
    read.begin("i-1", 10)
    server.texts["i-1"] += "last words"
    server.ended.add("i-1")
    read.go_on()
    asked = len(server.calls)
    assert not read.go_on()
    assert len(server.calls) == asked
    assert lines == ["i-1  a", "i-1  last words"]


def test_an_instance_that_is_gone_is_left_alone():
    server = Server(i_1="a\nb")
    read, lines = reader(server)
    read.begin("i-1", 10)
    del server.texts["i-1"]
    read.go_on()
    read.go_on()
    assert lines == ["a", "b"]


def test_other_refusals_are_told():
    with pytest.raises(Refused, match="boom"):
        reader(ScriptedApi(Warmroute_ReadLog=Refused("X", "boom")))[0].begin("i-1", 1)


TWO = [instance(1), instance(2, InferenceComponentName="c"), instance(3, CarriesCopies=True)]
TEXTS = {"i_000000000001": "a\n", "i_000000000002": "b\n", "i_000000000003": "never\n"}


def shown(server, capsys, **given):
    given = {"instance": None, "follow": False, "lines": 10} | given
    show_logs(server, "chat", **given)
    return capsys.readouterr().out.splitlines()


def test_several_instances_say_whose_line_it_is(capsys):
    assert shown(Server(TWO, **TEXTS), capsys) == ["i-000000000001  a", "i-000000000002  b"]


def test_one_instance_or_one_component_can_be_asked_for(capsys):
    assert shown(Server(TWO, **TEXTS), capsys, instance="i-000000000002") == ["b"]
    assert shown(Server(TWO, **TEXTS), capsys, component="c") == ["b"]


@pytest.mark.parametrize(
    ("instances", "given", "text"),
    [
        ([], {}, "Endpoint chat has no instance"),
        (
            [instance(1)],
            {},
            "There is no log of the instances of endpoint chat: warmroute keeps logs of servers",
        ),
        ([], {"instance": "i-9"}, "There is no log of instance i-9"),
        ([], {"instance": "i-9", "follow": True}, "There is no log of instance i-9"),
    ],
)
def test_no_log_is_said(capsys, instances, given, text):
    with pytest.raises(CommandFailed, match=text):
        shown(Server(instances), capsys, **given)


def test_following_goes_on_with_instances_that_come_later_until_ctrl_c(capsys, monkeypatch):
    server = Server([instance(1)], **TEXTS)
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            server.answers["Warmroute_DescribeEndpoint"] = endpoint_document(instances=TWO)
        if len(slept) == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(logs.time, "sleep", sleep)
    assert shown(server, capsys, follow=True) == ["i-000000000001  a", "i-000000000002  b"]


def test_a_terminal_is_kept_from_control_characters(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert shown(Server([instance(1)], i_000000000001="\x1b[31mred\x1b[0m\x1b]0;t\x07\tx\n"), capsys) == [
        "red]0;t\tx"
    ]
