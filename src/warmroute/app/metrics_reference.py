"""Write the reference of the metrics from their catalogues."""

from collections.abc import Iterable

from warmroute.adapters.control_metrics import CONTROL_METRICS
from warmroute.observe.catalogue import METRICS, SECONDS_BOUNDS, Metric

_HEAD = """\
# Metrics

<!-- Written by `warmroute config reference metrics`. Change src/warmroute/observe/catalogue.py and
     src/warmroute/adapters/control_metrics.py instead. -->

`GET /metrics` on the admin listener (`http://127.0.0.1:8081/metrics`), in Prometheus' text format. Labels
never hold a caller's text: endpoints, variants and targets come from the fleet, the rest from fixed lists.
A metric without a value yet is left out.

"""
_ROUTERS = """\
## Of the routers

Counted in the router process, which reports them to control once a second. A restart of either does not set
them back as long as the other lives.

"""
_CONTROL = """
## Of control

Its counters begin at 0 with every start of the control process.

"""
_BUCKETS = """
## Buckets

Upper bounds of the histograms' buckets, in seconds:
"""


def markdown() -> str:
    """Return the reference as one Markdown page."""
    bounds = ", ".join(f"{bound:g}" for bound in SECONDS_BOUNDS)
    return f"{_HEAD}{_ROUTERS}{_table(METRICS)}{_CONTROL}{_table(CONTROL_METRICS)}{_BUCKETS}{bounds}.\n"


def _table(metrics: Iterable[Metric]) -> str:
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.meaning} |")
    return "\n".join(lines) + "\n"
