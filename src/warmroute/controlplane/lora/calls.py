"""Calls to engines that load or unload an adapter, and the fetching of its files: one at a time each."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum

from warmroute.controlplane.ports import (
    AdapterAnswer,
    AdapterLoader,
    AdapterOutcome,
    ArtifactRefused,
    ArtifactShelf,
    Clock,
    InstanceFact,
    Spawner,
)
from warmroute.core import limits
from warmroute.core.ids import ComponentName, InstanceId
from warmroute.core.machines import AdapterRoutes
from warmroute.resources.lora.places import AdapterPlace, PlaceState
from warmroute.resources.lora.sets import At

_log = logging.getLogger(__name__)

Artifact = tuple[ComponentName, int]
"""An adapter and the revision of its artifact."""


class Verb(StrEnum):
    """What an engine is told."""

    LOAD = "load"
    UNLOAD = "unload"


@dataclass(frozen=True, slots=True)
class Call:
    """An engine is to be told something.

    Attributes:
        verb: What.
        at: On which copy, about which adapter.
        revision: Of the adapter's artifact.
        generation: Of the copy's target.
        fact: Where the engine is.
        routes: How it is told.
    """

    verb: Verb
    at: At
    revision: int
    generation: int
    fact: InstanceFact
    routes: AdapterRoutes


@dataclass(frozen=True, slots=True)
class Check:
    """A copy on which adapters serve.

    Attributes:
        instance_id: Of the copy.
        generation: Of its target.
        fact: Where the engine is.
        routes: How it is told.
        adapters: Those that it should have.
    """

    instance_id: InstanceId
    generation: int
    fact: InstanceFact
    routes: AdapterRoutes
    adapters: frozenset[ComponentName]


@dataclass(frozen=True, slots=True)
class Audit:
    """A copy about whose engine nothing is known yet, before anything is loaded into it.

    Attributes:
        instance_id: Of the copy.
        generation: Of its target.
        fact: Where the engine is.
        routes: How it is told.
        strays: Adapters of ours that it should not have.
    """

    instance_id: InstanceId
    generation: int
    fact: InstanceFact
    routes: AdapterRoutes
    strays: frozenset[ComponentName]


@dataclass(frozen=True, slots=True)
class Lost:
    """An engine does not have an adapter that it had.

    Attributes:
        generation: Of the copy's target.
        asked_s: When it was asked, epoch seconds.
    """

    generation: int
    asked_s: float

    def fits(self, place: AdapterPlace) -> bool:
        """Whether it is about what serves there now."""
        serves = place.state is PlaceState.SERVING and place.generation == self.generation
        return serves and place.since_s < self.asked_s


@dataclass(frozen=True, slots=True)
class Heard:
    """What an engine answered.

    Attributes:
        call: To what.
        answer: Its answer.
    """

    call: Call
    answer: AdapterAnswer

    @property
    def generation(self) -> int:
        """Of the copy's target when the engine was told."""
        return self.call.generation

    @property
    def is_done(self) -> bool:
        """Whether it did what it was told."""
        return self.answer.outcome is AdapterOutcome.DONE

    @property
    def is_refused(self) -> bool:
        """Whether it never will."""
        return self.answer.outcome is AdapterOutcome.REFUSED

    def fits(self, place: AdapterPlace) -> bool:
        """Whether it is an answer to what is still to be done."""
        wanted = PlaceState.LOADING if self.call.verb is Verb.LOAD else PlaceState.LEAVING
        return place.state is wanted and place.revision == self.call.revision


@dataclass(slots=True)
class Counts:
    """What is counted for /metrics: calls by verb and outcome."""

    by_result: dict[tuple[str, str], int] = field(default_factory=dict)

    def count(self, verb: Verb, outcome: AdapterOutcome) -> None:
        """Count one call."""
        key = (verb.value, outcome.value)
        self.by_result[key] = self.by_result.get(key, 0) + 1


@dataclass(slots=True)
class _Failures:
    """Failures in a row, and until when to wait."""

    times: int = 0
    until_s: float = 0.0


