from pathlib import Path

from warmroute.adapters.control_metrics import CONTROL_METRICS
from warmroute.app.metrics_reference import markdown
from warmroute.observe.catalogue import METRICS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def test_the_page_in_docs_is_what_the_code_says():
    assert PAGE.read_text() == markdown(), "stale: run `make docs`"


def test_every_metric_of_routers_and_control_has_one_row():
    page = markdown()
    for metric in (*METRICS, *CONTROL_METRICS):
        assert page.count(f"| `{metric.name}` |") == 1


def test_a_metric_is_shown_with_type_labels_and_meaning():
    line = "| `warmroute_in_flight` | gauge | `endpoint`, `variant`, `target` | Leases open on a target. |"
    assert line in markdown()


def test_the_buckets_are_listed():
    assert "0.001, 0.0025, 0.005" in markdown()
