from warmroute.routing.adapter_count import AdapterCount


def test_nothing_is_counted_at_first():
    count = AdapterCount()
    assert (count.in_flight, count.taken) == (0, 0)
