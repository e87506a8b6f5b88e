"""Invocations of LoRA adapters that are loaded nowhere: they wait, without a lease, until one is.

Who loads adapters hears of it through `ports.AdapterLoads`; that it is done shows in the next fleet.
"""

from collections.abc import Callable

from warmroute.core.decision import Assigned
from warmroute.core.errors import Failure
from warmroute.core.events import Cancelled, Invocation
from warmroute.core.limits import ADAPTER_WAIT_S
from warmroute.dataplane.desk import Desk
from warmroute.dataplane.exchange import LAST_ATTEMPT_SHARE, Exchange
from warmroute.dataplane.finding import why_gone
from warmroute.dataplane.plan import Plan
from warmroute.routing.router import VariantBook
from warmroute.wire import texts

AdapterAt = tuple[str, str, str]
"""Endpoint, base component, adapter."""
_WAIT_NS_MAX = int(ADAPTER_WAIT_S * 1e9)


def is_cold(book: VariantBook, component: str, adapter: str) -> bool:
    """Return whether an adapter is loaded on no copy that could take a lease, while there are such copies."""
    return not book.pool_of(component, adapter).candidates and bool(book.pool_of(component).candidates)


class AdapterWaits:
    """The invocations that wait.

    Args:
        desk: What exchanges work with.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: dict[AdapterAt, dict[AdapterWait, None]] = {}

    def __len__(self) -> int:
        """Return how many invocations wait."""
        return sum(len(waiting) for waiting in self._waiting.values())

    def adapters(self) -> list[AdapterAt]:
        """Return the adapters that are waited for."""
        return list(self._waiting)

    def begin(self, exchange: Exchange, book: VariantBook, plan: Plan) -> "AdapterWait | None":
        """Ask for an invocation's adapter and let it wait.

        Args:
            exchange: Of the invocation, not started.
            book: Its variant.
            plan: Its plan.

        Returns:
            What waits, or has been answered already, as the exchange says; None when nobody here loads
            adapters, and the exchange has to start as it is: some containers load one when they are asked.
        """
        desk, request = self._desk, plan.request
        now_ns = desk.clock.now_ns()
        decision = desk.router.decide(book, request, now_ns)
        if not isinstance(decision, Assigned):  # a session that is gone, say: no adapter helps
            return None
        desk.router.apply(Cancelled(decision.lease), now_ns)
        if not desk.adapters.want(
            endpoint=book.endpoint, component=request.component, adapter=request.adapter
        ):
            return None
        at = (book.endpoint, request.component, request.adapter)
        wait = AdapterWait(self, at, exchange, plan, began_ns=now_ns)
        self._waiting.setdefault(at, {})[wait] = None
        desk.open[wait] = None
        why = book.failures.get(request.adapter)
        if why is not None:  # it was asked for all the same: control tries again while somebody does
            wait.give_up(why)
        return wait

    def drop(self, at: AdapterAt, wait: "AdapterWait") -> None:
        """Let an invocation not wait any more."""
        waiting = self._waiting[at]
        del waiting[wait]
        if not waiting:
            del self._waiting[at]
        self._desk.open.pop(wait, None)

    def look(self, account: str) -> None:
        """Start or answer what waits in vain no longer, now that there is another fleet.

        Args:
            account: For SageMaker's words.
        """
        for at in list(self._waiting):
            gone = why_gone(self._desk.router, account, at[0], at[2])
            if gone is not None:
                self._refuse(at, gone)
                continue
            books = list(self._desk.router.endpoints[at[0]].variants.values())
            if not any(is_cold(book, at[1], at[2]) for book in books):
                self._each(at, AdapterWait.go_on)
                continue
            why = [book.failures[at[2]] for book in books if at[2] in book.failures]
            if why:
                self.failed(*at, why[0])

    def failed(self, endpoint: str, component: str, adapter: str, why: str) -> None:
        """Answer all that wait for an adapter that cannot be loaded.

        Args:
            endpoint: Of the adapter.
            component: Its base component.
            adapter: Its name.
            why: For the callers.
        """
        self._each((endpoint, component, adapter), lambda wait: wait.give_up(why))

    def _refuse(self, at: AdapterAt, failure: Failure) -> None:
        self._each(at, lambda wait: wait.refuse(failure))

    def _each(self, at: AdapterAt, what: "Callable[[AdapterWait], None]") -> None:
        for wait in list(self._waiting.get(at, ())):
            what(wait)

    def left(self, record: Invocation) -> None:
        """Take note of an invocation whose client went away while it waited."""
        record.outcome = "cancelled"
        record.ended_ns = self._desk.clock.now_ns()
        self._desk.observer.invocation_ended(record)

    def now_ns(self) -> int:
        """Return the desk's time."""
        return self._desk.clock.now_ns()


class AdapterWait:
    """An invocation that waits for its adapter; then its exchange, under the same name for the connection.

    Args:
        waits: All of them.
        at: Which adapter.
        exchange: Of the invocation, not started.
        plan: Its plan; the time waited is taken from what the answer may take.
        began_ns: When it began to wait.
    """

    __slots__ = ("_at", "_began_ns", "_exchange", "_over", "_plan", "_unread", "_until_ns", "_waits")

    def __init__(
        self, waits: AdapterWaits, at: AdapterAt, exchange: Exchange, plan: Plan, *, began_ns: int
    ) -> None:
        self._waits = waits
        self._at = at
        self._exchange = exchange
        self._plan = plan
        self._began_ns = began_ns
        last_ns = plan.first_byte_ns - plan.first_byte_ns // LAST_ATTEMPT_SHARE
        self._until_ns = began_ns + min(_WAIT_NS_MAX, last_ns)
        self._over = False
        self._unread = False

    def __repr__(self) -> str:
        return f"<{self._exchange.record.request_id} awaits adapter {self._at[2]}>"

    def _end(self) -> bool:
        """Wait no more; False where that is so already."""
        if self._over:
            return False
        self._over = True
        self._waits.drop(self._at, self)
        return True

    def go_on(self) -> None:
        """Start the exchange: the adapter is loaded, or there is no copy left that it could be loaded on."""
        if self._end():
            waited_ns = self._waits.now_ns() - self._began_ns
            plan = self._plan
            plan.first_byte_ns -= waited_ns
            if plan.total_ns is not None:
                plan.total_ns -= waited_ns
            self._exchange.start()
            if self._unread:
                self._exchange.pause()

    def give_up(self, why: str) -> None:
        """Answer that the adapter cannot be had now."""
        self.refuse(texts.adapter_not_ready(self._at[2], self._at[1], why))

    def refuse(self, failure: Failure) -> None:
        """Answer with this failure."""
        if self._end():
            self._exchange.start(failure)

    # --- ports.Underway -----------------------------------------------------------------------
    def client_gone(self) -> None:
        """Wait no more, or stop the exchange."""
        if self._end():
            self._waits.left(self._exchange.record)
        else:
            self._exchange.client_gone()

    def expire(self, now_ns: int) -> None:
        """Give up when it has taken too long."""
        if not self._over and now_ns >= self._until_ns:
            self.give_up(f"it could not be loaded within {(self._until_ns - self._began_ns) / 1e9:g} s")

    def shut_down(self) -> None:
        """Answer that the process ends."""
        self.give_up("warmroute is shutting down")

    def pause(self) -> None:
        """Let the exchange know, as soon as it runs."""
        self._unread = True
        if self._over:
            self._exchange.pause()

    def resume(self) -> None:
        """Likewise."""
        self._unread = False
        if self._over:
            self._exchange.resume()
