"""Makes runs while a bar shows how far they are, and says what became of them."""

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from warmroute.app.simulate import Broken, Done, Job

EXIT_INTERRUPTED = 130


@dataclass(slots=True)
class Outcome:
    """What became of runs.

    Attributes:
        todo: How many there were to make.
        done: Those that ended well, in order of the jobs.
        broken: Those that did not.
        interrupted: Whether the user ended it.
    """

    todo: int
    done: "list[Done]" = field(default_factory=list)
    broken: "list[Broken]" = field(default_factory=list)
    interrupted: bool = False

    def tell(self) -> int:
        """Say what went wrong, and return the status to end with; 0 when nothing did."""
        for each in self.broken:
            click.echo(f"{each.error}\nwarmroute: a run failed; this command shows it again:", err=True)
            click.echo(f"  {each.job.command()}", err=True)
        if self.interrupted:
            click.echo(f"Interrupted; {len(self.done)} of {self.todo} runs were finished.", err=True)
            return EXIT_INTERRUPTED
        return 1 if self.broken else 0


def make(
    todo: "Sequence[Job]", *, processes: int, keep: "Callable[[Done], None]" = lambda _: None
) -> Outcome:
    """Make runs, until they are all made or the user has had enough.

    Args:
        todo: Checked ones.
        processes: How many run at the same time.
        keep: Is given every run that ended well, as soon as it is there.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from warmroute.app.simulate import Broken, in_order, run_all

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(),
    )  # fmt: skip
    outcome = Outcome(len(todo))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=len(todo))
        try:
            for result in run_all(todo, processes=processes):
                progress.advance(task)
                if isinstance(result, Broken):
                    outcome.broken.append(result)
                    continue
                keep(result)
                outcome.done.append(result)
                progress.update(task, description=f"{result.job.shown} {result.job.policy} done")
        except KeyboardInterrupt:
            outcome.interrupted = True
        except BrokenExecutor as broken:
            # There is a cause where a process lived, but what it sent could not be read.
            raise click.ClickException(
                f"what a process sent could not be read: {broken.__cause__}"
                if broken.__cause__
                else "a process was ended from outside, perhaps for want of memory; try fewer --jobs"
            ) from None
    outcome.done = in_order(outcome.done, todo)
    return outcome
