"""What KV_AWARE costs per invocation: reading a prompt, hashing its blocks, deciding, learning how it went.

    .venv/bin/python benchmarks/routing/kv_aware.py [--targets 7] [--tokens 8192] [--json]

Every prompt begins like 1 in 4 per instance (at most 256) documents and ends with a tenth of its own, so that
most decisions find the document on an instance. Each instance has requests in flight all the time; of each
request the router is told the first token, then its end with the tokens that the engine reports, which are
those that the router expected. Prompts of 128 Ki tokens are more than what a record holds, as in life.

Prints microseconds of CPU time; the best of several rounds, since everything else on the machine can only
add to it. No network, no engine. A token is taken for four characters.
"""

import argparse
import json
import time
from collections import deque
from collections.abc import Callable
from random import Random

from decide import router_of

from warmroute import routing
from warmroute.core.decision import Assigned, Lease, Reason, RoutingRequest
from warmroute.core.events import Completed, FirstToken
from warmroute.core.fleet import RoutingStrategy
from warmroute.routing.key import blocks_of, byte_chain, characters_of, native_key, text_chain, text_key
from warmroute.routing.router import Router
from warmroute.wire.chat import BodyKind, OpenAIRequest, cache_salt, read

CHARACTERS_PER_TOKEN = 4
DOCUMENTS_MAX = 256
HEAD = b"head of the keys of a variant, about as long as they are"
NS_PER_REQUEST = 1_000_000


