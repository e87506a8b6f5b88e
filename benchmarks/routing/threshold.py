"""How many requests reach their home under PREFIX_AWARE, by ConcurrencyThreshold.

    .venv/bin/python benchmarks/routing/threshold.py [--targets 7] [--in-flight 30] [--prefixes 600]

A closed loop over the real router, without engines or time: a fixed number of requests is in flight,
any of them ends next with the same chance, and the next request takes one of the prefixes, all equally
popular. So the figures show what the threshold does and nothing of what a cache is worth.
"""

import argparse
from collections import Counter
from random import Random

from decide import router_of

from warmroute.core.decision import Assigned, Lease, Reason, RoutingRequest
from warmroute.core.events import Completed
from warmroute.core.fleet import RoutingStrategy
from warmroute.routing.key import native_key


def reasons(
    *, targets: int, in_flight: int, prefixes: int, threshold: int, invocations: int
) -> Counter[Reason]:
    """Return how often each reason was given, after a warm-up of the same length as the load."""
    router = router_of(RoutingStrategy.PREFIX_AWARE, targets, 1024, threshold)
    book = router.endpoints["llm"].variants["AllTraffic", 0]
    keys = [native_key(book.key_head, f"prefix {i}".encode(), 1024, "") for i in range(prefixes)]
    world = Random(2)
    held: list[Lease] = []
    counts: Counter[Reason] = Counter()
    for number in range(-2 * targets * in_flight, invocations):
        if len(held) >= targets * in_flight:
            position = world.randrange(len(held))
            held[position], held[-1] = held[-1], held[position]
            router.apply(Completed(held.pop()), 0)
        decision = router.decide(book, RoutingRequest(key=world.choice(keys)), 0)
        assert isinstance(decision, Assigned)
        held.append(decision.lease)
        if number >= 0:
            counts[decision.reason] += 1
    return counts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", type=int, default=7)
    parser.add_argument("--in-flight", type=int, default=30, help="mean per target")
    parser.add_argument("--prefixes", type=int, default=600)
    parser.add_argument("--invocations", type=int, default=20_000)
    options = parser.parse_args()
    shown = (Reason.AFFINITY, Reason.OVERFLOW, Reason.SATURATED)
    print(f"{options.targets} targets, {options.in_flight} in flight on each on average; share of requests")
    print("threshold  " + "  ".join(f"{reason.value:>10}" for reason in shown))
    for share in (1 / 3, 2 / 3, 1, 1.15, 4 / 3, 1.5, 2):
        threshold = round(options.in_flight * share)
        counts = reasons(
            targets=options.targets, in_flight=options.in_flight, prefixes=options.prefixes,
            threshold=threshold, invocations=options.invocations,
        )  # fmt: skip
        cells = "  ".join(f"{counts[reason] / options.invocations:10.1%}" for reason in shown)
        print(f"{threshold:>9}  {cells}")


if __name__ == "__main__":
    main()