class AdapterCalls:
    """Makes the calls, and keeps what came of them until it is written down.

    Args:
        loader: Tells engines.
        shelf: Fetches files.
        tasks: Starts a task per call.
        clock: Time.
        on_news: Called when an answer has come.
    """

    def __init__(
        self,
        *,
        loader: AdapterLoader,
        shelf: ArtifactShelf,
        tasks: Spawner,
        clock: Clock,
        on_news: Callable[[], None],
    ) -> None:
        self._loader = loader
        self._shelf = shelf
        self._tasks = tasks
        self._clock = clock
        self._on_news = on_news
        self._running: set[At] = set()
        self._heard: dict[At, Heard] = {}
        self._failures: dict[At, _Failures] = {}
        self._paths: dict[Artifact, str] = {}
        self._refusals: dict[Artifact, str] = {}
        self._unclear: dict[Artifact, int] = {}
        self._fetching: set[Artifact] = set()
        self._fetch_again_s: dict[Artifact, float] = {}
        self._kept: dict[str, frozenset[str]] | None = None
        self._known: frozenset[Artifact] = frozenset()
        self._lost: dict[At, Lost] = {}
        self._verify_s: dict[tuple[InstanceId, int], float] = {}
        self._listing: set[tuple[InstanceId, int]] = set()
        self._audited: dict[tuple[InstanceId, int], bool] = {}
        self.counts = Counts()

    # --- what is known ----------------------------------------------------------------------------
    @property
    def busy(self) -> frozenset[At]:
        """Where an engine is being told something, or its answer is not written down yet."""
        return frozenset(self._running)

    def answer(self, at: At) -> Heard | None:
        """Return an answer that is not written down yet."""
        return self._heard.get(at)

    def is_audited(self, instance_id: InstanceId, generation: int) -> bool:
        """Whether an engine is known to have nothing that it should not have, as far as it says."""
        return self._audited.get((instance_id, generation), False)

    def lost(self, at: At) -> Lost | None:
        """Return what was found out about an adapter that its engine does not have any more."""
        return self._lost.get(at)

    def barred(self, now_s: float) -> frozenset[At]:
        """Return where something failed not long ago."""
        return frozenset(at for at, failures in self._failures.items() if now_s < failures.until_s)

    def may(self, at: At, now_s: float) -> bool:
        """Whether an engine may be told something about an adapter now."""
        failures = self._failures.get(at)
        return failures is None or now_s >= failures.until_s

    def path(self, adapter: ComponentName, revision: int) -> str | None:
        """Return where the files of an adapter are; None while they are not there."""
        return self._paths.get((adapter, revision))

    def refusal(self, adapter: ComponentName, revision: int) -> str | None:
        """Return why an artifact cannot be loaded; None while it may.

        Of an artifact that was loaded once nothing is final: it is tried again.
        """
        return self._refusals.get((adapter, revision))

    # --- what is to be done -----------------------------------------------------------------------
    def begin(
        self,
        calls: Iterable[Call],
        written: Iterable[At],
        artifacts: Mapping[ComponentName, tuple[int, str, bool]],
    ) -> None:
        """Make calls, fetch files, and forget what is written down.

        Args:
            calls: To be made.
            written: Answers that are.
            artifacts: Those in use: revision, URL, and whether a server is elsewhere, by adapter.
        """
        for at in written:
            self._heard.pop(at, None)
            self._lost.pop(at, None)
        known = {(adapter, revision) for adapter, (revision, _, _) in artifacts.items()}
        self._forget(known)
        for adapter, (revision, url, elsewhere) in artifacts.items():
            self._fetch((adapter, revision), url, elsewhere=elsewhere)
        for call in calls:
            if call.at in self._running or call.at in self._heard:
                continue
            if call.verb is Verb.LOAD and (call.at[1], call.revision) not in self._paths:
                continue
            self._running.add(call.at)
            self._tasks.spawn(self._call(call), name=f"{call.verb} {call.at[1]} on {call.at[0]}")

    def verify(self, checks: Iterable[Check]) -> None:
        """Ask engines whether they still have what they should, each from time to time."""
        now_s = self._clock.wall_s()
        due_s: dict[tuple[InstanceId, int], float] = {}
        for check in checks:
            key = (check.instance_id, check.generation)
            due_s[key] = self._verify_s.get(key, now_s + limits.ADAPTER_VERIFY_S)
            if now_s >= due_s[key]:
                due_s[key] = now_s + limits.ADAPTER_VERIFY_S
                self._tasks.spawn(self._verify(check, now_s), name=f"adapters of {check.instance_id}")
        self._verify_s = due_s
        self._listing &= due_s.keys()

    async def _verify(self, check: Check, asked_s: float) -> None:
        loaded = await self._loader.loaded(check.fact, check.routes)
        key = (check.instance_id, check.generation)
        if loaded is None:
            return
        if not check.adapters.isdisjoint(loaded):
            self._listing.add(key)
        if key not in self._listing:
            return  # it never listed one: not every engine does
        for adapter in check.adapters - loaded.keys():
            _log.warning("adapter %s is not on %s any more; loading it again", adapter, check.instance_id)
            self._lost[check.instance_id, adapter] = Lost(check.generation, asked_s)
            self._on_news()

    def audit(self, audits: Iterable[Audit], copies: AbstractSet[tuple[InstanceId, int]]) -> None:
        """Have engines unload what an earlier life of control, or of their own, has left there.

        Args:
            audits: Those to be looked at now.
            copies: All there are, each with its generation; others are forgotten.
        """
        self._audited = {key: done for key, done in self._audited.items() if key in copies}
        for one in audits:
            key = (one.instance_id, one.generation)
            if key not in self._audited:
                self._audited[key] = False
                self._tasks.spawn(self._audit(one), name=f"audit {one.instance_id}")

    async def _audit(self, one: Audit) -> None:
        key = (one.instance_id, one.generation)
        try:
            loaded = await self._loader.loaded(one.fact, one.routes)
            for adapter in sorted(one.strays & (loaded or {}).keys()):
                answer = await self._loader.unload(one.fact, one.routes, name=adapter)
                _log.info(
                    "adapter %s was left on %s; unload: %s", adapter, one.instance_id, answer.outcome.value
                )
        finally:
            if key in self._audited:
                self._audited[key] = True
            self._on_news()

    def tidy(self, in_use: AbstractSet[Artifact]) -> None:
        """Forget the files of artifacts that are not in use, and have what was unpacked of them removed.

        Args:
            in_use: Artifacts that may be loaded somewhere; those that are wanted are in use as well.
        """
        needed = in_use | self._known
        self._paths = {key: path for key, path in self._paths.items() if key in needed}
        if self._fetching or not needed <= self._paths.keys():
            return  # after a restart nothing is known yet of what lies there
        kept: dict[str, frozenset[str]] = {}
        for (adapter, _), path in self._paths.items():
            kept[adapter] = kept.get(adapter, frozenset()) | {path}
        if kept != self._kept:
            self._kept = kept
            self._tasks.spawn(self._shelf.keep_only(kept), name="tidy adapters")

    def _forget(self, known: set[Artifact]) -> None:
        names = {adapter for adapter, _ in known}
        self._refusals = {key: why for key, why in self._refusals.items() if key[0] in names or key in known}
        self._unclear = {key: times for key, times in self._unclear.items() if key in known}
        self._fetch_again_s = {key: time_s for key, time_s in self._fetch_again_s.items() if key in known}
        long_ago_s = self._clock.wall_s() - limits.ADAPTER_AGAIN_S_MAX
        self._failures = {
            at: one for at, one in self._failures.items() if at[1] in names and one.until_s > long_ago_s
        }
        self._known = frozenset(known)

    async def _call(self, call: Call) -> None:
        instance_id, adapter = call.at
        answer = AdapterAnswer(AdapterOutcome.UNCLEAR, "The call itself failed.")
        try:
            if call.verb is Verb.LOAD:
                path = self._paths[adapter, call.revision]
                answer = await self._loader.load(call.fact, call.routes, name=adapter, path=path)
            else:
                answer = await self._loader.unload(call.fact, call.routes, name=adapter)
        finally:
            self._running.discard(call.at)
            self._heard[call.at] = Heard(call, answer)
            self.counts.count(call.verb, answer.outcome)
            self._note(call, answer)
            self._on_news()
        done = f"{call.verb}ed"
        if answer.outcome is AdapterOutcome.DONE:
            _log.info("adapter %s (artifact %d) is %s on %s", adapter, call.revision, done, instance_id)
        else:
            _log.warning("adapter %s could not be %s on %s: %s", adapter, done, instance_id, answer.detail)

    def _note(self, call: Call, answer: AdapterAnswer) -> None:
        artifact = (call.at[1], call.revision)
        if answer.outcome is AdapterOutcome.DONE:
            self._failures.pop(call.at, None)
            if call.verb is Verb.LOAD:
                self._unclear.pop(artifact, None)
                self._refusals.pop(artifact, None)
            return
        failures = self._failures.setdefault(call.at, _Failures())
        wait_s = min(limits.ADAPTER_AGAIN_S * 2.0**failures.times, limits.ADAPTER_AGAIN_S_MAX)
        failures.times += 1
        failures.until_s = self._clock.wall_s() + wait_s
        if call.verb is Verb.UNLOAD:
            return
        self._unclear[artifact] = self._unclear.get(artifact, 0) + 1
        refused = answer.outcome is AdapterOutcome.REFUSED
        if refused or self._unclear[artifact] >= limits.ADAPTER_ATTEMPTS_MAX:
            self._refusals[artifact] = answer.detail

    def _fetch(self, artifact: Artifact, url: str, *, elsewhere: bool) -> None:
        now_s = self._clock.wall_s()
        if artifact in self._paths or artifact in self._fetching:
            return
        if now_s < self._fetch_again_s.get(artifact, 0.0):
            return
        self._fetching.add(artifact)
        self._tasks.spawn(self._fetch_now(artifact, url, elsewhere=elsewhere), name=f"fetch {artifact[0]}")

    async def _fetch_now(self, artifact: Artifact, url: str, *, elsewhere: bool) -> None:
        try:
            async with asyncio.timeout(limits.ADAPTER_FETCH_S):
                self._paths[artifact] = await self._shelf.fetch(url, name=artifact[0], elsewhere=elsewhere)
        except ArtifactRefused as refusal:
            self._refusals[artifact] = str(refusal)
            _log.warning("the files of adapter %s: %s", artifact[0], refusal)
        except TimeoutError:
            self._refusals[artifact] = f"ArtifactUrl: {url} took longer than {limits.ADAPTER_FETCH_S:g} s."
        finally:
            self._fetching.discard(artifact)
            self._fetch_again_s[artifact] = self._clock.wall_s() + limits.ADAPTER_AGAIN_S_MAX
            self._on_news()
