"""What an invocation names: an endpoint, a variant of it, and on some endpoints an inference component."""

from warmroute.core.errors import Failure, Problem
from warmroute.routing.books import EndpointBook, VariantBook
from warmroute.routing.router import Router
from warmroute.wire import texts


class Found:
    """What was named. A plain class: one is built per request, and compiled it costs next to nothing.

    Args:
        book: The variant that serves it.
        component: The inference component whose copies serve it, or ``""``.
        adapter: The LoRA adapter on them, or ``""``.
    """

    __slots__ = ("adapter", "book", "component")

    def __init__(self, book: VariantBook, component: str = "", adapter: str = "") -> None:
        self.book = book
        self.component = component
        self.adapter = adapter


def find(
    router: Router, account: str, name: str, *, component: str | None, target_variant: str | None = None,
    session: str = "",
) -> Found | Failure:  # fmt: skip
    """Look up what an invocation names, and draw its variant.

    Args:
        router: With the fleet.
        account: For SageMaker's words.
        name: EndpointName.
        component: InferenceComponentName; None where it names none.
        target_variant: TargetVariant; None for a draw.
        session: SessionId, or ``""``.

    Cost:
        Two look-ups where an endpoint carries no components.
    """
    endpoint = router.endpoints.get(name)
    if endpoint is None:
        return texts.endpoint_not_found(name, account)
    if (component is not None) is not endpoint.carries_components:
        return texts.component_required() if component is None else texts.component_not_allowed()
    if component is not None:
        return _find_component(
            router, account, endpoint, component=component, target_variant=target_variant, session=session
        )
    book = router.choose_variant(endpoint, target_variant, session=session)
    return _no_variant(endpoint, account, target_variant) if book is None else Found(book)


def _find_component(
    router: Router, account: str, endpoint: EndpointBook, *, component: str, target_variant: str | None,
    session: str,
) -> Found | Failure:  # fmt: skip
    having = [book for book in endpoint.variants.values() if component in book.components]
    if not having:
        return _no_component(router, endpoint, account, component)
    book = router.choose_variant(endpoint, target_variant, component=component, session=session)
    if book is None:
        return _no_variant(endpoint, account, target_variant)
    addressed = book.addressed(component)
    if addressed is None:  # TargetVariant, or the session, names one without it
        return texts.component_not_on_variant(
            component, book.name, dict.fromkeys([other.name for other in having])
        )
    return Found(book, addressed[0], addressed[1])


def why_gone(router: Router, account: str, name: str, component: str) -> Failure | None:
    """Return why a component that was found before is not found any more; None while it is there.

    Args:
        router: With the fleet.
        account: For SageMaker's words.
        name: EndpointName.
        component: InferenceComponentName.
    """
    endpoint = router.endpoints.get(name)
    if endpoint is None:
        return texts.endpoint_not_found(name, account)
    if any(component in book.components for book in endpoint.variants.values()):
        return None
    return _no_component(router, endpoint, account, component)


def _no_variant(endpoint: EndpointBook, account: str, target_variant: str | None) -> Failure:
    if target_variant is not None and endpoint.variants:
        known = ", ".join(sorted(endpoint.variant_names()))
        text = f"Variant {target_variant} not found on endpoint {endpoint.name} of account {account}"
        return Failure(Problem.BAD_REQUEST, f"{text}; it has: {known}.")
    text = f"Endpoint {endpoint.name} has no instance in service yet."
    if any(book.candidates for book in endpoint.variants.values()):
        text = f"Every variant of endpoint {endpoint.name} has weight 0; name one in TargetVariant."
    return Failure(Problem.NO_CAPACITY, text)


def _no_component(router: Router, endpoint: EndpointBook, account: str, component: str) -> Failure:
    elsewhere = [
        other.name
        for other in router.endpoints.values()
        if other is not endpoint and any(component in book.components for book in other.variants.values())
    ]
    return texts.component_not_found(component, account, endpoint=endpoint.name, elsewhere=elsewhere)


def invocable(router: Router) -> list[tuple[str, str]]:
    """Return everything that plain OpenAI routes may name as ``model``, in order, each with its parent.

    Returns:
        ``endpoint`` for one of a model, ``endpoint/component`` for each component and adapter of others; the
        parent is that of an adapter's base component, else ``""``. Only endpoints in service.
    """
    found: dict[str, str] = {}
    for endpoint in router.endpoints.values():
        if not endpoint.in_service:
            continue
        if not endpoint.carries_components:
            found[endpoint.name] = ""
        for book in endpoint.variants.values():
            for name, base in book.components.items():
                found[f"{endpoint.name}/{name}"] = "" if base == name else f"{endpoint.name}/{base}"
    return sorted(found.items())
