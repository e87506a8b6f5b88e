import pytest

from warmroute.core.fleet import Component, Endpoint, Routing, RoutingStrategy, Target, TargetState, Variant
from warmroute.core.ids import ComponentName, InstanceId, TargetId, VariantName
from warmroute.routing.books import KV_TUNING, EndpointBook, VariantBook
from warmroute.routing.key import TEXT_BLOCK_CHARACTERS, partition


def copy(name, component="", *, state=TargetState.IN_SERVICE, adapters=(), generation=1):
    return Target(
        TargetId(name),
        InstanceId("i"),
        generation,
        "host",
        80,
        state=state,
        component=component,
        adapters=adapters,
    )


def variant(*targets, routing=None, components=(), weight=1.0):
    listed = tuple(Component(ComponentName(name), base) for name, base in components)
    return Variant(VariantName("v"), weight, routing or Routing(), tuple(targets), listed)


def names(rows):
    return [row.target.target_id for row in rows]


def test_an_endpoint_begins_out_of_service_and_without_variants():
    book = EndpointBook("e")
    assert (book.name, book.in_service, book.variants) == ("e", False, {})


@pytest.mark.parametrize(
    ("strategy", "prefix_length", "wanted", "chain"),
    [
        (RoutingStrategy.RANDOM, None, 0, False),
        (RoutingStrategy.LEAST_OUTSTANDING_REQUESTS, None, 0, False),
        (RoutingStrategy.PREFIX_AWARE, 4096, 4096, False),
        (RoutingStrategy.KV_AWARE, None, TEXT_BLOCK_CHARACTERS, True),
    ],
)
def test_a_book_says_what_its_strategy_wants_of_a_prompt(strategy, prefix_length, wanted, chain):
    book = VariantBook("e", variant(routing=Routing(strategy, prefix_length=prefix_length)))
    assert (book.prefix_length, book.wants_chain) == (wanted, chain)


# --- rows -------------------------------------------------------------------------------------
def test_candidates_are_in_order_of_their_names_whatever_the_fleets_order():
    book = VariantBook("e", variant(copy("2"), copy("11"), copy("1")))
    assert names(book.candidates) == names(book.pool.candidates) == ["1", "11", "2"]


@pytest.mark.parametrize("state", [TargetState.STARTING, TargetState.DRAINING])
def test_a_copy_that_is_not_in_service_is_in_no_pool(state):
    book = VariantBook("e", variant(copy("1", "c", state=state, adapters=("a",))))
    assert (book.candidates, book.pool_of("c").serving, book.pool_of("c", "a").serving) == ([], [], [])


def test_an_idle_row_is_forgotten_when_its_target_leaves_and_a_busy_one_is_not():
    book = VariantBook("e", variant(copy("1", "c"), copy("2", "c")))
    book.rows["2"].in_flight = 1
    book.renew(variant())
    assert list(book.rows) == ["2"]
    assert book.rows["2"].gone
    assert book.pool_of("c").serving == []


def test_a_retired_book_has_no_candidate():
    book = VariantBook("e", variant(copy("1")))
    book.rows["1"].in_flight = 1
    book.retire()
    assert (book.candidates, list(book.rows)) == ([], ["1"])


def test_a_target_that_returns_is_a_candidate_again_with_its_requests():
    book = VariantBook("e", variant(copy("1")))
    book.rows["1"].in_flight = 1
    book.retire()
    book.renew(variant(copy("1"), weight=0.5))
    assert (names(book.candidates), book.rows["1"].in_flight, book.weight) == (["1"], 1, 0.5)


def test_an_adapter_is_in_force_with_the_fleet_that_says_it_is_loaded():
    book = VariantBook("e", variant(copy("1", "c"), copy("2", "c")))
    assert book.pool_of("c", "a").serving == []
    book.renew(variant(copy("1", "c"), copy("2", "c", adapters=("a",))))
    assert names(book.pool_of("c", "a").serving) == ["2"]
    book.renew(variant(copy("1", "c", adapters=("a",)), copy("2", "c")))
    assert names(book.pool_of("c", "a").serving) == ["1"]


def test_an_ejected_copy_stays_in_its_pool_and_is_no_candidate():
    book = VariantBook("e", variant(copy("1", "c", adapters=("a",)), copy("2", "c")))
    book.rows["1"].health.ejected = True
    book.refresh()
    assert names(book.pool_of("c", "a").serving) == ["1"]
    assert book.pool_of("c", "a").candidates == []
    assert names(book.pool_of("c").candidates) == ["2"]


def test_a_pool_that_nobody_belongs_to_is_empty():
    book = VariantBook("e", variant(copy("1", "c")))
    assert [book.pool_of(*asked).serving for asked in (("x",), ("c", "a"), ("", "a"), ("", ""))] == [[]] * 4
    assert book.pool.serving == []


