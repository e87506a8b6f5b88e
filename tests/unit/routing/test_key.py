from itertools import pairwise
from struct import pack

import pytest
from xxhash import xxh3_64_intdigest

from warmroute.routing.key import (
    KEY_VERSION,
    TEXT_BLOCK_CHARACTERS,
    blocks_of,
    byte_chain,
    characters_of,
    native_key,
    order_key,
    partition,
    text_chain,
    text_key,
    twice,
)

HEAD = partition(endpoint="llm", variant="AllTraffic")
N = 1024


def by_hand(*fields):
    """The rule, written down a second time: every field behind its length in four bytes, big-endian."""
    return xxh3_64_intdigest(b"".join(pack(">I", len(field)) + field for field in fields))


# --- version 1 never changes silently ---------------------------------------------------------
# A red test here means that every key of every running fleet moves: raise KEY_VERSION, write it in
# the changelog and in docs/policies/prefix-aware.md, and pin the new values beside these.
BODY = b'{"messages":[{"role":"user","content":"hi"}]}'


def test_the_key_version_is_1():
    assert KEY_VERSION == 1


@pytest.mark.parametrize(
    ("body", "caller_id", "key"), [(BODY, "", 0x252B5C1A646B9ADD), (BODY, "user-1", 0x6DC78A460FE1E4C5)]
)
def test_native_keys_of_version_1_are_pinned(body, caller_id, key):
    assert native_key(HEAD, body, N, caller_id) == key


@pytest.mark.parametrize(
    ("text", "cache_key", "key"),
    [
        ("hi", "", 0xF23B2D93859C1B66),
        ("hi", "user-1", 0xAD3BB6B053979B6B),
        ("é😀" * 600, "", 0x06A1DE9A9F0E8DA6),
    ],
)
def test_text_keys_of_version_1_are_pinned(text, cache_key, key):
    assert text_key(HEAD, text, N, cache_key) == key


def test_a_key_over_every_field_and_the_longest_prefix_is_pinned():
    head = partition(endpoint="1", variant="11", adapter="2", tenant="21")
    assert native_key(head, bytes(range(256)) * 300, 65536, "111") == 0xC1FEBD339C807345


def test_a_key_is_the_hash_of_its_length_prefixed_fields():
    head = partition(endpoint="e", variant="v", adapter="a", tenant="t")
    expected = by_hand(b"1", b"e", b"v", b"a", b"t", b"id", b"body")
    assert native_key(head, b"body", N, "id") == expected
    assert text_key(head, "body", N, "id") == expected


# --- the native prefix: bytes -----------------------------------------------------------------
def body_that_differs_at(position):
    return b"x" * position + b"y" + b"x" * (4 * N - position - 1)


@pytest.mark.parametrize(
    ("position", "same"), [(0, False), (N - 2, False), (N - 1, False), (N, True), (N + 1, True)]
)
def test_native_bodies_share_a_key_when_their_first_prefix_length_bytes_agree(position, same):
    plain, other = b"x" * (4 * N), body_that_differs_at(position)
    assert (native_key(HEAD, plain, N, "") == native_key(HEAD, other, N, "")) is same


@pytest.mark.parametrize(("length", "same"), [(N - 1, False), (N, True), (N + 1, True)])
def test_a_native_body_shorter_than_the_prefix_length_counts_with_what_it_has(length, same):
    assert (native_key(HEAD, b"x" * length, N, "") == native_key(HEAD, b"x" * (2 * N), N, "")) is same


def test_a_native_prefix_may_end_inside_a_character():
    cut = "é".encode()[:1]
    assert native_key(HEAD, b"x" * (N - 1) + "é".encode(), N, "") == native_key(
        HEAD, b"x" * (N - 1) + cut, N, ""
    )


def test_whitespace_in_a_native_body_is_part_of_the_key():
    assert native_key(HEAD, b'{"a":1}', N, "") != native_key(HEAD, b'{"a": 1}', N, "")


# --- the text prefix: code points -------------------------------------------------------------
@pytest.mark.parametrize("character", ["x", "é", "語", "😀"])
@pytest.mark.parametrize(
    ("position", "same"), [(0, False), (N - 2, False), (N - 1, False), (N, True), (N + 1, True)]
)
def test_texts_share_a_key_when_their_first_prefix_length_characters_agree(character, position, same):
    plain = character * (4 * N)
    other = plain[:position] + "ñ" + plain[position + 1 :]
    assert (text_key(HEAD, plain, N, "") == text_key(HEAD, other, N, "")) is same


