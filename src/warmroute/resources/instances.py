"""One instance and what was observed of it: its next state, or its failure."""

from dataclasses import dataclass, replace

from warmroute.core import limits
from warmroute.resources.records import UNSTAMPED, InstanceRecord, InstanceState


@dataclass(frozen=True, slots=True)
class Observed:
    """What a provider and the health checks say of an instance.

    Attributes:
        running: Its process or URL exists.
        detail: For people: how it ended, its log's last lines.
        probes: Health checks answered or failed since this process knows it.
        failures: The last ones that failed, in a row.
        ready: The last check was good.
        model_name: The server's own model name; None when it is not known.
        open_leases: Over all routers; None when one has not said.
    """

    running: bool
    detail: str = ""
    probes: int = 0
    failures: int = 0
    ready: bool = False
    model_name: str | None = None
    open_leases: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """An instance failed and has to be replaced.

    Attributes:
        record: As it was.
        reason: For FailureReason.
        attempts: Failures in a row, this one included.
        fatal: A creation or an update that needs it fails too.
    """

    record: InstanceRecord
    reason: str
    attempts: int
    fatal: bool


def advance(
    record: InstanceRecord,
    *,
    observed: Observed | None,
    refused: str | None,
    busy: bool,
    now_s: float,
    acked_version: int,
    since_s: float,
    fixed: bool,
    drain_s: float,
) -> InstanceRecord | Failed:
    """Return the instance as it is now.

    Args:
        record: As it was.
        observed: None when its provider does not list it.
        refused: Why its provider would not start it; None if it did not refuse.
        busy: An action on it is under way.
        now_s: Epoch seconds.
        acked_version: Every live router decides with this fleet or a later one.
        since_s: When this process made its first plan, epoch seconds.
        fixed: Its server is not ours: it cannot be started anew, only waited for.
        drain_s: Longest time to drain.
    """
    match record.state:
        case InstanceState.STARTING:
            return _starting(record, observed, refused, now_s=now_s, since_s=since_s, fixed=fixed)
        case InstanceState.IN_SERVICE:
            return _in_service(record, observed, busy=busy, now_s=now_s, fixed=fixed)
        case InstanceState.DRAINING:
            return _draining(record, observed, now_s=now_s, acked_version=acked_version, drain_s=drain_s)
        case InstanceState.STOPPING:
            return record


def _starting(
    record: InstanceRecord,
    observed: Observed | None,
    refused: str | None,
    *,
    now_s: float,
    since_s: float,
    fixed: bool,
) -> InstanceRecord | Failed:
    if observed is not None and observed.running and observed.ready:
        return replace(
            record,
            state=InstanceState.IN_SERVICE,
            in_service_s=now_s,
            model_name=observed.model_name,
            returns=record.returns + (record.in_service_s is not None),
        )
    waits_forever = fixed and record.in_service_s is not None
    known = observed is None or observed.probes > 0
    # One that is not listed had no chance before this process was there to start it.
    begin_s = max(record.not_before_s, since_s) if observed is None else record.not_before_s
    if refused is not None:
        reason, fatal = refused, True
    elif observed is not None and not observed.running:
        reason = _ping_reason(record, observed.detail)
        fatal = record.attempt >= limits.INSTANCE_ATTEMPTS_MAX
    elif known and not waits_forever and now_s >= begin_s + record.startup_s:
        detail = observed.detail if observed is not None else "It was never started."
        reason = _ping_reason(record, f"It was not ready after {record.startup_s:g} s. {detail}")
        fatal = True
    else:
        return record
    return Failed(record, reason, record.attempt, fatal=fatal)


def _in_service(
    record: InstanceRecord, observed: Observed | None, *, busy: bool, now_s: float, fixed: bool
) -> InstanceRecord | Failed:
    if observed is None and busy:
        return record
    if observed is None or not observed.running:
        detail = observed.detail if observed is not None else "Its provider no longer lists it."
        return Failed(record, f"The instance ended. {detail}", _attempts(record, now_s), fatal=False)
    if observed.failures >= limits.HEALTH_FAILURES_MAX:
        if fixed:
            return replace(record, state=InstanceState.STARTING)
        reason = f"{observed.failures} health checks in a row failed. {observed.detail}"
        return Failed(record, reason, _attempts(record, now_s), fatal=False)
    if observed.model_name is not None and observed.model_name != record.model_name:
        return replace(record, model_name=observed.model_name)
    return record


def _draining(
    record: InstanceRecord,
    observed: Observed | None,
    *,
    now_s: float,
    acked_version: int,
    drain_s: float,
) -> InstanceRecord:
    assert record.draining_s is not None, "a draining instance knows since when"
    known = record.drain_version is not None and record.drain_version != UNSTAMPED
    # A router that has not applied the fleet yet may still take new leases.
    idle = (
        known
        and acked_version >= (record.drain_version or 0)
        and (observed is None or observed.open_leases == 0)
    )
    ended = observed is None or not observed.running
    if idle or ended or now_s >= record.draining_s + drain_s:
        return replace(record, state=InstanceState.STOPPING, reason=record.reason or "drained")
    return record


def _attempts(record: InstanceRecord, now_s: float) -> int:
    served_s = now_s - (record.in_service_s if record.in_service_s is not None else now_s)
    return 1 if served_s >= limits.INSTANCE_STABLE_S else record.attempt


def _ping_reason(record: InstanceRecord, detail: str) -> str:
    return (
        f"The primary container for production variant {record.variant} did not pass the ping health check. "
        f"{detail}"
    ).strip()
