from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.resources.arns import Place
from warmroute.resources.records import Launch
from warmroute.resources.tables import Context

CONTEXT = Context(
    Place("r", "1"),
    0.0,
    {
        "local": InstanceType("local", ProviderKind.LOCAL),
        "fixed": InstanceType("fixed", ProviderKind.STATIC),
    },
)


def test_instances_of_ours_go_on_only_for_the_same_launch():
    old = Launch("local", "m")
    assert CONTEXT.same_instances(old, Launch("local", "m"))
    assert not CONTEXT.same_instances(old, Launch("local", "n"))
    assert not CONTEXT.same_instances(old, Launch("local", "m", environment={"A": "1"}))
    assert CONTEXT.same_instances(Launch("unknown", "m"), Launch("unknown", "m"))


def test_servers_that_are_not_ours_run_what_they_run():
    assert CONTEXT.same_instances(Launch("fixed", "m"), Launch("fixed", "n", image="x"))
    assert not CONTEXT.same_instances(Launch("local", "m"), Launch("fixed", "m"))
