from hypothesis import example, given
from hypothesis import strategies as st

from warmroute.routing.key import native_key, partition, text_key

HEAD = partition(endpoint="1", variant="1")
# Fields that would run into each other if only their bytes were joined.
fields = st.text(alphabet="1\x00\x01é", max_size=6) | st.text(max_size=12)
lists = st.tuples(fields, fields, fields, fields)


def head(of):
    endpoint, variant, adapter, tenant = of
    return partition(endpoint=endpoint, variant=variant, adapter=adapter, tenant=tenant)


@given(lists, lists)
@example(("1", "11", "", ""), ("11", "1", "", ""))
@example(("1", "", "1", ""), ("1", "1", "", ""))
def test_two_different_partitions_never_have_the_same_bytes(one, other):
    assert (head(one) == head(other)) is (one == other)


@given(lists, lists)
def test_no_partition_is_the_beginning_of_another(one, other):
    assert one == other or not head(one).startswith(head(other))


@given(st.tuples(fields, fields), st.tuples(fields, fields))
def test_two_different_pairs_of_id_and_text_have_different_keys(one, other):
    keys = [text_key(HEAD, text, 1024, caller_id) for caller_id, text in (one, other)]
    assert (keys[0] == keys[1]) is (one == other)


@given(st.text(), st.text(), st.text(max_size=8), st.integers(1, 40))
def test_a_text_key_depends_on_the_first_prefix_length_characters_and_on_nothing_else(one, other, caller, n):
    same = one[:n] == other[:n] and bool(one or caller) == bool(other or caller)
    assert (text_key(HEAD, one, n, caller) == text_key(HEAD, other, n, caller)) is same


@given(st.binary(), st.binary(), st.text(max_size=8), st.integers(1, 40))
def test_a_native_key_depends_on_the_first_prefix_length_bytes_and_on_nothing_else(one, other, caller, n):
    same = one[:n] == other[:n] and bool(one or caller) == bool(other or caller)
    assert (native_key(HEAD, one, n, caller) == native_key(HEAD, other, n, caller)) is same


@given(st.text(alphabet=st.characters(exclude_categories=())), st.integers(1, 40))
def test_every_text_has_a_key_of_64_bits_even_with_lone_surrogates(text, n):
    key = text_key(HEAD, text, n, "")
    assert (key is None) is (text == "")
    assert key is None or 0 <= key < 2**64
