"""The routing key: a stable 64-bit hash of what should land on the same target.

Key version 1. The hash is over length-prefixed fields, so that no two different field lists give the
same bytes: the partition (key version, endpoint, variant, and whatever partitions the engine's
cache), the caller's own id, and the start of the prompt. It never changes silently: another rule
is another version, and the version is part of every key.
"""

from xxhash import xxh3_64_intdigest

KEY_VERSION = 1
TEXT_BLOCK_CHARACTERS = 1024
"""Characters (OpenAI) or bytes (native) in a text block of KV_AWARE."""


def partition(*, endpoint: str, variant: str, adapter: str = "", tenant: str = "") -> bytes:
    """Return the part of the key that is the same for every request of a variant, computed once.

    Args:
        endpoint: Endpoint name.
        variant: Variant name.
        adapter: LoRA adapter; engines do not share cache between adapters.
        tenant: Cache salt of the tenant.
    """
    return b"".join(_field(part) for part in (str(KEY_VERSION), endpoint, variant, adapter, tenant))


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


def _digest(head: bytes, caller_id: str, prompt: bytes) -> int:
    return xxh3_64_intdigest(b"".join((head, _field(caller_id), len(prompt).to_bytes(4, "big"), prompt)))


def _field(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(4, "big") + encoded