# --- names of components ----------------------------------------------------------------------
def test_a_component_is_addressed_by_its_name_and_an_adapter_through_its_base():
    book = VariantBook("e", variant(components=[("base", ""), ("lora", "base")]))
    assert book.addressed("base") == ("base", "")
    assert book.addressed("lora") == ("base", "lora")


def test_a_component_is_known_by_its_copies_too():
    assert VariantBook("e", variant(copy("1", "c"))).addressed("c") == ("c", "")


@pytest.mark.parametrize("name", ["", "C", "cc", "lor"])
def test_a_component_that_is_not_here_is_not_addressed(name):
    assert VariantBook("e", variant(copy("1", "c"), components=[("lora", "c")])).addressed(name) is None


def test_components_come_and_go_with_the_fleet():
    book = VariantBook("e", variant(copy("1", "c")))
    book.renew(variant(copy("1", "d")))
    assert list(book.components) == ["d"]


def test_a_variant_of_one_model_has_no_components():
    assert VariantBook("e", variant(copy("1"))).components == {}


# --- heads of keys ----------------------------------------------------------------------------
def test_the_head_of_a_request_that_names_nothing_is_the_variants():
    book = VariantBook("e", variant(copy("1")))
    assert book.head_of() == book.key_head == partition(endpoint="e", variant="v")


@pytest.mark.parametrize(
    ("component", "adapter", "tenant"),
    [("c", "", ""), ("c", "a", ""), ("", "a", ""), ("", "", "t"), ("c", "a", "t"), ("c", "", "t")],
)
def test_component_adapter_and_tenant_partition_the_head(component, adapter, tenant):
    book = VariantBook("e", variant(copy("1", "c", adapters=("a",))))
    expected = partition(endpoint="e", variant="v", component=component, adapter=adapter, tenant=tenant)
    assert [book.head_of(component, adapter, tenant) for _ in range(2)] == [expected] * 2


def test_a_head_that_was_kept_does_not_answer_for_a_tenants():
    book = VariantBook("e", variant(copy("1", "c")))
    heads = [book.head_of("c"), book.head_of("c", "", "t"), book.head_of("c")]
    assert heads[0] == heads[2] != heads[1]


def test_heads_are_kept_for_what_the_fleet_has_and_for_nothing_else():
    book = VariantBook("e", variant(copy("1", "c", adapters=("a",))))
    for number in range(100):
        book.head_of("c", f"unknown {number}")
        book.head_of(f"unknown {number}")
        book.head_of("c", "a", f"tenant {number}")
    assert book.head_of("c", "a") is book.head_of("c", "a")
    assert list(book._heads) == [("c", "a")]
    book.renew(variant())
    assert book._heads == {}


# --- shelves ----------------------------------------------------------------------------------
KV_AWARE = Routing(RoutingStrategy.KV_AWARE)


def test_only_rows_of_a_kv_aware_variant_have_shelves():
    book = VariantBook("e", variant(copy("1"), copy("2")))
    assert (book.kv, book.rows["1"].shelf) == (None, None)
    book.renew(variant(copy("1"), copy("2"), routing=KV_AWARE))
    assert [book.rows[name].shelf for name in "12"] == list(book.kv.index.shelves.values())
    book.renew(variant(copy("1"), copy("2")))
    assert (book.kv, book.rows["1"].shelf) == (None, None)


def test_a_row_keeps_its_shelf_while_its_target_stays_whatever_its_state():
    book = VariantBook("e", variant(copy("1"), copy("2"), routing=KV_AWARE))
    kv, shelf = book.kv, book.rows["1"].shelf
    for state in (TargetState.DRAINING, TargetState.STARTING, TargetState.IN_SERVICE):
        book.renew(variant(copy("1", state=state), routing=KV_AWARE))
        assert book.kv is kv
        assert book.rows["1"].shelf is shelf is kv.index.shelves["1"]
    assert list(kv.index.shelves) == ["1"]


def test_a_new_generation_has_a_new_shelf():
    book = VariantBook("e", variant(copy("1"), routing=KV_AWARE))
    shelf = book.rows["1"].shelf
    book.kv.index.sent(shelf, (1, 2))
    book.renew(variant(copy("1", generation=2), routing=KV_AWARE))
    assert book.rows["1"].shelf is book.kv.index.shelves["1"]
    assert book.rows["1"].shelf is not shelf
    assert len(book.kv.index) == 0


def test_a_busy_row_whose_target_left_has_no_shelf_and_gets_another_when_it_returns():
    book = VariantBook("e", variant(copy("1"), routing=KV_AWARE))
    shelf = book.rows["1"].shelf
    book.kv.index.sent(shelf, (1, 2))
    book.rows["1"].in_flight = 1
    book.retire()
    assert book.rows["1"].shelf is None
    assert (book.kv.index.shelves, len(book.kv.index)) == ({}, 0)
    book.renew(variant(copy("1"), routing=KV_AWARE))
    assert book.rows["1"].shelf is book.kv.index.shelves["1"]
    assert book.rows["1"].shelf is not shelf


