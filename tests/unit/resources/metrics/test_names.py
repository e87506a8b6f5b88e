"""The list of metrics."""

from pathlib import Path

from warmroute.resources.metrics.names import METRIC_KINDS, Scope


def test_every_metric_says_what_it_is_of_and_what_it_means():
    for name, kind in METRIC_KINDS.items():
        assert kind.name == name
        assert kind.scopes <= frozenset(Scope)
        assert kind.scopes
        assert kind.meaning.endswith(".")


def test_each_division_is_for_the_resource_that_it_divides_by():
    assert METRIC_KINDS["InvocationsPerInstance"].scopes == {Scope.VARIANT}
    assert METRIC_KINDS["ConcurrentRequestsPerCopy"].scopes == {Scope.COMPONENT}


def test_the_page_about_autoscaling_lists_every_metric():
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "autoscaling.md").read_text()
    for kind in METRIC_KINDS.values():
        of = "both" if len(kind.scopes) == 2 else next(iter(kind.scopes))
        assert f"| `{kind.name}` | {of} | {kind.unit} | {kind.meaning} |" in page
