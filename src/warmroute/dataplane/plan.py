"""What an invocation sends, and how."""

from msgspec import Struct

from warmroute.core.decision import RoutingRequest
from warmroute.dataplane.dialects import Dialect
from warmroute.dataplane.sessions import SessionCall
from warmroute.dataplane.telling import Place


class Plan(Struct):
    """What to send, and how: made before the first attempt.

    Attributes:
        place: Where we are and which endpoint was called.
        body: The request's; let go at the first byte of the answer.
        dialect: How the caller reads answers.
        request: What routing sees of it.
        first_byte_ns: How long the instance may take to answer.
        path: Where it serves this; empty for native calls, whose path depends on the target.
        total_ns: How long the answer may take as a whole; None for no bound.
        names_model: ``model`` in the body names our endpoint, and is replaced by the instance's own.
        explain: The answer carries a decision receipt.
        adapter_loaded: The adapter that it asks for was loaded when it began; a copy without it is of no use.
        session: What the answer says of sessions concerns this one; None for calls without one.
    """

    place: Place
    body: bytes
    dialect: Dialect
    request: RoutingRequest
    first_byte_ns: int
    path: str = ""
    total_ns: int | None = None
    names_model: bool = False
    explain: bool = False
    adapter_loaded: bool = False
    session: SessionCall | None = None
