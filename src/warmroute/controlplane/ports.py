"""What the control plane needs from the world, as small protocols with in-memory fakes in ``adapters``."""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from warmroute.core.fleet import Fleet
from warmroute.core.ids import ComponentName, EndpointName, InstanceId, TargetId, VariantName
from warmroute.core.machines import AdapterRoutes
from warmroute.core.stream import AdapterWanted
from warmroute.resources.records import InstanceRecord, Resource
from warmroute.resources.scaling.records import ScalingRecord, ScalingTables
from warmroute.resources.tables import Tables


class InstancePhase(StrEnum):
    """What a provider can say of an instance. Whether it serves is found out by asking its health route."""

    RUNNING = "running"
    """The server's process or URL exists; it may still be loading."""
    EXITED = "exited"
    """It ended by itself; ``detail`` says how."""


@dataclass(frozen=True, slots=True)
class InstanceOrder:
    """Start this instance.

    Attributes:
        instance_id: Chosen by control; starting the same id twice is one instance.
        endpoint: For names of logs and processes.
        variant: Likewise.
        instance_type: As declared in the settings.
        image: Name of a declared image; None for the instance type's or provider's default.
        environment: The model's Environment.
        model_data_url: The model's ModelDataUrl.
        component: The inference component that it is a copy of; ``""`` for an instance.
        devices: Accelerators of the machine that it may use, by number; empty for no say about them.
    """

    instance_id: InstanceId
    endpoint: EndpointName
    variant: VariantName
    instance_type: str
    image: str | None
    environment: dict[str, str] = field(default_factory=dict)
    model_data_url: str | None = None
    component: str = ""
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class InstanceFact:
    """What a provider knows of an instance.

    Attributes:
        instance_id: As ordered.
        instance_type: As ordered.
        phase: Whether it is there.
        generation: Grows when the server at this place is started anew.
        host: Where it listens.
        port: TCP port.
        tls: HTTPS.
        path_prefix: ``""`` or ``"/something"``.
        api_key: The server's own key.
        pid: Process id on this machine, where there is one.
        detail: For people: exit status, last lines of the log.
    """

    instance_id: InstanceId
    instance_type: str
    phase: InstancePhase
    generation: int
    host: str
    port: int
    tls: bool = False
    path_prefix: str = ""
    api_key: str | None = field(default=None, repr=False)
    pid: int | None = None
    detail: str = ""


class ProviderRefused(Exception):  # noqa: N818  (a refusal, with its reason for the caller, not a fault)
    """The provider cannot start the instance; the text becomes the endpoint's FailureReason."""


class Provider(Protocol):
    """Makes, lists and stops instances. Every call may be repeated."""

    async def start(self, order: InstanceOrder) -> None:
        """Start an instance; return when it exists, not when it serves.

        Raises:
            ProviderRefused: It cannot be started, and why.
        """
        ...

    async def list(self) -> tuple[InstanceFact, ...]:
        """Return every instance that exists, those of an earlier control process included."""
        ...

    async def stop(self, instance_id: InstanceId, grace_s: float) -> None:
        """Stop one: ask, wait up to ``grace_s``, then insist; return when it is gone, as unknown ids are."""
        ...


@dataclass(frozen=True, slots=True)
class Health:
    """An answer of a health route.

    Attributes:
        ready: The server can take requests.
        model_name: Its own model name from ``/v1/models``; None when it has no such route.
        detail: What it said, for people.
    """

    ready: bool
    model_name: str | None = None
    detail: str = ""


class HealthProbe(Protocol):
    """Asks a model server how it is."""

    async def probe(self, fact: InstanceFact, health_path: str | None) -> Health:
        """Ask once, within two seconds (SageMaker's own bound); failures are an answer, not an error."""
        ...


class AdapterOutcome(StrEnum):
    """What became of a call that loads or unloads an adapter."""

    DONE = "done"
    """The engine has it, or has it no more; also when it was so before."""
    REFUSED = "refused"
    """The engine said no, and would say so again."""
    UNCLEAR = "unclear"
    """No answer, or one of a server in trouble: it may have been done. Try again."""


@dataclass(frozen=True, slots=True)
class AdapterAnswer:
    """An answer of an engine.

    Attributes:
        outcome: What became of the call.
        detail: The engine's own words, for people.
        after_base: Requests have to ask for the adapter as ``MODEL:NAME``, the model's own name first.
    """

    outcome: AdapterOutcome
    detail: str = ""
    after_base: bool = field(default=False, compare=False)


class AdapterLoader(Protocol):
    """Has model servers load and unload LoRA adapters. Calls may be repeated, and end in bounded time."""

    async def load(self, fact: InstanceFact, routes: AdapterRoutes, *, name: str, path: str) -> AdapterAnswer:
        """Load an adapter, in place of one of the same name from another path.

        Args:
            fact: The model server.
            routes: How it is told; AUTO asks it once.
            name: What requests call the adapter.
            path: Where the server finds it.
        """
        ...

    async def unload(self, fact: InstanceFact, routes: AdapterRoutes, *, name: str) -> AdapterAnswer:
        """Unload an adapter; one that is not loaded is done."""
        ...

    async def loaded(self, fact: InstanceFact, routes: AdapterRoutes) -> Mapping[str, str] | None:
        """Return name and path, ``""`` for an unknown one, of what is loaded; None when it does not say."""
        ...


