"""The list of metrics."""

from warmroute.resources.metrics import METRIC_KINDS, Scope


def test_every_metric_says_what_it_is_of_and_what_it_means():
    for name, kind in METRIC_KINDS.items():
        assert kind.name == name
        assert kind.scopes <= frozenset(Scope)
        assert kind.scopes
        assert kind.meaning.endswith(".")


def test_each_division_is_for_the_resource_that_it_divides_by():
    assert METRIC_KINDS["InvocationsPerInstance"].scopes == {Scope.VARIANT}
    assert METRIC_KINDS["ConcurrentRequestsPerCopy"].scopes == {Scope.COMPONENT}
