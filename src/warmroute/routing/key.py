"""The routing key: a stable 64-bit hash of what should land on the same target.

Key version 1. The hash is over length-prefixed fields, so that no two different field lists give the
same bytes: the partition (key version, endpoint, variant, and whatever partitions the engine's
cache), the caller's own id, and the start of the prompt. It never changes silently: another rule
is another version, and the version is part of every key.

The chain of KV_AWARE's text blocks begins with the same partition, so that what tells two keys apart
because the engine's cache tells them apart (component, adapter, tenant) tells two chains apart as well.
"""

from typing import Final

from xxhash import xxh3_64_intdigest

KEY_VERSION: Final = 1
TEXT_BLOCK_CHARACTERS: Final = 1024
"""Characters (OpenAI) or bytes (native) in a text block of KV_AWARE, but for the first ones."""
_FIRST_ENDS: Final = (0, 128, 256, 512)
"""Where the first text blocks end: starts of short prompts, of which chats have many, are told apart too."""
_EXTRA: Final = len(_FIRST_ENDS) - 1


_COMPONENT_VERSION = f"{KEY_VERSION} component"
"""First field of a partition with a component. The first field says which fields follow: keys of endpoints
without components are what they were before there were any."""


def partition(
    *, endpoint: str, variant: str, component: str = "", adapter: str = "", tenant: str = ""
) -> bytes:
    """Return the part of the key that many requests have in common: what they must share to share a cache.

    Args:
        endpoint: Endpoint name.
        variant: Variant name.
        component: Inference component that carries the model, the base component of an adapter; ``""`` on
            endpoints of one model.
        adapter: LoRA adapter; engines do not share cache between adapters.
        tenant: Cache salt of the tenant.

    Cost:
        About 1.5 µs: computed once per variant, component and adapter (`VariantBook.head_of`).
    """
    fields = (endpoint, variant, adapter, tenant)
    if component:
        return b"".join([_field(part) for part in (_COMPONENT_VERSION, component, *fields)])
    return b"".join([_field(part) for part in (str(KEY_VERSION), *fields)])


def characters_of(depth: int) -> int:
    """Return how many characters the first ``depth`` text blocks of a prompt have.

    They end at 128, 256, 512 and 1,024 characters, and every 1,024 from there.
    """
    return _FIRST_ENDS[depth] if depth <= _EXTRA else (depth - _EXTRA) * TEXT_BLOCK_CHARACTERS


def blocks_of(characters: int) -> int:
    """Return how many whole text blocks there are in so many characters."""
    if characters >= TEXT_BLOCK_CHARACTERS:
        return characters // TEXT_BLOCK_CHARACTERS + _EXTRA
    return sum(characters >= end for end in _FIRST_ENDS[1:])


def twice(depth: int) -> int:
    """Return how many text blocks, of at least one, there are in twice the characters of ``depth`` blocks."""
    return depth + 1 if depth <= _EXTRA else 2 * depth - _EXTRA


def order_key(head: bytes) -> int:
    """Return the key of a partition itself: the order in which an adapter's copies are tried.

    Args:
        head: From `partition`.
    """
    return xxh3_64_intdigest(head)


def native_key(head: bytes, body: bytes, prefix_length: int, prefix_aware_id: str) -> int | None:
    """Return the key of a native invocation.

    Args:
        head: From `partition`.
        body: The raw request body.
        prefix_length: PrefixLength, in bytes here.
        prefix_aware_id: X-Amzn-SageMaker-Prefix-Aware-Id, or ``""``.

    Returns:
        The key; None for an empty body without an id, which would make one hot spot of all such calls.

    Source:
        sagemaker service model, PrefixAwareRoutingConfig: the first PrefixLength bytes of the body.
    """
    if not body and not prefix_aware_id:
        return None
    return _digest(head, prefix_aware_id, body[:prefix_length])


def text_key(head: bytes, text: str, prefix_length: int, cache_key: str) -> int | None:
    """Return the key of a request on an OpenAI route.

    Args:
        head: From `partition`.
        text: The prompt's text, in order.
        prefix_length: PrefixLength, in characters (code points) here.
        cache_key: ``prompt_cache_key``, or ``""``.

    Returns:
        The key; None for a request without any text and without a cache key.

    Source:
        sagemaker service model, PrefixAwareRoutingConfig: the first PrefixLength characters of the
        text content of ``messages``.
    """
    if not text and not cache_key:
        return None
    # surrogatepass: JSON may carry a lone surrogate, which has no UTF-8 form; it is still a character.
    return _digest(head, cache_key, text[:prefix_length].encode("utf-8", "surrogatepass"))


def byte_chain(head: bytes, body: bytes, *, caller_id: str = "") -> tuple[int, ...]:
    """Return the chained hashes of a native body's whole text blocks, `characters_of` of bytes.

    Two chains agree up to a block exactly when partition, caller's id and all bytes up to the end of that
    block agree (but for 64-bit collisions).

    Args:
        head: From `partition`.
        body: The raw request body.
        caller_id: An id that shall tell chains apart; ``""`` for none. The ids of PREFIX_AWARE are hints
            and no partition of an engine's cache: a chain that is to say what is in a cache has none.

    Returns:
        One 64-bit hash per whole block, the first block's first; empty for a body of less than 128 bytes.

    Cost:
        About 7 µs for 32 KB.
    """
    link = xxh3_64_intdigest(head + _field(caller_id))
    view = memoryview(body)  # slices of it are not copies: half the time
    chain = []
    end = 0
    for depth in range(1, blocks_of(len(body)) + 1):
        begin, end = end, characters_of(depth)
        link = xxh3_64_intdigest(view[begin:end], link)
        chain.append(link)
    return tuple(chain)


def text_chain(head: bytes, text: str, *, caller_id: str = "") -> tuple[int, ...]:
    """Return the chained hashes of a prompt's whole text blocks, `characters_of` of code points.

    Args:
        head: From `partition`.
        text: The prompt's text, in order.
        caller_id: As in `byte_chain`.

    Returns:
        As `byte_chain`, and the same as it for text that is ASCII.

    Cost:
        About 8 µs for 32 KB of ASCII, 13 µs for 32 KB of Chinese, 20 µs for English with a few accents.
    """
    if text.isascii():
        return byte_chain(head, text.encode("ascii"), caller_id=caller_id)
    link = xxh3_64_intdigest(head + _field(caller_id))
    chain = []
    end = 0
    for depth in range(1, blocks_of(len(text)) + 1):
        begin, end = end, characters_of(depth)
        block = text[begin:end]
        # What a block is hashed as depends on that block alone, not on what follows it. UTF-32 takes a third
        # of the time of UTF-8; a block of it is four times as long, so never the bytes of an ASCII block.
        encoding = "ascii" if block.isascii() else "utf-32-le"
        link = xxh3_64_intdigest(block.encode(encoding, "surrogatepass"), link)
        chain.append(link)
    return tuple(chain)


def _digest(head: bytes, caller_id: str, prompt: bytes) -> int:
    return xxh3_64_intdigest(b"".join((head, _field(caller_id), len(prompt).to_bytes(4, "big"), prompt)))


def _field(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(4, "big") + encoded
