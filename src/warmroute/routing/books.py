"""What routing keeps of a variant and of an endpoint."""

from warmroute.core.fleet import Endpoint, RoutingStrategy, Target, TargetState, Variant
from warmroute.routing.key import TEXT_BLOCK_CHARACTERS, partition
from warmroute.routing.kvbook import KvBook, KvTuning
from warmroute.routing.ledger import Ledger, TargetRow
from warmroute.routing.pool import Pool, pools_of

KV_TUNING = KvTuning()


class VariantBook:
    """One revision of a variant as routing keeps it: its settings, its rows and its ledger.

    A change of strategy or weight leaves the revision as it is, and so keeps the book.

    Attributes:
        candidates: Rows that may take a lease: in service and not ejected, of whatever component.
        components: Name of each inference component that may be invoked on it, with that of its base
            component; its own for one that is no adapter. Empty for a variant of one model.
        failures: Why adapters that are loaded nowhere cannot be loaded, by name.
        key_head: The constant part of the routing keys of requests that name no component and no adapter.
        pool: What serves those.
        pools: By component and adapter, ``""`` for none; those without a row in service are left out.
        kv: What KV_AWARE knows; None with another strategy.
        prefix_length: How much of a prompt the key takes; 0 when the strategy makes no key.
        shadow: Book of the shadow variant that gets copies of its invocations; None for nearly every one.
        share: Part of the variant's traffic that the revision gets, 0 to 1; of a shadow, the part of the
            invocations that it gets copies of.
        weight: What the revision is drawn with among all variants: the variant's weight times ``share``.
        wants_chain: Whether requests shall carry the chain of their text blocks.
    """

    __slots__ = (
        "_heads", "candidates", "components", "endpoint", "failures", "key_head", "kv", "ledger", "name",
        "pool", "pools", "prefix_length", "revision", "routing", "rows", "shadow", "share", "tuning",
        "wants_chain", "weight",
    )  # fmt: skip

    def __init__(self, endpoint: str, variant: Variant, tuning: KvTuning = KV_TUNING) -> None:
        self.endpoint = endpoint
        self.tuning = tuning
        self.kv: KvBook | None = None
        self.name = variant.name
        self.revision = variant.revision
        self.shadow: VariantBook | None = None
        self.key_head = partition(endpoint=endpoint, variant=variant.name)
        self.ledger = Ledger()
        self.rows: dict[str, TargetRow] = {}
        self.candidates: list[TargetRow] = []
        self.components: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.pools: dict[tuple[str, str], Pool] = {}
        self.pool = Pool([])
        self._heads: dict[tuple[str, str], bytes] = {}
        self.renew(variant)

    def renew(self, variant: Variant) -> None:
        """Take over the variant's new description."""
        self.weight = variant.draw_weight
        self.share = variant.share
        self.routing = variant.routing
        self.wants_chain = variant.routing.strategy is RoutingStrategy.KV_AWARE
        self.prefix_length = TEXT_BLOCK_CHARACTERS if self.wants_chain else variant.routing.prefix_length or 0
        if not self.wants_chain:
            self.kv = None
        elif self.kv is None:
            self.kv = KvBook(self.tuning)
        self.components = {
            target.component: target.component for target in variant.targets if target.component
        }
        self.components.update({each.name: each.base or each.name for each in variant.components})
        self.failures = {each.name: each.failure for each in variant.components if each.failure}
        self._heads.clear()
        self._keep(variant.targets)

    def retire(self) -> None:
        """Give up every target; rows with open leases stay until those are released."""
        self._keep(())

    def _keep(self, targets: tuple[Target, ...]) -> None:
        present = {target.target_id for target in targets}
        for target in targets:
            row = self.rows.get(target.target_id)
            if row is None:
                self.rows[target.target_id] = TargetRow(target)
            else:
                row.renew(target)
        for target_id, row in list(self.rows.items()):
            if target_id not in present:
                row.gone = True
                if row.in_flight == 0:
                    del self.rows[target_id]
        self._shelve()
        self.refresh()

    def _shelve(self) -> None:
        """Give every row that is present its shelf: an empty one for a new target, or a new generation."""
        kv = self.kv
        if kv is None:
            for row in self.rows.values():
                row.shelf = None
            return
        shelves = kv.index.shelves
        for target_id, row in self.rows.items():
            if row.gone:
                row.shelf = None
            elif row.shelf is None or row.shelf is not shelves.get(target_id):
                kv.index.leave(target_id)
                row.shelf = kv.index.join(target_id)
        present = {target_id for target_id, row in self.rows.items() if not row.gone}
        for target_id in [each for each in shelves if each not in present]:
            kv.index.leave(target_id)
        components = {self.rows[target_id].target.component for target_id in present}
        for component in [each for each in kv.homes if each not in components]:
            del kv.homes[component]

    def refresh(self) -> None:
        """Recompute the candidates, in an order that does not depend on history."""
        rows = sorted(self.rows.values(), key=lambda row: row.name)
        serving = [row for row in rows if not row.gone and row.target.state is TargetState.IN_SERVICE]
        self.candidates = [row for row in serving if not row.health.ejected]
        self.pools = pools_of(serving)
        self.pool = self.pools["", ""]

    def count_of(self, target_ids: tuple[str, ...]) -> int:
        """Return how many of these targets are its own."""
        return len([target_id for target_id in target_ids if target_id in self.rows])

    def pool_of(self, component: str, adapter: str = "") -> Pool:
        """Return what may serve a request.

        Args:
            component: Base component, or ``""``.
            adapter: Only rows that have it loaded; ``""`` for all.

        Returns:
            A pool, without any row when there is none.
        """
        return self.pools.get((component, adapter)) or Pool([])

    def addressed(self, name: str) -> tuple[str, str] | None:
        """Return the component and the adapter of a request that names an inference component.

        Args:
            name: As the caller has it: of a component, or of an adapter.

        Returns:
            For `RoutingRequest`: the component whose copies serve it, and the adapter, or ``""``; None when
            there is no such component here.
        """
        base = self.components.get(name)
        if base is None:
            return None
        return (name, "") if base == name else (base, name)

    def head_of(self, component: str = "", adapter: str = "", tenant: str = "") -> bytes:
        """Return the constant part of a request's routing key and of its chain.

        Args:
            component: As in `RoutingRequest`.
            adapter: Likewise.
            tenant: What else partitions the engines' caches: a salt; it is not kept.
        """
        if not component and not adapter and not tenant:
            return self.key_head
        head = None if tenant else self._heads.get((component, adapter))
        if head is None:
            head = partition(
                endpoint=self.endpoint, variant=self.name, component=component, adapter=adapter, tenant=tenant
            )
            if (
                not tenant and (component, adapter) in self.pools
            ):  # any name may be asked for: not all are kept
                self._heads[component, adapter] = head
        return head


