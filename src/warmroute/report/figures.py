"""Figures of a case: how long answers took to begin, what caches held, who waited, who did the work.

Colours are those of a light page. `themed_svg` turns a figure into SVG whose colours are the variables of
the page it stands in, so that one figure serves light and dark pages alike.
"""

import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from warmroute.report.case import LIVE, ROUTERS_MARK, Case
from warmroute.sim.series import QUANTILES, Course

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, FAINT, GRID, OTHER, BEST_OTHER = "#1d2530", "#7c8694", "#e2e6eb", "#bac2cd", "#4a5fd0"
COLOURS: Mapping[str, str] = dict(
    zip(LIVE, ("#8d7b68", "#c97b00", "#0d8a86", "#c01f5d", "#e0719c"), strict=True)
)
"""Of the policies that have one of their own."""
VARIABLES: Mapping[str, str] = {
    INK: "--ink", FAINT: "--faint", GRID: "--grid", OTHER: "--other", BEST_OTHER: "--best-other",
    **{colour: f"--policy-{place}" for place, colour in enumerate(COLOURS.values())},
}  # fmt: skip
"""Names of the colours on a page."""
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.labelcolor": FAINT,
    "axes.labelsize": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
}
WIDTH, HEIGHT = 5.0, 3.1
"""Inches; at 72 points to the inch this is the width of a phone, so that texts keep their size on one."""
_MINUTES_FROM_S = 600


@dataclass(frozen=True, slots=True)
class Line:
    """How a policy is drawn.

    Attributes:
        policy: Its name.
        colour: Of a light page.
        dashed: To be told from another one of its colour.
        front: Whether it stands out; the others are the background, without names.
    """

    policy: str
    colour: str
    dashed: bool = False
    front: bool = True


def lines(case: Case) -> tuple[Line, ...]:
    """Return how each policy of a case is drawn, from the back to the front."""
    best = case.best_other
    policies = [policy for policy in case.by_policy if ROUTERS_MARK not in policy]
    back = [Line(policy, OTHER, front=False) for policy in policies if policy not in LIVE and policy != best]
    front = [Line(best, BEST_OTHER)] if best else []
    own = [Line(policy, COLOURS[policy], dashed=policy == LIVE[-1]) for policy in LIVE if policy in policies]
    return (*back, *front, *own)


def figures(case: Case, *, legend: bool) -> Iterator[tuple[str, "Figure"]]:
    """Return the figures of a case that there is data for, by short names.

    Args:
        case: With distributions and courses, as far as there are any.
        legend: Whether each figure says which line is whose; a page says it once.
    """
    import matplotlib as mpl  # noqa: PLC0415  (an extra)

    drawn: dict[str, Callable[[Case], Figure]] = {}
    if case.quantiles:
        drawn["ttft"] = ttft_figure
    if case.courses:
        drawn |= {"hit-rate": hit_figure, "waiting": waiting_figure, "shares": share_figure}
    for name, draw in drawn.items():
        with mpl.rc_context(_STYLE):
            figure = draw(case)
            if legend:
                _stand_alone(figure, case, keys=name != "shares")
        yield name, figure


