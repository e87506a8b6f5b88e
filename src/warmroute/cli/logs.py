"""Logs of model servers, read through control piece by piece."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import click

from warmroute.cli.api import Api
from warmroute.cli.failure import CommandFailed, Refused

FOLLOW_S: Final = 0.5
"""Between two looks for what is new."""
LOOK_AGAIN: Final = 4
"""Looks between two questions for instances that are new."""


@dataclass(slots=True)
class _Log:
    """How far one log has been read."""

    end: int | None = None
    rest: str = ""
    ended: bool = False


@dataclass(slots=True)
class Reader:
    """Reads logs and writes their lines, each after the instance's id where there are several.

    Attributes:
        api: Of the server.
        write: Takes a line.
        prefixed: Whether lines say whose they are.
    """

    api: Api
    write: Callable[[str], None]
    prefixed: bool
    _logs: dict[str, _Log] = field(default_factory=dict)

    def begin(self, instance: str, lines: int) -> bool:
        """Write the last lines of a log; return whether there is one."""
        try:
            piece = self._ask(instance, None)
        except Refused as error:
            if "There is no log" in error.message:
                return False
            raise
        text = piece["Text"]
        if piece["Begin"] > 0:
            text = text.partition("\n")[2]  # the first line is only the end of one
        whole, _, rest = text.rpartition("\n")
        shown = whole.split("\n") if whole else []
        log = self._logs[instance] = _Log(piece["End"], rest, ended=piece["Ended"])
        for line in shown[max(0, len(shown) - lines) :]:
            self._line(instance, line)
        if log.ended:
            self._finish(instance, log)
        return True

    def go_on(self) -> bool:
        """Write what has come to every log since; return whether there was anything."""
        found = False
        for instance, log in self._logs.items():
            if log.ended:
                continue
            try:
                piece = self._ask(instance, log.end)
            except Refused:
                log.ended = True  # stopped, and its log with it
                self._finish(instance, log)
                continue
            if log.end is not None and piece["Begin"] < log.end:
                self._line(instance, "[warmroute: the log was cut]")
            found = found or bool(piece["Text"])
            log.end, log.ended = piece["End"], piece["Ended"] and piece["End"] >= piece["Size"]
            *whole, log.rest = (log.rest + piece["Text"]).split("\n")
            for line in whole:
                self._line(instance, line)
            if log.ended:
                self._finish(instance, log)
        return found

    def finish(self) -> None:
        """Write what is left of lines that have not ended."""
        for instance, log in self._logs.items():
            self._finish(instance, log)

    def knows(self, instance: str) -> bool:
        """Whether a log has been begun."""
        return instance in self._logs

    def _finish(self, instance: str, log: _Log) -> None:
        if log.rest:
            self._line(instance, log.rest)
            log.rest = ""

    def _ask(self, instance: str, begin: int | None) -> dict[str, Any]:
        request: dict[str, Any] = {"InstanceId": instance}
        if begin is not None:
            request["Begin"] = begin
        return self.api.call_operator("ReadLog", request)

    def _line(self, instance: str, line: str) -> None:
        self.write(f"{instance}  {line}" if self.prefixed else line)


def show_logs(
    api: Api,
    endpoint: str,
    *,
    instance: str | None,
    follow: bool,
    lines: int,
    component: str | None = None,
) -> None:
    """Print the logs of an endpoint's model servers.

    Args:
        api: Of the server.
        endpoint: Whose.
        instance: Only this one; it need not be in the records any more.
        follow: Go on until Ctrl-C, with instances that come later as well.
        lines: Last lines of each to begin with.
        component: Only copies of this inference component.

    Raises:
        CommandFailed: There is no log.
    """
    ids = [instance] if instance is not None else _instances(api, endpoint, component)
    reader = Reader(api, _print, prefixed=instance is None and (len(ids) > 1 or follow))
    begun = [reader.begin(one, lines) for one in ids]
    if not any(begun) and not (follow and instance is None):
        raise CommandFailed(_none(endpoint, instance, ids))
    try:
        looks = 0
        while follow:
            if not reader.go_on():
                time.sleep(FOLLOW_S)
                looks += 1
            if instance is None and looks >= LOOK_AGAIN:
                looks = 0
                for one in _instances(api, endpoint, component):
                    if not reader.knows(one):
                        reader.begin(one, lines)
    except KeyboardInterrupt:
        pass  # how following ends
    reader.finish()


def _instances(api: Api, endpoint: str, component: str | None) -> list[str]:
    document = api.call_operator("DescribeEndpoint", {"EndpointName": endpoint})
    return [
        one["InstanceId"]
        for one in document["Instances"]
        if not one.get("CarriesCopies") and component in (None, one.get("InferenceComponentName"))
    ]


def _none(endpoint: str, instance: str | None, ids: list[str]) -> str:
    if instance is None and not ids:
        return f"Endpoint {endpoint} has no instance, so there is no log."
    whose = f"instance {instance}" if instance is not None else f"the instances of endpoint {endpoint}"
    return (
        f"There is no log of {whose}: warmroute keeps logs of servers that it starts itself, while they run "
        "and after they ended by themselves."
    )


def _print(line: str) -> None:
    """Print a line; on a terminal without what would move the cursor, ring the bell or name its window."""
    if sys.stdout.isatty():
        bare = click.unstyle(line)
        line = "".join(character for character in bare if character.isprintable() or character == "\t")
    click.echo(line)
