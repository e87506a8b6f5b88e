"""What an operator wants to read of instances and endpoints: each change once, as a sentence."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from warmroute.controlplane.ports import InstanceFact
from warmroute.core.ids import ComponentName, EndpointName, InstanceId
from warmroute.resources.instances import Observed
from warmroute.resources.lifecycle import COMPONENT_CHANGING, ComponentStatus, EndpointStatus
from warmroute.resources.records import (
    EndpointRecord,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
)

REMIND_S: Final = 30.0
"""Between two lines about an instance that is still starting."""
REASON_CHARACTERS_MAX: Final = 500
"""Of a reason in a line: logs of model servers have long lines."""

_BAD: Final = (
    EndpointStatus.FAILED,
    EndpointStatus.ROLLING_BACK,
    EndpointStatus.UPDATE_ROLLBACK_FAILED,
)


@dataclass(frozen=True, slots=True)
class Change:
    """One line for the log.

    Attributes:
        text: What happened, on one line.
        bad: Somebody may have to do something.
    """

    text: str
    bad: bool = False


@dataclass(slots=True)
class _Seen:
    """What has been said of an instance."""

    url: str = ""
    in_service: bool = False
    leaves: bool = False
    again_s: float = 0.0


class Changes:
    """Compares records with what it has said of them. In memory: a new process says how it finds things."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._statuses: dict[EndpointName, EndpointStatus] = {}
        self._components: dict[ComponentName, ComponentStatus] = {}
        self._seen: dict[InstanceId, _Seen] = {}

    def news(
        self,
        *,
        endpoints: Iterable[EndpointRecord],
        instances: Iterable[InstanceRecord],
        observed: Mapping[InstanceId, Observed],
        facts: Mapping[InstanceId, InstanceFact],
        now_s: float,
        components: Iterable[InferenceComponentRecord] = (),
    ) -> list[Change]:
        """Return what has changed since the last call, instances first.

        Args:
            endpoints: All there are now.
            instances: All there are now.
            observed: What providers and health checks say of them.
            facts: Where they are.
            now_s: Epoch seconds.
            components: All there are now.
        """
        news: list[Change] = []
        seen: dict[InstanceId, _Seen] = {}
        for record in instances:
            one = seen[record.instance_id] = self._seen.get(record.instance_id) or _Seen()
            fact = facts.get(record.instance_id)
            if fact is not None:
                one.url = base_url(fact)
            change = _instance_change(one, record, observed.get(record.instance_id), now_s)
            if change is not None:
                where = f" ({one.url})" if one.url else ""
                what = f"copy of inference component {record.component}," if record.component else "instance"
                subject = f"endpoint {record.endpoint}: {what} {record.instance_id}{where}"
                news.append(Change(f"{subject} {change.text}", change.bad))
        self._seen = seen
        news.extend(self._component_changes(components))
        news.extend(self._endpoint_changes(endpoints))
        return news

    def _component_changes(self, components: Iterable[InferenceComponentRecord]) -> Iterable[Change]:
        before, self._components = self._components, {}
        for component in components:
            self._components[component.name] = component.status
            if before.pop(component.name, None) is not component.status:
                bad = component.failure_reason is not None and component.status not in COMPONENT_CHANGING
                reason = f": {one_line(component.failure_reason or '')}" if bad else ""
                yield Change(f"inference component {component.name} is {component.status}{reason}", bad)
        for name in before:
            yield Change(f"inference component {name} is deleted")

    def _endpoint_changes(self, endpoints: Iterable[EndpointRecord]) -> Iterable[Change]:
        before, self._statuses = self._statuses, {}
        for endpoint in endpoints:
            self._statuses[endpoint.name] = endpoint.status
            if before.pop(endpoint.name, None) is not endpoint.status:
                bad = endpoint.status in _BAD
                reason = f": {one_line(endpoint.failure_reason or 'no reason is known')}" if bad else ""
                yield Change(f"endpoint {endpoint.name} is {endpoint.status}{reason}", bad)
        for name in before:
            yield Change(f"endpoint {name} is deleted")


def _instance_change(
    seen: _Seen, record: InstanceRecord, observed: Observed | None, now_s: float
) -> Change | None:
    """Return what there is to say of an instance, and keep in ``seen`` that it was said."""
    match record.state:
        case InstanceState.IN_SERVICE:
            # After a restart the record says so before the instance has been asked.
            if seen.in_service or observed is None or not observed.ready:
                return None
            seen.in_service, seen.leaves = True, False
            return Change("in service")
        case InstanceState.STARTING:
            return _starting(seen, observed, now_s)
        case InstanceState.DRAINING | InstanceState.STOPPING:
            return _leaving(seen, record)


def _starting(seen: _Seen, observed: Observed | None, now_s: float) -> Change | None:
    detail = one_line(observed.detail) if observed is not None else "its provider does not list it"
    was_in_service, seen.in_service = seen.in_service, False
    asked = observed is not None and observed.probes > 0
    if not was_in_service and (not asked or now_s < seen.again_s):
        return None
    seen.again_s = now_s + REMIND_S
    return (
        Change(f"out of service: {detail}", bad=True)
        if was_in_service
        else Change(f"not ready yet: {detail}")
    )


def _leaving(seen: _Seen, record: InstanceRecord) -> Change | None:
    if seen.leaves:
        return None
    was_in_service, seen.in_service, seen.leaves = seen.in_service, False, True
    if record.state is InstanceState.DRAINING:
        return Change("out of service: it drains")
    verb = "out of service" if was_in_service else "stops"
    return Change(f"{verb}: {one_line(record.reason)}", bad=record.reason not in _WANTED)


_WANTED: Final = ("", "drained", "not wanted")
"""Reasons the planner gives for instances that nothing is wrong with."""


def base_url(fact: InstanceFact) -> str:
    """Return where an instance is, as an operator would write it."""
    host = f"[{fact.host}]" if ":" in fact.host else fact.host
    return f"{'https' if fact.tls else 'http'}://{host}:{fact.port}{fact.path_prefix}"


def one_line(text: str) -> str:
    """Return a text of others fit for a log: one line, no control characters, bounded."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    return line if len(line) <= REASON_CHARACTERS_MAX else f"{line[:REASON_CHARACTERS_MAX]}…"