def test_a_thousand_targets_that_come_and_go_leave_nothing_behind():
    book = VariantBook("e", variant(routing=KV_AWARE))
    many = [copy(f"t{number}") for number in range(1000)]
    for generation in range(3):
        book.renew(variant(*many[generation * 100 :], routing=KV_AWARE))
        for row in book.rows.values():
            book.kv.index.sent(row.shelf, (int(row.name[1:]) + 2, 1))
        book.renew(variant(routing=KV_AWARE))
        assert (book.rows, book.kv.index.shelves, len(book.kv.index)) == ({}, {}, 0)
    book.renew(variant(*many[:7], routing=KV_AWARE))
    assert sorted(row.shelf.bit for row in book.rows.values()) == [1 << place for place in range(7)]


def test_popular_starts_of_a_component_are_forgotten_with_its_last_copy():
    book = VariantBook("e", variant(copy("1", "c"), copy("2", "c"), copy("3", "d"), routing=KV_AWARE))
    homes = {component: book.kv.homes_of(component) for component in "cd"}
    book.renew(variant(copy("1", "c"), copy("3", "d"), routing=KV_AWARE))
    assert book.kv.homes == homes
    book.renew(variant(copy("1", "c"), routing=KV_AWARE))
    assert book.kv.homes == {"c": homes["c"]}
    book.retire()
    assert book.kv.homes == {}


def test_a_book_knows_why_an_adapter_cannot_be_loaded():
    broken = (Component("c"), Component("lora", "c", "no memory"), Component("other", "c"))
    book = VariantBook("e", Variant("v", 1.0, Routing(), (), broken))
    assert book.failures == {"lora": "no memory"}
    book.renew(variant())
    assert book.failures == {}


# --- endpoints ----------------------------------------------------------------------------------
def of(*variants, shadow=None, **more):
    return Endpoint("e", True, variants, shadow, **more)


def named(name, *targets, revision=0, components=(), share=1.0):
    return Variant(name, 1.0, Routing(), targets, components, revision, share)


def test_an_endpoint_has_a_book_for_each_revision_in_the_fleets_order():
    endpoint = EndpointBook("e")
    left = endpoint.renew(of(named("w"), named("v", revision=2), named("v", revision=1)), {}, KV_TUNING)
    assert (left, endpoint.in_service) == ([], True)
    assert list(endpoint.variants) == [("w", 0), ("v", 2), ("v", 1)]
    assert endpoint.variant_names() == ["w", "v"]
    assert [book.revision for book in endpoint.named("v")] == [2, 1]
    assert endpoint.named("x") == []


def test_books_of_revisions_that_stay_are_kept_and_those_that_left_are_given_back():
    endpoint = EndpointBook("e")
    endpoint.renew(of(named("v", copy("1")), named("w")), {}, KV_TUNING)
    kept, gone = endpoint.books()
    assert endpoint.renew(of(named("v", copy("1"), copy("2"))), {}, KV_TUNING) == [gone]
    assert endpoint.books() == [kept]
    assert kept.count_of(("1", "2", "3")) == 2


def test_a_book_that_comes_back_is_taken_from_the_retired_ones():
    endpoint = EndpointBook("e")
    retired = {
        ("e", "v", 0): VariantBook("e", named("v")),
        ("other", "v", 0): VariantBook("other", named("v")),
    }
    back = retired["e", "v", 0]
    endpoint.renew(of(named("v")), retired, KV_TUNING)
    assert endpoint.books() == [back]
    assert list(retired) == [("other", "v", 0)]


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_the_shadow_has_a_book_that_no_draw_finds_and_production_knows_while_it_has_a_share(share):
    endpoint = EndpointBook("e")
    endpoint.renew(of(named("v"), shadow=named("s", share=share)), {}, KV_TUNING)
    (production,) = endpoint.variants.values()
    assert endpoint.books() == [production, endpoint.shadow]
    assert endpoint.shadow.name == "s"
    assert production.shadow is (endpoint.shadow if share else None)
    assert endpoint.named("s") == []
    assert endpoint.renew(of(named("v")), {}, KV_TUNING)[0].name == "s"
    assert (endpoint.shadow, production.shadow) == (None, None)


@pytest.mark.parametrize(
    ("endpoint", "carries"),
    [
        (of(), False),
        (of(named("v", copy("1"))), False),
        (of(carries_components=True), True),
        (of(named("v"), named("w", components=(Component("c"),))), True),
        (of(named("v", copy("1", "c"))), True),
    ],
)
def test_an_endpoint_carries_components_when_it_says_so_or_has_some(endpoint, carries):
    book = EndpointBook("e")
    book.renew(endpoint, {}, KV_TUNING)
    assert book.carries_components is carries