class EndpointBook:
    """An endpoint as routing keeps it.

    Attributes:
        carries_components: Invocations name an inference component.
        shadow: Of the shadow variant; None without one. Never drawn.
        variants: Books by name and revision, in the fleet's order.
    """

    __slots__ = ("carries_components", "in_service", "name", "shadow", "variants")

    def __init__(self, name: str) -> None:
        self.name = name
        self.in_service = False
        self.carries_components = False
        self.shadow: VariantBook | None = None
        self.variants: dict[tuple[str, int], VariantBook] = {}

    def renew(
        self, endpoint: Endpoint, retired: dict[tuple[str, str, int], VariantBook], tuning: KvTuning
    ) -> list[VariantBook]:
        """Take over the endpoint's new description.

        Args:
            endpoint: As the fleet has it.
            retired: Books of revisions that left; one that comes back is taken out.
            tuning: For new books.

        Returns:
            The books of revisions that have left.
        """
        self.in_service = endpoint.in_service
        before = {(book.name, book.revision): book for book in self.books()}
        after: dict[tuple[str, int], VariantBook] = {}
        for variant in endpoint.all_variants:
            at = (variant.name, variant.revision)
            known = before.pop(at, None) or retired.pop((self.name, *at), None)
            if known is None:
                known = VariantBook(self.name, variant, tuning)
            else:
                known.renew(variant)
            known.shadow = None
            after[at] = known
        shadow = endpoint.shadow
        self.shadow = None if shadow is None else after.pop((shadow.name, shadow.revision))
        self.variants = after
        if self.shadow is not None and self.shadow.share > 0:
            for book in after.values():
                book.shadow = self.shadow
        self.carries_components = endpoint.carries_components or any(
            bool(book.components) for book in after.values()
        )
        return list(before.values())

    def books(self) -> list[VariantBook]:
        """Return every book, the shadow's last."""
        books = list(self.variants.values())
        if self.shadow is not None:
            books.append(self.shadow)
        return books

    def named(self, name: str) -> list[VariantBook]:
        """Return the revisions of a variant; none when the endpoint has no such variant."""
        return [book for book in self.variants.values() if book.name == name]

    def variant_names(self) -> list[str]:
        """Return the names of its variants, each once, in the fleet's order."""
        return list(dict.fromkeys([book.name for book in self.variants.values()]))
