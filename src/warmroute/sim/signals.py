"""What engines tell of their caches on its way to the routers: it takes time, and some of it gets lost.

An engine tells what changed in batches, one for everything of an instant. Every router hears them by
itself and may miss some that others get. It finds out with the next batch of that engine, as by a gap
in sequence numbers, and may then ask for all that the engine has. Metrics are polled; nobody notices a
poll that got lost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from warmroute.sim.instance import Instance
from warmroute.sim.policy import Chooser, News


@dataclass(frozen=True, slots=True)
class Heard:
    """Some routers hear what an engine told.

    Attributes:
        routers: Their places among the listeners.
        instance: Whose engine.
        news: What they hear.
    """

    routers: tuple[int, ...]
    instance: Instance
    news: News


@dataclass(frozen=True, slots=True)
class Replayed:
    """An engine answers a router that asked for everything.

    Attributes:
        router: Its place among the listeners.
        instance: Whose engine.
    """

    router: int
    instance: Instance


Signal = Heard | Replayed


class Signals:
    """Carries news from engines to routers.

    Args:
        routers: Those that want it.
        later: Takes a time in nanoseconds and what `happen` shall be told then.
        delay_ns: How old news is when it is heard.
        loss: Share of batches that a router does not get, 0 to 1; drawn for every router by itself.
        resync_ns: From noticing a gap until the engine has answered with everything it has, on top of the
            delay of the answer; 0 = routers do not ask.
        rng: Which batches get lost.
    """

    def __init__(
        self,
        routers: Sequence[Chooser],
        later: Callable[[int, Signal], None],
        *,
        delay_ns: int,
        loss: float,
        resync_ns: int,
        rng: Random,
    ) -> None:
        self._routers = routers
        self._later = later
        self._delay_ns = delay_ns
        self._loss = loss
        self._resync_ns = resync_ns
        self._rng = rng
        self._all = tuple(range(len(routers)))
        # Routers that missed a batch and have not heard another one, and those that wait for an answer.
        self._missed: dict[tuple[int, Instance], None] = {}
        self._asked: dict[tuple[int, Instance], None] = {}

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return bool(self._all)

    def publish(self, instance: Instance, now_ns: int) -> None:
        """Tell the routers, sooner or later or never, what changed in an engine's cache."""
        cache, target = instance.engine.cache, instance.target
        events, cache.events = tuple(cache.events), []
        if not events or target is None:
            return
        news = News(target.target_id, target.generation, events)
        if not self._loss:
            self._tell(self._all, instance, news, now_ns)
            return
        hear, after_gap = [], []
        for router in self._all:
            if self._rng.random() < self._loss:
                self._missed[router, instance] = None
            elif (router, instance) in self._missed:
                del self._missed[router, instance]
                after_gap.append(router)
            else:
                hear.append(router)
        self._tell(tuple(hear), instance, news, now_ns)
        late = News(target.target_id, target.generation, events, lost=True)
        self._tell(tuple(after_gap), instance, late, now_ns)

    def poll(self, instance: Instance, now_ns: int) -> None:
        """Tell the routers, sooner or later or never, what an engine's metrics say."""
        target = instance.target
        if target is None or not instance.alive:
            return
        hear = self._all
        if self._loss:
            hear = tuple([router for router in hear if self._rng.random() >= self._loss])
        news = News(target.target_id, target.generation, (), load=instance.engine.load)
        self._tell(hear, instance, news, now_ns)

    def happen(self, signal: Signal, now_ns: int) -> None:
        """Let what was put off happen."""
        match signal:
            case Heard():
                self._hear(signal, now_ns)
            case Replayed(router, instance):
                self._replay(router, instance, now_ns)

    def _tell(self, routers: tuple[int, ...], instance: Instance, news: News, now_ns: int) -> None:
        heard = Heard(routers, instance, news)
        if not routers:
            return
        if self._delay_ns:
            self._later(now_ns + self._delay_ns, heard)
        else:
            self._hear(heard, now_ns)

    def _hear(self, heard: Heard, now_ns: int) -> None:
        for router in heard.routers:
            self._routers[router].learn(heard.news, now_ns)
            asks = (router, heard.instance)
            if heard.news.lost and self._resync_ns and asks not in self._asked:
                self._asked[asks] = None
                self._later(now_ns + self._resync_ns, Replayed(router, heard.instance))

    def _replay(self, router: int, instance: Instance, now_ns: int) -> None:
        del self._asked[router, instance]
        # What is in the answer must not be told again after it.
        self.publish(instance, now_ns)
        target = instance.target
        if target is None:
            return
        self._missed.pop((router, instance), None)
        everything = instance.engine.cache.content()
        news = News(target.target_id, target.generation, everything, snapshot=True)
        self._tell((router,), instance, news, now_ns)