@pytest.mark.parametrize("character", ["x", "é", "語", "😀"])
@pytest.mark.parametrize(("length", "same"), [(N - 1, False), (N, True), (N + 1, True)])
def test_a_shorter_text_counts_with_what_it_has(character, length, same):
    assert (text_key(HEAD, character * length, N, "") == text_key(HEAD, character * (2 * N), N, "")) is same


def test_a_character_is_a_code_point_not_a_utf_16_unit():
    long = "😀" * N
    assert text_key(HEAD, long, N, "") != text_key(HEAD, long[: N // 2], N, "")
    assert text_key(HEAD, long + "x", N, "") == text_key(HEAD, long + "y", N, "")


def test_a_letter_and_its_combining_form_are_different_characters():
    assert text_key(HEAD, "é", N, "") != text_key(HEAD, "e\u0301", N, "")


def test_a_lone_surrogate_is_a_character_too():
    assert text_key(HEAD, "\ud800", N, "") == by_hand(
        b"1", b"llm", b"AllTraffic", b"", b"", b"", b"\xed\xa0\x80"
    )


# --- fields do not run into each other --------------------------------------------------------
def test_a_character_that_moves_from_the_id_to_the_prompt_makes_another_key():
    assert text_key(HEAD, "bc", N, "a") != text_key(HEAD, "c", N, "ab")
    assert native_key(HEAD, b"bc", N, "a") != native_key(HEAD, b"c", N, "ab")


def test_an_id_that_spells_a_length_prefix_makes_another_key():
    assert text_key(HEAD, "b", N, "a\x00\x00\x00\x01b") != text_key(HEAD, "b\x00\x00\x00\x01b", N, "a")


@pytest.mark.parametrize(
    "fields",
    [
        {"endpoint": "1", "variant": "11"},
        {"endpoint": "11", "variant": "1"},
        {"endpoint": "111", "variant": ""},
        {"endpoint": "", "variant": "111"},
        {"endpoint": "1", "variant": "1", "adapter": "1"},
        {"endpoint": "1", "variant": "1", "tenant": "1"},
        {"endpoint": "1", "variant": "", "adapter": "11"},
        {"endpoint": "1", "variant": "", "adapter": "1", "tenant": "1"},
    ],
)
def test_what_partitions_the_cache_partitions_the_keys(fields):
    assert partition(**fields) != partition(endpoint="1", variant="1", adapter="", tenant="")


def test_the_same_prompt_has_different_keys_on_different_endpoints_and_variants():
    heads = [partition(endpoint=e, variant=v) for e in ("1", "11") for v in ("1", "11")]
    assert len({text_key(head, "hi", N, "") for head in heads}) == 4


# --- no text ----------------------------------------------------------------------------------
def test_an_empty_native_body_without_an_id_has_no_key():
    assert native_key(HEAD, b"", N, "") is None


def test_a_request_without_text_and_cache_key_has_no_key():
    assert text_key(HEAD, "", N, "") is None


def test_an_id_alone_makes_a_key():
    expected = by_hand(b"1", b"llm", b"AllTraffic", b"", b"", b"user-1", b"")
    assert native_key(HEAD, b"", N, "user-1") == expected
    assert text_key(HEAD, "", N, "user-1") == expected


def test_an_id_makes_another_key_of_the_same_prompt():
    keys = {text_key(HEAD, "hi", N, caller) for caller in ("", "1", "11", "2")}
    assert len(keys) == 4


# --- components -------------------------------------------------------------------------------
def test_an_endpoint_without_components_has_the_partition_it_had_before_there_were_any():
    assert partition(endpoint="e", variant="v", component="") == partition(endpoint="e", variant="v")


def test_a_components_keys_of_version_1_are_pinned():
    head = partition(endpoint="e", variant="v", component="c", adapter="a", tenant="t")
    fields = (f"{KEY_VERSION} component", "c", "e", "v", "a", "t")
    assert head == b"".join(len(field).to_bytes(4, "big") + field.encode() for field in fields)
    assert text_key(head, "hi", N, "") == 0x2E109E21255211F4


SIMILAR = [("", ""), ("1", ""), ("", "1"), ("11", ""), ("1", "1")]


def test_two_components_keys_differ_though_the_text_is_the_same():
    heads = [partition(endpoint="e", variant="v", component=c, adapter=a) for c, a in SIMILAR]
    assert len({text_key(head, "hi", N, "") for head in heads}) == len(SIMILAR)


def test_an_order_key_is_the_hash_of_its_partition():
    assert order_key(HEAD) == xxh3_64_intdigest(HEAD)


# --- chains of text blocks --------------------------------------------------------------------
BLOCK = TEXT_BLOCK_CHARACTERS


def chain_by_hand(head, blocks, caller_id=""):
    """The chain, written down a second time."""
    link = xxh3_64_intdigest(head + len(caller_id).to_bytes(4, "big") + caller_id.encode())
    links = []
    for block in blocks:
        link = xxh3_64_intdigest(block, seed=link)
        links.append(link)
    return tuple(links)


ENDS = [0, 128, 256, 512, 1024, 2048, 3072]


def test_chains_of_version_1_are_pinned():
    chain = text_chain(HEAD, "a" * BLOCK + "é" * BLOCK)
    assert (chain[0], chain[3], chain[4]) == (0x539B13AFA57526B6, 0x1E97C0B17789FA91, 0xB8790D02397F8B68)
    pinned = byte_chain(HEAD, bytes(range(256)) * 8, caller_id="1")
    assert (pinned[0], pinned[4]) == (0xA850FEE379F12D3B, 0x66CCB5AE2C7C0C1)


def test_each_link_is_the_hash_of_its_block_seeded_with_the_link_before():
    body = b"a" * BLOCK + b"b" * BLOCK
    blocks = [body[begin:end] for begin, end in pairwise(ENDS[:6])]
    assert byte_chain(HEAD, body) == chain_by_hand(HEAD, blocks)


def test_a_text_block_beyond_ascii_is_hashed_as_its_code_points():
    assert text_chain(HEAD, "a" * 256 + "é" * 256, caller_id="11") == chain_by_hand(
        HEAD, [b"a" * 128, b"a" * 128, b"\xe9\x00\x00\x00" * 256], "11"
    )


def test_text_blocks_end_at_128_256_512_and_1024_characters_and_every_1024_from_there():
    assert [characters_of(depth) for depth in range(7)] == ENDS
    assert characters_of(35) == 32 * 1024


def test_a_text_has_the_blocks_that_end_in_it():
    for depth, end in enumerate(ENDS):
        assert [blocks_of(end), blocks_of(max(end, 1) - 1)] == [depth, max(depth - 1, 0)]


def test_twice_as_many_blocks_have_twice_the_characters():
    depths = [1]
    while depths[-1] < 100:
        depths.append(twice(depths[-1]))
    assert [characters_of(depth) for depth in depths] == [128 << n for n in range(len(depths))]


@pytest.mark.parametrize(
    ("length", "blocks"),
    [
        (0, 0), (127, 0), (128, 1), (255, 1), (256, 2), (511, 2), (512, 3), (BLOCK - 1, 3), (BLOCK, 4),
        (BLOCK + 1, 4), (2 * BLOCK - 1, 4), (2 * BLOCK, 5),
    ],
)  # fmt: skip
def test_a_chain_has_whole_blocks_only(length, blocks):
    chains = byte_chain(HEAD, b"x" * length), text_chain(HEAD, "x" * length), text_chain(HEAD, "é" * length)
    assert [len(chain) for chain in chains] == [blocks] * 3


def test_ascii_text_has_the_chain_of_its_bytes():
    text = "".join(chr(32 + i % 90) for i in range(3 * BLOCK))
    assert text_chain(HEAD, text) == byte_chain(HEAD, text.encode())


def test_what_follows_a_block_changes_nothing_of_its_hash():
    plain, accented = "a" * BLOCK, "a" * BLOCK + "é" * BLOCK
    assert text_chain(HEAD, plain) == text_chain(HEAD, accented)[:4]


def test_one_character_changes_its_block_and_all_after_it():
    one, other = "a" * 4 * BLOCK, "a" * 2 * BLOCK + "b" + "a" * (2 * BLOCK - 1)
    assert [a == b for a, b in zip(text_chain(HEAD, one), text_chain(HEAD, other), strict=True)] == [
        True, True, True, True, True, False, False,
    ]  # fmt: skip


def test_a_lone_surrogate_is_a_character_of_its_block():
    assert text_chain(HEAD, "\ud800" * BLOCK) != text_chain(HEAD, "\ud801" * BLOCK)


@pytest.mark.parametrize("field", ["component", "adapter", "tenant"])
def test_whatever_partitions_the_cache_partitions_key_and_chain_alike(field):
    text = "a" * 2 * BLOCK
    heads = [partition(endpoint="e", variant="v", **{field: name}) for name in ("", "1", "11")]
    keys = {text_key(head, text, N, "") for head in heads}
    chains = {link for head in heads for link in text_chain(head, text)}
    assert (len(keys), len(chains)) == (3, 15)
    assert len({native_key(head, text.encode(), N, "") for head in heads}) == 3


def test_a_callers_id_partitions_key_and_chain_alike():
    text = "a" * BLOCK
    callers = ("", "1", "11", "2")
    assert len({text_key(HEAD, text, N, caller) for caller in callers}) == 4
    assert len({text_chain(HEAD, text, caller_id=caller) for caller in callers}) == 4
