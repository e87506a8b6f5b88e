"""The comparison as a picture: how long each answer took to begin, and what came from a cache."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warmroute.report.measurements import Sample, Summary, milliseconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HIT, _MISS, _INK, _FAINT = "#1b7f79", "#e07a3f", "#22262b", "#8a9099"
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def comparison_picture(samples: Sequence[Sample], summaries: Sequence[Summary], *, subtitle: str) -> "Figure":
    """Draw the comparison.

    Args:
        samples: Every request; failed ones are left out.
        summaries: One per strategy, in the order of the rows from the top.
        subtitle: What was measured, in one line.

    Returns:
        A figure of its own, registered nowhere: the caller saves it.
    """
    import matplotlib as mpl  # noqa: PLC0415  (an extra)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10, 1.5 + 1.05 * len(summaries)), layout="constrained")
        waits, shares = figure.subplots(1, 2, sharey=True, width_ratios=(2.4, 1))
        figure.suptitle(subtitle, fontsize=10, x=0.01, ha="left", color=_FAINT)
        for row, summary in enumerate(summaries):
            own = [sample for sample in samples if sample.strategy == summary.strategy]
            _draw_waits(waits, row, own, summary)
            _draw_share(shares, row, summary)
        _finish(waits, shares, summaries)
    return figure


def _draw_waits(axes: Any, row: int, samples: Sequence[Sample], summary: Summary) -> None:
    jitter = random.Random(row)  # noqa: S311  (spreads dots)
    for hit, colour in ((False, _MISS), (True, _HIT)):
        chosen = [
            sample
            for sample in samples
            if sample.ttft_s is not None and sample.error is None and _mostly_cached(sample) is hit
        ]
        axes.scatter(
            [sample.ttft_s * 1000 for sample in chosen if sample.ttft_s is not None],
            [row + jitter.uniform(-0.24, 0.24) for _ in chosen],
            s=13,
            color=colour,
            alpha=0.55,
            linewidths=0,
        )
    if summary.ttft_p50_s is not None:
        median = summary.ttft_p50_s * 1000
        axes.plot([median, median], [row - 0.34, row + 0.34], color=_INK, linewidth=2, solid_capstyle="butt")
        axes.annotate(
            f"P50 {milliseconds(summary.ttft_p50_s)}",
            (median, row - 0.34),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9,
        )


def _draw_share(axes: Any, row: int, summary: Summary) -> None:
    share = summary.cached_share * 100
    axes.barh(row, 100, height=0.5, color="#eceef0")
    axes.barh(row, share, height=0.5, color=_HIT)
    axes.text(share + 2, row, f"{share:.0f} %", va="center", fontweight="bold")


def _mostly_cached(sample: Sample) -> bool:
    return sample.cached_tokens * 2 >= sample.prompt_tokens > 0


def _label(strategy: str) -> str:
    """Break a long name after an underscore, near its middle."""
    cut = strategy.rfind("_", 0, 20) + 1
    return strategy if len(strategy) <= 20 or not cut else f"{strategy[:cut]}\n{strategy[cut:]}"


def _finish(waits: Any, shares: Any, summaries: Sequence[Summary]) -> None:
    waits.set_xscale("log")
    waits.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    waits.set_yticks(range(len(summaries)), [_label(summary.strategy) for summary in summaries])
    waits.set_ylim(len(summaries) - 0.45, -0.65)
    waits.tick_params(axis="y", length=0)
    waits.set_xlabel("milliseconds, logarithmic")
    waits.set_title("Time to first token, one dot per request", loc="left", fontsize=11, fontweight="bold")
    for label, colour in (("prompt mostly from the cache", _HIT), ("prompt computed", _MISS)):
        waits.scatter([], [], s=24, color=colour, label=label)
    waits.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, frameon=False, fontsize=9)
    shares.set_xlim(0, 100)
    shares.set_xlabel("% of all prompt tokens")
    shares.set_title("Taken from a cache", loc="left", fontsize=11, fontweight="bold")
    shares.tick_params(axis="y", length=0, labelleft=False)
