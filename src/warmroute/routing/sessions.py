"""Open sessions: which target each one is pinned to, and until when. Bounded, and no clock of its own.

The model server begins a session, and gives it its id and its end; from then on every request with that id
goes to the same target, since only that one knows what the session is about. An entry outlives its target
until its deadline, so that the caller is told what became of it.

Source: sagemaker-runtime service model, InvokeEndpoint's SessionId and NewSessionId.
"""

from collections import Counter
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from warmroute.core.decision import NEW_SESSION
from warmroute.core.limits import SESSION_ID_CHARACTERS_MAX, SESSION_S_MAX, SESSIONS_MAX

_LIFE_NS_MAX = int(SESSION_S_MAX * 1e9)


@dataclass(frozen=True, slots=True)
class Session:
    """What a session is pinned to.

    Attributes:
        variant: Name of the variant whose target it is.
        revision: Which of the variant's revisions.
        target_id: The target that knows of the session.
        generation: Of that target: another one knows nothing.
        deadline_ns: The session is over at this moment.
    """

    variant: str
    target_id: str
    generation: int
    deadline_ns: int
    revision: int = 0


class SessionTable:
    """The open sessions of all endpoints, by endpoint and id.

    Args:
        sessions_max: How many may be open at once.
    """

    __slots__ = ("_ends", "_open", "_pinned", "_sessions_max")

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._open: dict[tuple[str, str], Session] = {}
        self._pinned: Counter[tuple[str, int]] = Counter()
        # A heap of deadlines. Entries of sessions that were closed, or whose deadline moved, are void.
        self._ends: list[tuple[int, tuple[str, str]]] = []

    def __len__(self) -> int:
        return len(self._open)

    def full(self, now_ns: int) -> bool:
        """Return whether no session can be opened now; forgets those that are over when it seems so."""
        if len(self._open) < self._sessions_max:
            return False
        self.expire(now_ns)
        return len(self._open) >= self._sessions_max

    def open(self, endpoint: str, session_id: str, session: Session, now_ns: int) -> bool:
        """Pin a session, or pin it anew.

        Args:
            endpoint: Where it was opened; ids of different endpoints have nothing to do with each other.
            session_id: As the model server named it.
            session: What it is pinned to; a deadline more than `SESSION_S_MAX` ahead is brought back to it.
            now_ns: Monotonic time.

        Returns:
            Whether it is open now; False when its deadline has passed, its id is none, or the table is full.
        """
        if session.deadline_ns <= now_ns or not 0 < len(session_id) <= SESSION_ID_CHARACTERS_MAX:
            return False
        if session_id == NEW_SESSION:
            return False
        at = (endpoint, session_id)
        if at not in self._open and self.full(now_ns):
            return False
        self._forget(at)
        deadline_ns = min(session.deadline_ns, now_ns + _LIFE_NS_MAX)
        self._open[at] = Session(
            session.variant, session.target_id, session.generation, deadline_ns, session.revision
        )
        self._pinned[session.target_id, session.generation] += 1
        heappush(self._ends, (deadline_ns, at))
        if len(self._ends) > 2 * len(self._open) + 64:  # sessions that are closed early must not pile up
            self._ends = [(pinned.deadline_ns, key) for key, pinned in self._open.items()]
            heapify(self._ends)
        return True

    def find(self, endpoint: str, session_id: str) -> Session | None:
        """Return what a session is pinned to, its deadline passed or not; None when it is not kept."""
        return self._open.get((endpoint, session_id))

    def close(self, endpoint: str, session_id: str) -> None:
        """Forget a session; one that is not open is no error."""
        self._forget((endpoint, session_id))

    def pinned_to(self, target_id: str, generation: int) -> int:
        """Return how many sessions are pinned to a target, those that are over but not forgotten included."""
        return self._pinned[target_id, generation]

    # --- time -------------------------------------------------------------------------------
    def next_deadline_ns(self) -> int | None:
        """Return when the first session is over; None without one."""
        while self._ends and self._void(self._ends[0]):
            heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def expire(self, now_ns: int) -> None:
        """Forget the sessions that are over.

        Cost:
            A few µs for each, and next to nothing when there is none.
        """
        while self._ends and (self._ends[0][0] <= now_ns or self._void(self._ends[0])):
            end = heappop(self._ends)
            if not self._void(end):
                self._forget(end[1])

    def _void(self, end: tuple[int, tuple[str, str]]) -> bool:
        session = self._open.get(end[1])
        return session is None or session.deadline_ns != end[0]

    def _forget(self, at: tuple[str, str]) -> None:
        session = self._open.pop(at, None)
        if session is None:
            return
        target = (session.target_id, session.generation)
        self._pinned[target] -= 1
        if not self._pinned[target]:
            del self._pinned[target]
