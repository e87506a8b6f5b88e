"""What the tests of the baselines have in common."""

from random import Random

from warmroute.core.decision import Assigned
from warmroute.core.events import Completed, FirstToken
from warmroute.core.fleet import Target, TargetState
from warmroute.engine.prefix_cache import BlocksRemoved, BlocksStored
from warmroute.sim.policy import News, Settings
from warmroute.workload.prompts import Request

SETTINGS = Settings(prefix_length=4096, concurrency_threshold=32, cache_blocks=100_000)


def target(number, *, generation=1, state=TargetState.IN_SERVICE):
    name = f"instance-{number}"
    return Target(name, name, generation, "127.0.0.1", 8000 + number, state=state)


def started(make, count=4, *more):
    """A baseline with some targets; ``make`` is its class or anything that takes the rng first."""
    chooser = make(Random(7), *more)
    chooser.apply_targets(1, tuple(target(number) for number in range(count)))
    return chooser


def prompt(first, tokens=1600, output=160, *, tail=None):
    """A prompt whose blocks are counted from ``first``; with ``tail``, its last tenth from there."""
    blocks = (tokens + output) // 16 + 1
    if tail is None:
        return Request(tokens, output, ((first, blocks),))
    shared = tokens // 16 * 9 // 10
    return Request(tokens, output, ((first, shared), (tail, blocks - shared)))


def send(chooser, request, *, tried=(), now_ns=0):
    decision = chooser.decide(request, chooser.asked(request), now_ns, tried)
    assert isinstance(decision, Assigned)
    return decision


def number(decision):
    return int(decision.target.target_id.rpartition("-")[2])


def finish(chooser, decision):
    chooser.apply(FirstToken(decision.lease), 0)
    chooser.apply(Completed(decision.lease), 0)


def served(chooser, request, **more):
    """Send a request and let it end; returns where it was."""
    decision = send(chooser, request, **more)
    finish(chooser, decision)
    return number(decision)


def tell(chooser, which, *events, lost=False, snapshot=False, generation=1):
    chooser.learn(News(f"instance-{which}", generation, events, lost, snapshot), 0)


def stored(first, count, depth=0):
    return BlocksStored(first, count, depth)


def removed(first, count, depth=0):
    return BlocksRemoved(first, count, depth)


def busy(chooser, which, count=1, *, tokens=1600, first=1 << 40):
    """Put leases of prompts that nobody else has on one target; what is pending stays pending."""
    others = tuple(name for name in chooser.in_flight() if name != f"instance-{which}")
    return [send(chooser, prompt(first + n * 100_000, tokens), tried=others) for n in range(count)]
