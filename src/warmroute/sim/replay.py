"""Makes the decisions of a log again: the live code, told the same, must answer the same.

A log begins with a router that knows nothing and has every call since, so a fresh router with the recorded
seed lives through the same history. The lines that it tells itself are compared with the recorded ones.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import assert_never

from warmroute.core.decision import Lease, Refused
from warmroute.routing.log import (
    AttemptTold,
    Began,
    CacheTold,
    DeadlineMet,
    Decided,
    Ended,
    FleetApplied,
    Line,
    LogError,
    SessionAdopted,
    SessionClosed,
    SessionOpened,
    VariantChosen,
    adopted,
    asked_of,
    attempt_event,
    cache_event,
    decode,
    decode_first,
)
from warmroute.routing.recorder import RecordedRouter
from warmroute.routing.router import Router, VariantBook


class ReplayError(Exception):
    """The log cannot be read to its end; the text says at which line and why."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the router of today answers otherwise.

    Attributes:
        number: Of the line in the file, from 1.
        recorded: The line.
        replayed: What it would be today; None when this router has nothing to say there.
    """

    number: int
    recorded: Line
    replayed: Line | None


@dataclass(slots=True)
class Replay:
    """What came of a log.

    Attributes:
        began: Its first line.
        lines: How many were followed.
        decisions: How many of them are decisions, refusals included.
        reasons: Decisions by strategy and reason; a refusal has the strategy ``""``.
        targets: Decisions by target.
        first_ns: Time of the first line that has one.
        last_ns: Time of the last.
        ended: ``stopped``, ``full``, or ``""`` for a log that was cut off.
        difference: The first one; nothing after it was followed.
    """

    began: Began
    lines: int = 1
    decisions: int = 0
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    first_ns: int = 0
    last_ns: int = 0
    ended: str = ""
    difference: Difference | None = None

    def count(self, line: Line) -> None:
        """Take a line into account."""
        self.lines += 1
        now_ns = getattr(line, "now_ns", 0)
        if now_ns:
            self.first_ns = self.first_ns or now_ns
            self.last_ns = now_ns
        match line:
            case Decided():
                self.decisions += 1
                self.reasons[line.strategy, line.reason or line.refusal] += 1
                if line.target:
                    self.targets[line.target] += 1
            case Ended():
                self.ended = line.why
            case _:
                pass


class Player:
    """A fresh router that lives through a log.

    Args:
        began: The log's first line.

    Raises:
        LogError: Its seed is none.
    """

    def __init__(self, began: Began) -> None:
        self._said: list[Line] = []
        rng = Random(seed_of(began))  # noqa: S311  (the router's own ties and draws, again)
        # Session ids are hidden already.
        self._router = RecordedRouter(rng, self._hear, hide=str)
        self._books: dict[int, VariantBook] = {}
        self._leases: dict[int, Lease] = {}

    def _hear(self, line: Line) -> bool:
        self._said.append(line)
        return True

    def play(self, line: Line) -> Line | None:
        """Make the call of a line.

        Returns:
            The line that the router tells of it; None when it tells nothing.

        Raises:
            LogError: The log has not told before what the call is about.
        """
        self._said.clear()
        try:
            self._call(line)
        except KeyError as error:
            raise LogError(f"it speaks of {error}, of which the log has not told before") from None
        except AssertionError as error:
            raise LogError(f"the router cannot be in this state: {error}") from error
        return self._said[0] if self._said else None

    def _call(self, line: Line) -> None:
        router = self._router
        match line:
            case FleetApplied():
                router.apply_fleet(line.fleet)
            case VariantChosen():
                endpoint = router.endpoints[line.endpoint]
                book = (
                    router.shadow_of(endpoint)
                    if line.shadow
                    else router.choose_variant(
                        endpoint, line.asked, component=line.component, session=line.session
                    )
                )
                if book is not None:
                    self._books[line.book] = book
            case Decided():
                decision = router.decide(self._books[line.book], asked_of(line), line.now_ns, line.tried)
                if not isinstance(decision, Refused):
                    self._leases[line.lease] = decision.lease
            case CacheTold() | DeadlineMet() | SessionAdopted():
                tell(router, line)
            case AttemptTold() | SessionOpened() | SessionClosed():
                self._call_about_lease(line, self._leases[line.lease])
            case Began() | Ended():
                self._said.append(line)
            case _:
                assert_never(line)

    def _call_about_lease(self, line: AttemptTold | SessionOpened | SessionClosed, lease: Lease) -> None:
        match line:
            case AttemptTold():
                self._router.apply(attempt_event(line, lease), line.now_ns)
                if line.event != "first_token":
                    del self._leases[line.lease]
            case SessionOpened():
                self._router.open_session(lease, line.session, line.deadline_ns, line.now_ns)
            case SessionClosed():
                self._router.close_session(lease, line.session)
            case _:
                assert_never(line)


def tell(router: Router, line: CacheTold | DeadlineMet | SessionAdopted) -> None:
    """Make a call that asks for no decision.

    Args:
        router: Which is told.
        line: Of the log.

    Raises:
        LogError: There is no such event.
    """
    match line:
        case CacheTold():
            router.learn(cache_event(line), line.now_ns)
        case DeadlineMet():
            router.on_deadline(line.now_ns)
        case SessionAdopted():
            router.adopt_session(line.endpoint, line.session, adopted(line), line.now_ns)
        case _:
            assert_never(line)


def seed_of(began: Began) -> int:
    """Return the seed of the recorded router.

    Raises:
        LogError: It is no number.
    """
    try:
        return int(began.seed, 16)
    except ValueError:
        raise LogError(f"the seed must be a hexadecimal number, got {began.seed[:40]}") from None


def replay(data: Iterable[bytes]) -> Replay:
    """Make the decisions of a log again, up to the first that differs.

    Args:
        data: The file, line by line, with the line feeds.

    Raises:
        ReplayError: It is no log, one of another format, or damaged. A last line that was cut off is fine:
            the router was killed.
    """
    lines = read(data)
    _, began = next(lines)
    assert isinstance(began, Began), "read returns it first"
    found = Replay(began)
    number = 1
    try:
        player = Player(began)
        for number, line in lines:
            replayed = player.play(line)
            if replayed != line:
                found.difference = Difference(number, line, replayed)
                break
            found.count(line)
    except LogError as error:
        raise ReplayError(f"line {number}: {error}") from error
    return found


def read(data: Iterable[bytes]) -> Iterator[tuple[int, Line]]:
    """Return the lines of a log with their numbers, the first one first.

    Args:
        data: The file, line by line, with the line feeds.

    Raises:
        ReplayError: As `replay`.
    """
    number = 0
    for number, text in enumerate(data, 1):
        try:
            line = decode_first(text) if number == 1 else decode(text)
        except LogError as error:
            if number > 1 and not text.endswith(b"\n"):
                return  # the router was killed while it wrote
            raise ReplayError(str(error) if number == 1 else f"line {number}: {error}") from None
        if number > 1 and isinstance(line, Began):
            raise ReplayError(f"line {number}: another log begins here; replay each in a file of its own")
        yield number, line
    if not number:
        raise ReplayError("it is empty; a router writes once a second")