def requests_of(targets: int, tokens: int, count: int, world: Random) -> list[RoutingRequest]:
    """Return requests whose prompts begin like one of some documents and end each in its own way."""
    characters = tokens * CHARACTERS_PER_TOKEN
    blocks = blocks_of(characters)
    shared = blocks - max(1, blocks // 10)
    documents = [
        tuple(world.getrandbits(64) for _ in range(shared)) for _ in range(min(4 * targets, DOCUMENTS_MAX))
    ]
    made = []
    for _ in range(count):
        chain = (*world.choice(documents), *(world.getrandbits(64) for _ in range(blocks - shared)))
        made.append(RoutingRequest(key=world.getrandbits(64), chain=chain, characters=characters))
    return made


class Run:
    """One fleet under one kind of load.

    Args:
        targets: Instances.
        tokens: Of each prompt.
        held: Requests in flight per instance.
    """

    def __init__(self, *, targets: int, tokens: int, held: int) -> None:
        self.router: Router = router_of(RoutingStrategy.KV_AWARE, targets, 0, 0, None, 0)
        self._world = Random(1)
        self._targets, self._tokens = targets, tokens
        self._open: deque[tuple[Lease, int]] = deque()
        self._held = held * targets
        self._now_ns = 1
        self.cached = 0

    def invocations(self, count: int) -> tuple[float, float]:
        """Return microseconds per decision, and per invocation with what follows it."""
        router, book = self.router, self.router.endpoints["llm"].variants["AllTraffic", 0]
        asked = requests_of(self._targets, self._tokens, count, self._world)
        decided_ns = told_ns = 0
        clock = time.process_time_ns
        for request in asked:
            self._now_ns += NS_PER_REQUEST
            began_ns = clock()
            decision = router.decide(book, request, self._now_ns)
            between_ns = clock()
            assert isinstance(decision, Assigned)
            lease = decision.lease
            held = len(request.chain) * 9 // 10 if decision.reason is Reason.CACHED else 0
            self.cached += held > 0
            self._open.append((lease, characters_of(held) // CHARACTERS_PER_TOKEN))
            decided_ns += between_ns - began_ns
            if len(self._open) <= self._held:
                continue
            began_ns = clock()
            # The older half of what is in flight has had its first token.
            router.apply(FirstToken(self._open[self._held // 2][0]), self._now_ns)
            done, expected = self._open.popleft()
            router.apply(Completed(done, self._tokens, expected, 200), self._now_ns)
            told_ns += clock() - began_ns
        return decided_ns / count / 1000, (decided_ns + told_ns) / count / 1000


def overhead_us() -> float:
    """Return what reading the clock twice costs."""
    clock = time.process_time_ns
    began_ns = clock()
    for _ in range(10_000):
        clock()
        clock()
    return (clock() - began_ns) / 10_000 / 1000


def decisions(*, targets: int, tokens: int, held: int, rounds: int) -> dict[str, float]:
    """Return what a decision costs, and an invocation."""
    run = Run(targets=targets, tokens=tokens, held=held)
    count = max(200, min(2000, 2_000_000 // (targets + tokens // 64)))
    run.invocations(count + 2 * held * targets)  # fills the records and the requests in flight
    run.cached = 0
    measured = [run.invocations(count) for _ in range(rounds)]
    clock_us = overhead_us() / 2
    return {
        "decide_us": round(min(decided for decided, _ in measured) - clock_us, 2),
        "invocation_us": round(min(whole for _, whole in measured) - 2 * clock_us, 2),
        "cached": round(run.cached / count / rounds, 3),
    }


def best_us(work: Callable[[], object], rounds: int) -> float:
    """Return microseconds of CPU time that a piece of work takes."""
    count = 20
    best = float("inf")
    for _ in range(rounds):
        began_ns = time.process_time_ns()
        for _ in range(count):
            work()
        best = min(best, (time.process_time_ns() - began_ns) / count / 1000)
    return round(best, 2)


def extraction(tokens: int, rounds: int) -> dict[str, float]:
    """Return what reading a chat of ten turns costs, and the hashes of its text and of a native body."""
    characters = tokens * CHARACTERS_PER_TOKEN
    words = [bytes(Random(number).choices(b"abcdefghijklmnop", k=7)).decode() for number in range(64)]
    world = Random(2)
    turns = [" ".join(world.choices(words, k=characters // 80)) for _ in range(10)]
    messages = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(turns)
    ]
    body = json.dumps({"model": "llm", "messages": messages, "max_tokens": 200}).encode()
    found = read(body, BodyKind.CHAT, len(body))
    assert isinstance(found, OpenAIRequest)
    text = found.text
    return {
        "body_bytes": len(body),
        "read_us": best_us(lambda: read(body, BodyKind.CHAT, len(body)), rounds),
        "text_us": best_us(lambda: (text_key(HEAD, text, 1024, ""), text_chain(HEAD, text)), rounds),
        "native_us": best_us(
            lambda: (cache_salt(body), native_key(HEAD, body, 1024, ""), byte_chain(HEAD, body)), rounds
        ),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", type=int, nargs="*", default=[7, 64, 512, 1000], help="fleet sizes")
    parser.add_argument(
        "--tokens", type=int, nargs="*", default=[1024, 8192, 32768, 131072], help="lengths of prompts"
    )
    parser.add_argument("--held", type=int, default=4, help="requests in flight per instance")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the tables")
    options = parser.parse_args()
    extracted = {tokens: extraction(tokens, options.rounds) for tokens in options.tokens}
    decided = {
        tokens: {
            targets: decisions(targets=targets, tokens=tokens, held=options.held, rounds=options.rounds)
            for targets in options.targets
        }
        for tokens in options.tokens
    }
    if options.json:
        print(json.dumps({"extraction": extracted, "decisions": decided}))
        return
    compiled = "compiled" if not str(routing.router.__file__).endswith(".py") else "pure Python"
    print(f"microseconds of CPU per invocation under KV_AWARE ({compiled})")
    print("  tokens   body KB  read chat  hash text  hash body")
    for tokens, row in extracted.items():
        print(
            f"{tokens:>8}  {row['body_bytes'] / 1024:>8.0f}  {row['read_us']:>9.1f}  {row['text_us']:>9.1f}"
            f"  {row['native_us']:>9.1f}"
        )
    print("  tokens  " + "  ".join(f"{f'{targets} instances':>21}" for targets in options.targets))
    for tokens, cells in decided.items():
        told = [
            f"{cell['decide_us']:.1f} ({cell['invocation_us']:.1f}), {cell['cached']:.0%}"
            for cell in cells.values()
        ]
        print(f"{tokens:>8}  " + "  ".join(f"{cell:>21}" for cell in told))
    print("decide (with what the router is told afterwards), share of requests that found their document")


if __name__ == "__main__":
    main()
