"""The plan of ``apply``: every change in the order in which it is made, and how it is shown.

Nothing here talks to a server, so that the plan that is shown is the plan that is carried out.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import click

from warmroute.cli.apply.changes import Action, Change, Present
from warmroute.cli.apply.documents import Difference
from warmroute.cli.apply.file import Wanted
from warmroute.cli.apply.leftovers import plan_configs, plan_prune, plan_prune_targets
from warmroute.cli.apply.resources import plan_components, plan_endpoints, plan_models
from warmroute.cli.apply.scaling import plan_scaling
from warmroute.cli.terminal import plain

SIGNS: Final = {
    Action.CREATE: ("+", "green"),
    Action.UPDATE: ("~", "yellow"),
    Action.REPLACE: ("±", "yellow"),
    Action.DELETE: ("-", "red"),
    Action.LEAVE: ("=", None),
}


def plan(wanted: Wanted, present: Present, *, prune: bool) -> tuple[Change, ...]:
    """Return what has to be done so that a server has what a file describes.

    Args:
        wanted: What the file describes.
        present: What the server has; with ``prune`` everything, else what the file names.
        prune: Take away what apply made from this file before and that it does not name any more.
    """
    # Where the scaling that decided a number of copies goes, the number is the file's again; and the scaling
    # goes first, lest it puts its own number back while the change is followed.
    unscaled = tuple(plan_prune_targets(wanted, present)) if prune else ()
    going = {change.name for change in unscaled}
    staying = tuple(one for one in present.targets if one["ResourceId"] not in going)
    return (
        *plan_models(wanted, present),
        *plan_endpoints(wanted, present),
        *unscaled,
        *plan_components(wanted, replace(present, targets=staying)),
        *plan_scaling(wanted, present),
        *plan_configs(wanted, present),
        *(plan_prune(wanted, present) if prune else ()),
    )


def is_change(change: Change) -> bool:
    """Return whether something is done."""
    return change.action is not Action.LEAVE


def plan_lines(changes: Sequence[Change]) -> Iterator[str]:
    """Yield a plan for people; lines have colours in them."""
    for change in changes:
        sign, colour = SIGNS[change.action]
        head = f"  {sign} {change.action:<8}{change.kind} {change.name}"
        yield click.style(head, fg=colour) if colour else head
        if change.note:
            yield f"      {plain(change.note)}"
        yield from _details(change.details)


def _details(details: Sequence[Difference]) -> Iterator[str]:
    for one in details:
        before, after = (plain(text) if text is not None else None for text in (one.before, one.after))
        if before is None:
            yield f"      {one.path}: {after}"
        elif after is None:
            yield f"      {one.path}: {before}, goes"
        else:
            yield f"      {one.path}: {before} -> {after}"


def summary(changes: Sequence[Change]) -> str:
    """Return how many things happen, as one sentence."""
    counts = Counter(change.action for change in changes)
    if not any(map(is_change, changes)):
        return f"Nothing to do: {counts[Action.LEAVE]} left alone."
    verbs = {
        Action.CREATE: "to create",
        Action.UPDATE: "to update",
        Action.REPLACE: "to replace",
        Action.DELETE: "to delete",
        Action.LEAVE: "left alone",
    }
    return f"{', '.join(f'{counts[action]} {verb}' for action, verb in verbs.items() if counts[action])}."
