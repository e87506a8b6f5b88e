"""A model server of a simulation, and what it has been given."""

from warmroute.core.decision import Lease, RoutingRequest
from warmroute.core.fleet import Target
from warmroute.core.ids import InstanceId, TargetId
from warmroute.engine.scheduler import Engine
from warmroute.engine.scheduler import Sequence as EngineSequence
from warmroute.sim.policy import Chooser
from warmroute.sim.records import Record


class Instance:
    """A model server.

    Attributes:
        engine: Its engine.
        alive: Whether it answers.
        open: Attempts it has been given and that have not ended, by the numbers of their records.
        wakes_ns: When its engine's steps end, as far as that is on the agenda; -1 before.
        loads_known: Loads of adapters that are on their way to the routers, or known there.
        target: As the routers know it; None when it is gone.
    """

    __slots__ = ("alive", "engine", "loads_known", "open", "target", "wakes_ns")

    def __init__(self, number: int, engine: Engine) -> None:
        name = f"instance-{number}"
        self.engine = engine
        self.alive = True
        self.open: dict[int, Attempt] = {}
        self.wakes_ns = -1
        self.loads_known = 0
        self.target: Target | None = Target(TargetId(name), InstanceId(name), 1, "127.0.0.1", 8000 + number)


class Attempt:
    """One invocation on its way, with its present attempt.

    Attributes:
        record: Of the invocation.
        chooser: The router that it came to.
        asked: What routing sees of it.
        tried: Targets that failed it.
        lease: Of the present attempt; None between attempts and after the last.
        instance: That has it.
        sequence: In the instance's engine; None on the way there.
    """

    __slots__ = ("asked", "chooser", "instance", "lease", "record", "sequence", "tried")

    def __init__(self, record: Record, chooser: Chooser, asked: RoutingRequest) -> None:
        self.record = record
        self.chooser = chooser
        self.asked = asked
        self.tried: tuple[str, ...] = ()
        self.lease: Lease | None = None
        self.instance: Instance | None = None
        self.sequence: EngineSequence | None = None