def ttft_figure(case: Case) -> "Figure":
    """Draw the distribution of the times to first token: the share of requests that began by then."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415  (an extra)

    figure, axes = _panel("Time to first token", "milliseconds, logarithmic", "% of requests, at most")
    axes.set_xscale("log")
    for line in lines(case):
        quantiles = case.quantiles.get(line.policy)
        if quantiles:
            _draw(axes, line, [max(0.1, value) for value in quantiles], [share * 100 for share in QUANTILES])
    axes.set_ylim(0, 101)
    low, high = axes.get_xlim()
    # Every decade alone says too little of a distribution that spans less than two.
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 500 * low else (1.0,)))
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


def hit_figure(case: Case) -> "Figure":
    """Draw the share of prompt tokens found in caches, over time."""
    figure, axes = _over_time(
        case, "Hit rate over time", "% of prompt tokens", lambda course: course.hit_rate
    )
    axes.set_ylim(0, 101)
    return figure


def waiting_figure(case: Case) -> "Figure":
    """Draw how many requests waited for their first token, over time."""
    title, label = "Queue: waiting for the first token", "requests"
    figure, axes = _over_time(case, title, label, lambda course: course.waiting)
    axes.set_ylim(bottom=0)
    return figure


def share_figure(case: Case) -> "Figure":
    """Draw the share of the requests that each instance served: a dot per instance."""
    drawn = [line for line in reversed(lines(case)) if line.policy in case.courses]
    figure, axes = _panel("Share per instance, one dot each", "% of requests", "", rows=len(drawn))
    for row, line in enumerate(drawn):
        shares = [share * 100 for _, share in case.courses[line.policy].shares]
        axes.plot([min(shares), max(shares)], [row, row], color=line.colour, linewidth=1.2, alpha=0.6)
        axes.scatter(shares, [row] * len(shares), s=22, color=line.colour, linewidths=0, zorder=3)
    axes.set_yticks(range(len(drawn)), [line.policy for line in drawn], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.set_xlim(left=0)
    return figure


def _panel(title: str, x: str, y: str, *, rows: int = 0) -> "tuple[Figure, Any]":
    from matplotlib.figure import Figure  # noqa: PLC0415  (an extra)

    figure = Figure(figsize=(WIDTH, max(HEIGHT, 0.9 + 0.19 * rows)), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def _over_time(
    case: Case, title: str, label: str, values: Callable[[Course], Sequence[float | None]]
) -> "tuple[Figure, Any]":
    longest = max(course.bucket_s * len(course.waiting) for course in case.courses.values())
    unit_s, unit = (60, "minutes") if longest >= _MINUTES_FROM_S else (1, "seconds")
    figure, axes = _panel(title, unit, label)
    percent = 100 if label.startswith("%") else 1
    for line in lines(case):
        course = case.courses.get(line.policy)
        if course is None:
            continue
        numbers = [math.nan if value is None else value * percent for value in values(course)]
        times = [(place + 0.5) * course.bucket_s / unit_s for place in range(len(numbers))]
        _draw(axes, line, times, numbers)
    axes.set_xlim(0, longest / unit_s)
    if case.warmup_s:
        axes.axvspan(0, case.warmup_s / unit_s, color=GRID, alpha=0.5, linewidth=0, zorder=0)
    if case.change_s is not None:
        axes.axvline(case.change_s / unit_s, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    return figure, axes


def _draw(axes: Any, line: Line, x: Sequence[float], y: Sequence[float]) -> None:
    axes.plot(
        x, y, color=line.colour, linestyle=(0, (3, 1.6)) if line.dashed else "-",
        linewidth=1.8 if line.front else 0.9, alpha=1 if line.front else 0.8,
    )  # fmt: skip


def _stand_alone(figure: "Figure", case: Case, *, keys: bool) -> None:
    """Say what a page says beside its figures: the case, and which line is whose."""
    (axes,) = figure.axes
    axes.set_title(f"{axes.get_title('left')}, {case.name}", loc="left")
    if not keys:
        return
    drawn = lines(case)
    for line in drawn:
        if line.front:
            axes.plot([], [], color=line.colour, linestyle="--" if line.dashed else "-", label=line.policy)
    background = sum(not line.front for line in drawn)
    if background:
        named = "another policy" if background == 1 else f"{background} other policies"
        axes.plot([], [], color=OTHER, linewidth=0.9, label=named)
    figure.set_figheight(HEIGHT + 0.9)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)


def _short(value: float) -> str:
    return f"{value / 1000:g} s" if value >= 1000 else f"{value:g}"


# --- files and pages ------------------------------------------------------------------------

_IDS = re.compile(r' id="(?!m[0-9a-f]{10}|p[0-9a-f]{10})[^"]*"')
_DEFINED_STYLE = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_NOT_DRAWN = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
_SPACE = re.compile(r">\s+<")
_LONG_NUMBER = re.compile(r"(\d+\.\d)\d+")


def image(figure: "Figure", kind: str) -> bytes:
    """Return a figure as a file of its own: ``svg``, with texts as shapes, or ``png``."""
    import matplotlib as mpl  # noqa: PLC0415  (an extra)

    made = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {}
    with mpl.rc_context({"svg.hashsalt": "warmroute"}):
        figure.savefig(made, format=kind, dpi=180, metadata=metadata)
    return made.getvalue()


def themed_svg(figure: "Figure", *, name: str, label: str) -> str:
    """Return a figure for a page that has the `VARIABLES`; texts stay texts, in the page's own font.

    Args:
        figure: Drawn with the colours of this module.
        name: Unlike that of any other figure on the page: what it refers to inside is called by it.
        label: What it shows, for who cannot see it.
    """
    import matplotlib as mpl  # noqa: PLC0415  (an extra)

    made = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(made, format="svg", transparent=True, metadata={"Date": None})
    text = made.getvalue()
    text = text[text.index("<svg") :]
    text = _NOT_DRAWN.sub("", _DEFINED_STYLE.sub("", text))
    text = _SPACE.sub("><", _IDS.sub("", text)).strip()
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    _, _, drawn = text.partition(">")
    width, height = figure.get_size_inches() * 72
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width:g} {height:g}">'
        + _LONG_NUMBER.sub(r"\1", drawn)
    )
