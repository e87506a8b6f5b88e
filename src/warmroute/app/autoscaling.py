"""The parts of autoscaling in the control process, joined."""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

from warmroute.adapters.clock import FastClock, SystemClock
from warmroute.adapters.totals import Totals
from warmroute.controlplane.calls import Calls
from warmroute.controlplane.ports import Clock, Store
from warmroute.controlplane.scaling.autoscaler import Autoscaler, Invoke
from warmroute.controlplane.scaling.metering import Meter
from warmroute.controlplane.scaling.service import ScalingService
from warmroute.core.fleet import Fleet
from warmroute.resources.arns import Place
from warmroute.resources.metrics.alarms import Alarm, AlarmBook, AlarmState
from warmroute.resources.metrics.windows import MetricWindows
from warmroute.resources.scaling.alarms import is_built_in
from warmroute.resources.shapes import Schema

SCALING_PREFIX = "AnyScaleFrontendService."
"""In ``X-Amz-Target``."""


class KnownAlarms(Collection[str]):
    """The names of alarms that there are, and of built-in ones that come with their resource."""

    def __init__(self, book: AlarmBook) -> None:
        self._book = book

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (self._book.state(name) is not None or is_built_in(name))

    def __iter__(self) -> Iterator[str]:
        return (alarm.name for alarm in self._book.alarms())

    def __len__(self) -> int:
        return len(self._book.alarms())


class Autoscaling:
    """Alarms, the service of Application Auto Scaling, and the autoscaler."""

    def __init__(
        self,
        *,
        store: Store,
        place: Place,
        declared: tuple[Alarm, ...] = (),
        speed: float = 1.0,
    ) -> None:
        """Make the alarms; ``join`` adds what needs the SageMaker API.

        Args:
            store: Where records are.
            place: Region and account.
            declared: The alarms of the settings.
            speed: Seconds that pass for all of it in one.
        """
        self._store = store
        self._place = place
        self._declared = declared
        self._speed = speed
        self._clock: Clock = SystemClock() if speed == 1.0 else FastClock(speed)
        self._windows = MetricWindows()
        self.book = AlarmBook()
        self.book.define(declared)
        self.names = KnownAlarms(self.book)
        self._schema: asyncio.Future[Schema] | None = None
        self._changed = asyncio.Event()

    def states(self) -> Mapping[str, AlarmState]:
        """Return how each alarm stands."""
        return self.book.states()

    def service(self, calls: Calls) -> ScalingService:
        """Return the service of Application Auto Scaling; ``calls`` counts its calls."""
        return ScalingService(
            store=self._store,
            schema=self._get_schema,
            place=self._place,
            clock=self._clock,
            calls=calls,
            new_id=new_id,
            declared=self._declared,
            on_change=self._changed.set,
        )

    async def run(self, *, totals: Totals, invoke: Invoke, fleet: Callable[[], Fleet | None]) -> None:
        """Look at metrics and change capacities, for ever.

        Args:
            totals: What the routers counted.
            invoke: Calls an operation of the SageMaker API.
            fleet: Returns the newest fleet.
        """
        autoscaler = Autoscaler(
            store=self._store,
            invoke=invoke,
            source=self._windows,
            book=self.book,
            clock=self._clock,
            place=self._place,
            new_id=new_id,
            declared=self._declared,
        )
        await autoscaler.run(Meter(self._windows, totals), fleet, self._pause)

    async def _pause(self, seconds: float) -> bool:
        """Wait, but no longer than until a target or policy has been changed; return whether one has."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds / self._speed):
                await self._changed.wait()
        changed = self._changed.is_set()
        self._changed.clear()
        return changed

    def _get_schema(self) -> Awaitable[Schema]:
        if self._schema is None:
            self._schema = asyncio.get_running_loop().run_in_executor(None, _load)
        return asyncio.shield(self._schema)


def new_id() -> str:
    """Return an id for targets, policies, actions and activities."""
    return str(uuid.uuid4())


def _load() -> Schema:
    from warmroute.adapters.service_model import load_scaling_schema  # noqa: PLC0415  (imports botocore)

    return load_scaling_schema()