class ArtifactRefused(Exception):  # noqa: N818  (a refusal, with its reason for the caller, not a fault)
    """An adapter's files cannot be had; the text becomes its FailureReason."""


class ArtifactShelf(Protocol):
    """Where the files of adapters are. Every call may be repeated."""

    async def fetch(self, url: str, *, name: str, elsewhere: bool) -> str:
        """Make the files of an adapter be there.

        Args:
            url: ArtifactUrl.
            name: The adapter's.
            elsewhere: Some model servers run on other machines, so a path may be theirs.

        Returns:
            The path that a model server finds them at.

        Raises:
            ArtifactRefused: They cannot be had, and why.
        """
        ...

    async def keep_only(self, paths: Mapping[str, frozenset[str]]) -> None:
        """Remove what was unpacked for adapters and paths that are not in use any more.

        Args:
            paths: In use, by the adapter's name.
        """
        ...


class RouterStream(Protocol):
    """The routers, as control sees them."""

    async def publish(self, fleet: Fleet, wait_s: float) -> bool:
        """Send a fleet to every router.

        Returns:
            True when all acknowledged it within ``wait_s``, or none is connected.
        """
        ...

    def open_leases(self, target_id: TargetId, generation: int) -> int | None:
        """Return what holds a target up over all routers; None when a router has not said yet.

        Leases, and sessions that are pinned to it: nowhere else can they go on.
        """
        ...

    def adapter_use(
        self, target_id: TargetId, generation: int, adapter: ComponentName
    ) -> tuple[int | None, int]:
        """Return an adapter's open leases on a target, and those ever taken, over all routers.

        The first is None while a router has not said.
        """
        ...

    def take_adapter_wants(self) -> tuple[AdapterWanted, ...]:
        """Return what routers asked for since the last call."""
        ...

    def router_count(self) -> int:
        """Return how many routers decide, each by what it knows itself; at least 1."""
        ...

    def version_floor(self) -> int:
        """Return the newest fleet that a router had from elsewhere; a fleet must be newer to be applied."""
        ...


class Transaction(Tables, ScalingTables, Protocol):
    """Reads and writes that happen together or not at all, and that no other transaction comes between."""

    def put(self, record: Resource) -> None:
        """Write a resource, new or in place of the one of its kind and name."""
        ...

    def remove(self, record: Resource) -> None:
        """Delete a resource; one that is not there is no error."""
        ...

    def put_instance(self, record: InstanceRecord) -> None:
        """Write an instance, new or in place of the one of its id."""
        ...

    def remove_instance(self, instance_id: InstanceId) -> None:
        """Delete an instance; one that is not there is no error."""
        ...

    def put_scaling(self, record: ScalingRecord) -> None:
        """Write a record of autoscaling, new or in place of the one of its kind, resource and name."""
        ...

    def remove_scaling(self, record: ScalingRecord) -> None:
        """Delete a record of autoscaling; one that is not there is no error."""
        ...

    def note(self, name: str) -> str | None:
        """Return a note control keeps for itself, such as the version of the last fleet."""
        ...

    def set_note(self, name: str, text: str) -> None:
        """Write a note."""
        ...


class StoreUnavailable(Exception):  # noqa: N818  (a state of the world that passes, not a defect)
    """The store cannot be used now. Nothing was written, unless the text says that this is not known."""


class StoreConflict(StoreUnavailable):
    """Nothing was written because something came between; the same transaction may be run again."""


class Store(Protocol):
    """Keeps records. Synchronous: nothing else of the event loop comes between a transaction's steps."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin; commit at the end of the block, or undo everything when it raises.

        Raises:
            StoreUnavailable: At any step, the commit included. ``transactions.run`` runs a block again
                where that is right.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


class Spawner(Protocol):
    """Starts tasks and keeps them."""

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> Callable[[], None]:
        """Start a coroutine as a task; return what cancels it. An exception of it is logged."""
        ...


class Clock(Protocol):
    """Time."""

    def wall_s(self) -> float:
        """Return seconds since 1970."""
        ...


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Part of an instance's log.

    Attributes:
        text: Decoded as UTF-8; what is no text is shown as U+FFFD.
        begin: Where it begins in the log, in bytes.
        end: Where the next piece begins, in bytes.
        size: Bytes that the log has.
        ended: The instance has ended by itself: nothing comes any more.
    """

    text: str
    begin: int
    end: int
    size: int
    ended: bool = False


class InstanceLogs(Protocol):
    """Reads what model servers write."""

    def read(self, instance_id: str, *, begin: int | None, bytes_max: int) -> LogPiece | None:
        """Return a part of a log, as much as there is now.

        Args:
            instance_id: Also one that has ended by itself and is gone from the records.
            begin: Where, in bytes; None for the last ``bytes_max``. Past the end of a log, which has then
                been cut, its beginning.
            bytes_max: How much at most, at least 4.

        Returns:
            None when there is no such log here, as for servers that warmroute did not start.
        """
        ...
