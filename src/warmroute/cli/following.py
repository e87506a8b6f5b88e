"""Watches an endpoint or a component change, and says each step once."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from warmroute.cli.api import Api
from warmroute.cli.failure import CommandFailed, Refused
from warmroute.cli.screen import rollout_text
from warmroute.cli.terminal import plain

JsonObject = dict[str, Any]

ASK_S: Final = 0.5
"""Between two looks."""
CHANGING: Final = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"})
"""Statuses that end by themselves."""
BAD: Final = frozenset({"Failed", "UpdateRollbackFailed", "OutOfService"})
"""Statuses that are no success."""


class Follower:
    """Asks again and again, and yields what has changed.

    Args:
        api: Of the server.
        timeout_s: Seconds; None to wait as long as it takes.
        clock: Seconds that only grow.
        sleep: Waits.
    """

    def __init__(
        self,
        api: Api,
        *,
        timeout_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep

    def endpoint(self, name: str, *, config: str | None = None, deleted: bool = False) -> Iterator[str]:
        """Yield what happens until an endpoint does not change any more.

        Args:
            name: Of the endpoint.
            config: EndpointConfigName that it is to have then; None for any.
            deleted: Until it is gone.

        Raises:
            CommandFailed: It failed, its update was rolled back, or it takes longer than ``timeout_s``.
        """

        def look() -> JsonObject:
            return self._api.call_operator("DescribeEndpoint", {"EndpointName": name})

        for document in self._looks(look, what=f"endpoint {name}", gone_is_right=deleted):
            endpoint = document["Endpoint"]
            yield endpoint_progress(document)
            if _is_over(endpoint["EndpointStatus"], deleted=deleted):
                _check(f"endpoint {name}", endpoint["EndpointStatus"], endpoint.get("FailureReason"))
                if config not in (None, endpoint["EndpointConfigName"]):
                    reason = plain(endpoint.get("FailureReason", "no reason is known"))
                    raise CommandFailed(
                        f"the update of endpoint {name} was rolled back, and it serves as before: {reason}"
                    )
                return

    def component(self, name: str, *, deleted: bool = False) -> Iterator[str]:
        """Yield what happens until an inference component does not change any more. See ``endpoint``."""

        def look() -> JsonObject:
            return self._api.call("DescribeInferenceComponent", {"InferenceComponentName": name})

        for document in self._looks(look, what=f"component {name}", gone_is_right=deleted):
            yield component_progress(document)
            status = document["InferenceComponentStatus"]
            if _is_over(status, deleted=deleted):
                _check(f"component {name}", status, document.get("FailureReason"))
                return

    def _looks(
        self, look: Callable[[], JsonObject], *, what: str, gone_is_right: bool
    ) -> Iterator[JsonObject]:
        begin_s = self._clock()
        while True:
            try:
                yield look()
            except Refused as error:
                if gone_is_right and error.is_missing:
                    return
                raise
            if self._timeout_s is not None and self._clock() - begin_s >= self._timeout_s:
                raise CommandFailed(
                    f"After {self._timeout_s:g} s {what} is still changing; the server goes on with it."
                )
            self._sleep(ASK_S)


def each_once(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines without those that repeat the one before."""
    last = None
    for line in lines:
        if line != last:
            yield line
        last = line


def endpoint_progress(document: JsonObject) -> str:
    """Return where an endpoint stands, in one line without times, so that the same is the same."""
    endpoint = document["Endpoint"]
    counts: Counter[tuple[str, int]] = Counter()
    for one in document["Instances"]:
        if one["State"] == "in_service" and not one.get("InferenceComponentName"):
            counts[one["VariantName"], one["Revision"]] += 1
    parts = []
    for name in dict.fromkeys(one["VariantName"] for one in document["Variants"]):
        revisions = [one for one in document["Variants"] if one["VariantName"] == name]
        told = [_revision_text(one, counts, several=len(revisions) > 1) for one in revisions]
        parts.append(f"{name} {', '.join(told)}")
    rollout = document.get("Rollout")
    step = rollout_text(rollout, rollout["Since"]).rpartition(" for ")[0] if rollout else ""
    head = f"{endpoint['EndpointName']}: {endpoint['EndpointStatus']}{f', {step}' if step else ''}"
    return f"{head}: {'; '.join(parts)}" if parts else head


def _revision_text(one: JsonObject, counts: Counter[tuple[str, int]], *, several: bool) -> str:
    ready, wanted = counts[one["VariantName"], one["Revision"]], one["DesiredInstanceCount"]
    if not several:
        return f"{ready} of {wanted} in service"
    share = "" if one.get("Shadow") else f" with {one['Share']:.0%} of the traffic"
    return f"revision {one['Revision']} {ready}/{wanted}{share}"


def component_progress(document: JsonObject) -> str:
    """Return where a component stands, in one line."""
    head = f"{document['InferenceComponentName']}: {document['InferenceComponentStatus']}"
    runtime = document.get("RuntimeConfig", {})
    if "DesiredCopyCount" not in runtime or runtime["DesiredCopyCount"] == 0:
        return head
    return f"{head}: {runtime.get('CurrentCopyCount', 0)} of {runtime['DesiredCopyCount']} copies in service"


def _is_over(status: str, *, deleted: bool) -> bool:
    return status in BAD if deleted else status not in CHANGING


def _check(what: str, status: str, reason: str | None) -> None:
    if status in BAD:
        raise CommandFailed(f"{what} is {status}: {plain(reason or 'no reason is known')}")
