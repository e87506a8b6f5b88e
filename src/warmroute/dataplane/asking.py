"""What routing sees of a request: its key and, where the strategy asks for it, the chain of its text blocks.

What partitions the engine's cache partitions both: the component and, under KV_AWARE, vLLM's ``cache_salt``
and the model that a caller asks the engine for, which may be an adapter.
"""

from warmroute.core.decision import NO_PROMPT, RoutingRequest
from warmroute.routing.books import VariantBook
from warmroute.routing.key import byte_chain, native_key, text_chain, text_key
from warmroute.wire import chat
from warmroute.wire.chat import OpenAIRequest


def native_request(
    book: VariantBook, body: bytes, *, prefix_aware_id: str, component: str, adapter: str = "",
    session: str = "",
) -> RoutingRequest:  # fmt: skip
    """Return what routing sees of a native invocation.

    Args:
        book: The variant that serves it.
        body: As it came.
        prefix_aware_id: X-Amzn-SageMaker-Prefix-Aware-Id, or ``""``: a part of the key, not of the chain.
        component: Inference component whose copies serve it, or ``""``.
        adapter: LoRA adapter that it names, or ``""``.
        session: SessionId, `NEW_SESSION`, or ``""``.

    Cost:
        With a chain, about 10 µs for 32 KB.
    """
    if not book.prefix_length:
        return _without_key(component, adapter, session)
    tenant = chat.cache_salt(body) if book.wants_chain else ""
    head = book.head_of(component, adapter, tenant)
    key = native_key(head, body, book.prefix_length, prefix_aware_id)
    if not book.wants_chain:
        # By position: it is built for every request, and names take half as long again.
        return RoutingRequest(key, (), 0, component, adapter, session)
    return RoutingRequest(
        key=key, chain=byte_chain(head, body), characters=len(body), component=component, adapter=adapter,
        session=session,
    )  # fmt: skip


def openai_request(
    book: VariantBook, read: OpenAIRequest, *, names_endpoint: bool, component: str, adapter: str = ""
) -> RoutingRequest:
    """Return what routing sees of a request on an OpenAI route.

    Args:
        book: The variant that serves it.
        read: The request, with as much of its text as the variant asks for.
        names_endpoint: ``model`` names our endpoint; the engine is asked for a model of its own.
        component: Inference component whose copies serve it, or ``""``.
        adapter: LoRA adapter that it names, or ``""``: the engine is asked for that, whatever ``model`` says.

    Cost:
        With a chain, about 10 µs for 32 KB of ASCII.
    """
    if not book.prefix_length:
        return _without_key(component, adapter, "")
    tenant = read.cache_salt or "" if book.wants_chain else ""
    head = book.head_of(component, adapter, tenant)
    key = text_key(head, read.text, book.prefix_length, read.cache_key or "")
    if not book.wants_chain:
        return RoutingRequest(key, (), 0, component, adapter)
    # Chat templates put tools before the messages: requests with other tools share nothing of a cache.
    text = read.tools.decode() + read.text if read.tools else read.text
    model = "" if names_endpoint or adapter else _other_model(book, read.model or "", component)
    return RoutingRequest(
        key=key,
        chain=text_chain(head, text, caller_id=model),
        characters=len(text),
        component=component,
        adapter=adapter,
    )


def _without_key(component: str, adapter: str, session: str) -> RoutingRequest:
    if not component and not session:
        return NO_PROMPT
    return RoutingRequest(None, (), 0, component, adapter, session)


def _other_model(book: VariantBook, model: str, component: str) -> str:
    """Return a model that an engine is asked for where it is not its main one, so perhaps an adapter."""
    if not model or model == book.endpoint:
        return ""
    candidates = book.pool_of(component).candidates if component else book.candidates
    known = candidates[0].target.model_name if candidates else None
    return "" if model == known else model
