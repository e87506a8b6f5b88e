from hypothesis import example, given
from hypothesis import strategies as st

from warmroute.routing.key import (
    TEXT_BLOCK_CHARACTERS,
    blocks_of,
    byte_chain,
    native_key,
    partition,
    text_chain,
    text_key,
)

HEAD = partition(endpoint="1", variant="1")
# Fields that would run into each other if only their bytes were joined.
fields = st.text(alphabet="1\x00\x01é", max_size=6) | st.text(max_size=12)
lists = st.tuples(fields, fields, fields, fields, fields)


def head(of):
    endpoint, variant, component, adapter, tenant = of
    return partition(endpoint=endpoint, variant=variant, component=component, adapter=adapter, tenant=tenant)


@given(lists, lists)
@example(("1", "11", "", "", ""), ("11", "1", "", "", ""))
@example(("1", "", "", "1", ""), ("1", "1", "", "", ""))
@example(("1", "1", "1", "", ""), ("1", "1", "", "1", ""))
@example(("1", "1", "1", "1", ""), ("1", "1", "", "1", "1"))
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


# --- chains -----------------------------------------------------------------------------------
# Runs of one character: long enough for several blocks, with ends on both sides of a block's.
lengths = st.sampled_from([1, 127, 128, 500, TEXT_BLOCK_CHARACTERS - 1, TEXT_BLOCK_CHARACTERS, 1500])
runs = st.lists(st.tuples(st.sampled_from("ab\x00é日😀\ud800"), lengths), max_size=5)
texts = runs.map(lambda pairs: "".join(character * count for character, count in pairs))


def shared(one, other):
    """How many whole blocks two texts have in common from their start."""
    length = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return blocks_of(length)


def agree(one, other):
    """How many links two chains have in common from their start; none further on."""
    same = [a == b for a, b in zip(one, other, strict=False)]
    count = same.index(False) if False in same else len(same)
    assert not any(same[count:]), "chains that parted meet again"
    return count


@given(texts, texts)
def test_two_text_chains_agree_exactly_as_far_as_the_texts_do_in_whole_blocks(one, other):
    chains = text_chain(HEAD, one), text_chain(HEAD, other)
    assert [len(chain) for chain in chains] == [blocks_of(len(text)) for text in (one, other)]
    assert agree(*chains) == shared(one, other)


@given(texts, texts)
def test_two_byte_chains_agree_exactly_as_far_as_the_bodies_do_in_whole_blocks(one, other):
    bodies = [text.encode("utf-8", "surrogatepass") for text in (one, other)]
    chains = [byte_chain(HEAD, body) for body in bodies]
    assert [len(chain) for chain in chains] == [blocks_of(len(body)) for body in bodies]
    assert agree(*chains) == shared(*bodies)


@given(st.tuples(lists, fields), st.tuples(lists, fields))
def test_chains_of_the_same_text_have_a_link_in_common_exactly_when_partition_and_id_are_equal(one, other):
    text = "a" * 3 * TEXT_BLOCK_CHARACTERS
    chains = [text_chain(head(of), text, caller_id=caller) for of, caller in (one, other)]
    keys = [text_key(head(of), text, 1024, caller) for of, caller in (one, other)]
    assert agree(*chains) == (6 if one == other else 0)
    assert (keys[0] == keys[1]) is (one == other), "key and chain are partitioned alike"
