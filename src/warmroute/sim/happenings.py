"""What can be on a simulation's agenda."""

from dataclasses import dataclass

from warmroute.core.decision import Lease
from warmroute.sim.faults import Fault
from warmroute.sim.instance import Attempt, Instance
from warmroute.sim.policy import Chooser
from warmroute.sim.signals import Signal
from warmroute.workload.arrivals import Arrival


@dataclass(frozen=True, slots=True)
class Came:
    """A request comes.

    Attributes:
        arrival: What and from whom.
        from_list: It comes whatever the answers are, and so does the next one.
    """

    arrival: Arrival
    from_list: bool


@dataclass(frozen=True, slots=True)
class Reached:
    """The instance has read a request and gives it to its engine, if the lease is in force still."""

    attempt: Attempt
    lease: Lease


@dataclass(frozen=True, slots=True)
class NotReached:
    """The router finds out that nobody listens there, if the lease is in force still."""

    attempt: Attempt
    lease: Lease


@dataclass(frozen=True, slots=True)
class PatienceEnds:
    """A client gives up unless its first token has come."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class TimeoutEnds:
    """A router gives an attempt up unless its first token has come or the lease is no more in force."""

    attempt: Attempt
    lease: Lease


@dataclass(frozen=True, slots=True)
class StepsEnd:
    """The steps under way in an engine may have ended."""

    instance: Instance


@dataclass(frozen=True, slots=True)
class Told:
    """The routers hear of the targets as they are now."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The routers poll every engine's metrics."""


@dataclass(frozen=True, slots=True)
class DeadlineEnds:
    """Something is due in a router."""

    chooser: Chooser


RequestHappening = Came | Reached | NotReached | PatienceEnds | TimeoutEnds
Happening = RequestHappening | StepsEnd | Told | Polled | DeadlineEnds | Fault | Signal
