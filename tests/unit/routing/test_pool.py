import pytest

from warmroute.core.decision import Lease
from warmroute.core.fleet import Target
from warmroute.core.ids import InstanceId, TargetId
from warmroute.routing.ledger import TargetRow
from warmroute.routing.pool import Pool, by_instance, pools_of


def row(name, instance=None, component="", adapters=()):
    return TargetRow(
        Target(
            TargetId(name),
            InstanceId(instance or name),
            1,
            "host",
            80,
            component=component,
            adapters=adapters,
        )  # fmt: skip
    )


def names(rows):
    return [each.target.target_id for each in rows]


def on_probation(each, *, busy):
    each.health.parole()
    if busy:
        each.probe = Lease(each.target, 1, None)
    return each


# --- one pool ---------------------------------------------------------------------------------
def test_candidates_are_the_serving_rows_that_are_not_ejected():
    rows = [row("1"), row("11"), row("2")]
    rows[1].health.ejected = True
    pool = Pool(rows)
    assert names(pool.serving) == ["1", "11", "2"]
    assert names(pool.candidates) == ["1", "2"]


def test_a_pool_may_be_empty():
    pool = Pool([])
    assert (pool.serving, pool.candidates, pool.instances, pool.on_probation) == ([], [], None, False)
    assert pool.free(()) == pool.free(("1",)) == []


def test_all_candidates_are_free_when_nothing_was_tried():
    pool = Pool([row("1"), row("11")])
    assert pool.free(()) is pool.candidates


def test_what_was_tried_is_not_free_and_is_compared_by_whole_ids():
    pool = Pool([row("1"), row("11"), row("111")])
    assert names(pool.free(("11", "2"))) == ["1", "111"]


@pytest.mark.parametrize(("busy", "free"), [(False, ["1", "2"]), (True, ["2"])])
def test_a_row_on_probation_is_free_while_its_one_request_is_not_under_way(busy, free):
    pool = Pool([on_probation(row("1"), busy=busy), row("2")])
    assert pool.on_probation
    assert names(pool.free(())) == free


# --- by instance ------------------------------------------------------------------------------
def test_targets_that_are_instances_are_not_grouped():
    assert by_instance([row("1"), row("11")]) is None
    assert by_instance([]) is None


def test_copies_are_grouped_by_the_instance_that_carries_them():
    groups = by_instance([row("a", "1"), row("b", "11"), row("c", "1"), row("d", "2")])
    assert [(group.name, names(group.rows)) for group in groups] == [
        (b"1", ["a", "c"]), (b"11", ["b"]), (b"2", ["d"]),
    ]  # fmt: skip


def test_a_copy_beside_an_instance_is_grouped():
    groups = by_instance([row("1"), row("a", "1")])
    assert [(group.name, names(group.rows)) for group in groups] == [(b"1", ["1", "a"])]


def test_a_pool_groups_its_candidates_only():
    rows = [row("a", "1"), row("b", "1"), row("c", "2")]
    rows[2].health.ejected = True
    assert [group.name for group in Pool(rows).instances] == [b"1"]


# --- the pools of a variant -------------------------------------------------------------------
def test_a_variant_of_one_model_has_one_pool():
    pools = pools_of([row("1"), row("11")])
    assert {asked: names(pool.serving) for asked, pool in pools.items()} == {("", ""): ["1", "11"]}


def test_every_component_and_every_adapter_that_is_loaded_has_a_pool():
    rows = [
        row("a", "1", "x", ("p", "q")),
        row("b", "1", "y", ("p",)),
        row("c", "2", "x", ("q",)),
        row("d", "2", "x"),
    ]
    pools = pools_of(rows)
    assert {asked: names(pool.serving) for asked, pool in pools.items()} == {
        ("", ""): [],
        ("x", ""): ["a", "c", "d"], ("x", "p"): ["a"], ("x", "q"): ["a", "c"],
        ("y", ""): ["b"], ("y", "p"): ["b"],
    }  # fmt: skip


def test_an_adapter_that_is_named_twice_counts_once():
    assert names(pools_of([row("a", "1", "x", ("p", "p"))])["x", "p"].serving) == ["a"]


def test_instances_of_one_model_may_have_adapters_too():
    pools = pools_of([row("1", adapters=("p",)), row("2")])
    assert names(pools["", ""].serving) == ["1", "2"]
    assert names(pools["", "p"].serving) == ["1"]
