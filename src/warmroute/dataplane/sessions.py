"""Stateful sessions at the gateway: which target a SessionId leads to, and what an answer says of sessions.

The router keeps the sessions that are open. An id that it does not know carries a ticket (`wire.sessions`):
with it a session works at whatever router gets the next call, and after a restart of the one that opened it.
"""

from xxhash import xxh3_64_intdigest

from warmroute.core.decision import NEW_SESSION, Lease, Refusal
from warmroute.core.events import Invocation
from warmroute.core.limits import SESSION_S_MAX, SESSIONS_CLOSED_MAX
from warmroute.dataplane.ports import Clock
from warmroute.routing.books import EndpointBook, VariantBook
from warmroute.routing.router import Router
from warmroute.routing.sessions import Session
from warmroute.wire import sessions as wire
from warmroute.wire.headers import HeaderList
from warmroute.wire.sessions import Ticket


class Sessions:
    """The sessions of a router's callers.

    Args:
        router: Which decides, and keeps what is open.
        clock: Tells how long is left until a time of the wall clock.

    Attributes:
        secret: From the fleet; all routers have the same.
        closed_max: Sessions remembered as closed.
    """

    def __init__(self, router: Router, clock: Clock) -> None:
        self._router = router
        self._clock = clock
        self.secret = ""
        self.closed_max = SESSIONS_CLOSED_MAX
        # Until when the ids of sessions that were closed here could be used; the oldest first.
        self._closed: dict[tuple[str, str], int] = {}

    def call(self, endpoint: str, session_id: str) -> "SessionCall | Refusal":
        """Return what a call with a SessionId is about, known to the router from now on.

        Args:
            endpoint: That is called.
            session_id: `NEW_SESSION`, or an id as the caller has it.

        Returns:
            The call; or why there can be none.
        """
        if session_id == NEW_SESSION:
            return SessionCall(self, endpoint, NEW_SESSION, "")
        own, ticket = wire.without_ticket(session_id, endpoint=endpoint, secret=self.secret)
        if ticket is not None and self._router.sessions.find(endpoint, session_id) is None:
            refusal = self._adopt(endpoint, session_id, ticket)
            if refusal is not None:
                return refusal
        return SessionCall(self, endpoint, session_id, own)

    def _adopt(self, endpoint: str, session_id: str, ticket: Ticket) -> Refusal | None:
        """Let the router know a session that it did not open; return why not."""
        book = self._router.endpoints.get(endpoint)
        if book is None:
            return None  # which is told by who looks for the endpoint
        now_ns = self._clock.now_ns()
        deadline_ns = self._deadline_ns(ticket.expires_s, now_ns)
        if deadline_ns <= now_ns or (endpoint, session_id) in self._closed:
            return Refusal.SESSION_UNKNOWN
        session = _located(book, ticket, deadline_ns)
        if session is None:
            return Refusal.SESSION_GONE
        if not self._router.adopt_session(endpoint, session_id, session, now_ns):
            return Refusal.SESSIONS_FULL
        return None

    def opened(self, endpoint: str, lease: Lease, begun: wire.Announced) -> tuple[str, float]:
        """Pin a session that a model server has begun.

        Returns:
            The caller's id, and when the session ends, in seconds since 1970.
        """
        now_ns, now_s = self._clock.now_ns(), self._clock.wall_s()
        expires_s = now_s + SESSION_S_MAX
        if begun.expires_s is not None and begun.expires_s < expires_s:
            expires_s = begun.expires_s
        book = lease.book
        assert isinstance(book, VariantBook), "leases come from decide"
        place = _place(book, lease.target.target_id)
        ticket = Ticket(place, lease.generation, max(int(expires_s), 0))
        session_id = wire.with_ticket(begun.session_id, ticket, endpoint=endpoint, secret=self.secret)
        # Where the router cannot keep it, its ticket leads there as long as it may.
        self._router.open_session(lease, session_id, self._deadline_ns(expires_s, now_ns), now_ns)
        return session_id, expires_s

    def closed(self, endpoint: str, lease: Lease, session_id: str) -> None:
        """Forget a session that its model server has closed, and refuse its id from now on."""
        session = self._router.sessions.find(endpoint, session_id)
        if session is None or not self._router.close_session(lease, session_id):
            return
        now_ns = self._clock.now_ns()
        while self._closed:
            at, until_ns = next(iter(self._closed.items()))
            if until_ns > now_ns and len(self._closed) < self.closed_max:
                break
            del self._closed[at]
        self._closed[endpoint, session_id] = session.deadline_ns

    def _deadline_ns(self, expires_s: float, now_ns: int) -> int:
        left_s = min(expires_s - self._clock.wall_s(), SESSION_S_MAX)
        return now_ns + int(left_s * 1e9)


class SessionCall:
    """A call with a SessionId.

    Args:
        sessions: Of the router.
        endpoint: That is called.
        session_id: `NEW_SESSION`, or the caller's id.
        own_id: The model server's own id; ``""`` for a new session.
    """

    __slots__ = ("_endpoint", "_sessions", "own_id", "session_id")

    def __init__(self, sessions: Sessions, endpoint: str, session_id: str, own_id: str) -> None:
        self._sessions = sessions
        self._endpoint = endpoint
        self.session_id = session_id
        self.own_id = own_id

    def upstream(self, fields: HeaderList) -> HeaderList:
        """Return a call's fields with the model server's own id in place of the caller's."""
        if not self.own_id or self.own_id == self.session_id:
            return fields
        own = (wire.SENT_ID, self.own_id.encode())
        return [own if field[0] == wire.SENT_ID else field for field in fields]

    def answered(self, lease: Lease, fields: HeaderList, record: Invocation) -> HeaderList:
        """Take what an answer says of sessions.

        Args:
            lease: Of the attempt, not given back yet.
            fields: Of the model server's answer.
            record: Of the invocation, in which it is noted.

        Returns:
            The fields, with the caller's ids in place of the model server's own.
        """
        opened, expires_s, closed_id = "", 0.0, ""
        begun = wire.announced(fields)
        if begun is not None:
            opened, expires_s = self._sessions.opened(self._endpoint, lease, begun)
            record.session = "opened"
        if self.own_id and wire.closed(fields) == self.own_id:
            closed_id = self.session_id
            self._sessions.closed(self._endpoint, lease, closed_id)
            record.session = "closed"
        if not opened and not closed_id:
            return fields
        return wire.told(fields, opened=opened, expires_s=expires_s, closed_id=closed_id)


def _place(book: VariantBook, target_id: str) -> int:
    return xxh3_64_intdigest(f"{book.name}\0{book.revision}\0{target_id}".encode())


def _located(endpoint: EndpointBook, ticket: Ticket, deadline_ns: int) -> Session | None:
    """Return where a ticket leads to; None when that is gone.

    Cost:
        0.4 µs per target of the endpoint, once for each session that this router did not open.
    """
    for book in endpoint.variants.values():
        for target_id, row in book.rows.items():
            if row.gone or _place(book, target_id) != ticket.place:
                continue
            generation = row.target.generation
            if not wire.is_same_generation(generation, ticket):
                return None
            return Session(book.name, target_id, generation, deadline_ns, book.revision)
    return None
