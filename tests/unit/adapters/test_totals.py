from warmroute.adapters.totals import Totals
from warmroute.core.stream import Counters

LABELS = (("a", "b"),)
TOTAL, GAUGE, HISTOGRAM = ("x_total", LABELS), ("g", ()), ("h_seconds", LABELS)


def counters(total, gauge=1.0, buckets=(1, 0), sum_=0.5):
    return Counters(
        values=((*TOTAL, total), (*GAUGE, gauge)),
        histograms=((*HISTOGRAM, buckets, sum_),),
    )


def connected(*routers):
    totals = Totals()
    for router in routers:
        totals.came(router)
    return totals


def test_routers_add_up():
    totals = connected(("r0", 1), ("r1", 2))
    totals.take(("r0", 1), counters(2.0))
    totals.take(("r1", 2), counters(3.0, buckets=(2, 5), sum_=4.0))
    assert totals.values(frozenset({"g"})) == {TOTAL: 5.0, GAUGE: 2.0}
    assert totals.histograms() == {HISTOGRAM: ((3, 5), 4.5)}


def test_the_newest_totals_replace_the_last():
    totals = connected(("r0", 1))
    totals.take(("r0", 1), counters(2.0))
    totals.take(("r0", 1), counters(7.0))
    assert totals.values(frozenset())[TOTAL] == 7.0


def test_totals_stay_and_gauges_go_with_a_router():
    totals = connected(("r0", 1))
    totals.take(("r0", 1), counters(2.0))
    totals.gone(("r0", 1))
    assert totals.values(frozenset({"g"})) == {TOTAL: 2.0}
    totals.came(("r0", 1))
    assert totals.values(frozenset({"g"})) == {TOTAL: 2.0, GAUGE: 1.0}


def test_a_router_started_anew_counts_on_from_its_predecessor():
    totals = connected(("r0", 1))
    totals.take(("r0", 1), counters(2.0))
    totals.gone(("r0", 1))
    totals.came(("r0", 2))
    totals.take(("r0", 2), counters(1.0))
    totals.came(("r0", 3))
    assert totals.values(frozenset({"g"})) == {TOTAL: 3.0}
    assert totals.histograms() == {HISTOGRAM: ((2, 0), 1.0)}


def test_it_says_which_processes_are_in_the_sums():
    totals = Totals()
    totals.came(("router-0", 1))
    assert totals.heard() == frozenset()
    totals.take(("router-0", 1), Counters())
    totals.gone(("router-0", 1))
    assert totals.heard() == {("router-0", 1)}
    totals.came(("router-0", 2))
    assert totals.heard() == frozenset()
