"""What a routing decision costs: choose the variant, make the key, decide, release the lease.

    .venv/bin/python benchmarks/routing/decide.py [--targets 7] [--copies 2] [--body-bytes 32768] [--json]

Prints microseconds of CPU time per invocation for each strategy; the best of several rounds, since
everything else on the machine can only add to it. No network, no engine.
"""

import argparse
import json
import time
from collections import deque
from random import Random

from warmroute.adapters.decision_log import DecisionLog
from warmroute.core.decision import Assigned, Lease, RoutingRequest
from warmroute.core.events import Completed
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.key import native_key
from warmroute.routing.recorder import RecordedRouter
from warmroute.routing.router import Router

COMPONENT = "component"
CALLERS = [f"user-{i}" for i in range(50)]


def router_of(
    strategy: RoutingStrategy,
    targets: int,
    prefix_length: int,
    threshold: int,
    log: DecisionLog | None,
    copies: int,
) -> Router:
    """Return a router over one endpoint with one variant; with a log, one that writes it.

    With copies, each instance carries that many of one inference component.
    """
    aware = strategy is RoutingStrategy.PREFIX_AWARE
    routing = Routing(
        strategy,
        prefix_length=prefix_length if aware else None,
        concurrency_threshold=threshold if aware else None,
    )
    members = tuple(
        Target(
            TargetId(name), InstanceId(instance), 1, "127.0.0.1", 8000, component=COMPONENT if copies else ""
        )
        for instance in (f"i-{i:012x}" for i in range(targets))
        for name in ([f"{instance}-{n}" for n in range(copies)] or [instance])
    )
    variant = Variant(VariantName("AllTraffic"), 1.0, routing, members)
    router = Router(Random(1)) if log is None else RecordedRouter(Random(1), log.add)
    router.apply_fleet(
        Fleet(1, "us-east-1", "000000000000", (Endpoint(EndpointName("llm"), True, (variant,)),))
    )
    return router


def cpu_us(router: Router, body: bytes, *, invocations: int, held: int, component: str) -> float:
    """Return microseconds of CPU time per invocation, with ``held`` leases open all the time."""
    endpoint = router.endpoints["llm"]
    open_leases: deque[Lease] = deque()
    began_ns = 0
    for number in range(-held, invocations):
        if number == 0:
            began_ns = time.process_time_ns()
        book = router.choose_variant(endpoint, None, component=component)
        assert book is not None
        key = None
        if book.prefix_length:
            head = book.head_of(component)
            key = native_key(head, body, book.prefix_length, CALLERS[number % len(CALLERS)])
        decision = router.decide(book, RoutingRequest(key=key, component=component), 0)
        assert isinstance(decision, Assigned)
        open_leases.append(decision.lease)
        if number >= 0:
            router.apply(Completed(open_leases.popleft()), 0)
    took_ns = time.process_time_ns() - began_ns
    for lease in open_leases:
        router.apply(Completed(lease), 0)
    assert router.open_leases() == 0
    return took_ns / invocations / 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", type=int, nargs="*", default=[1, 7, 64, 1000], help="fleet sizes")
    parser.add_argument("--copies", type=int, default=0, help="of a component, per instance; 0 for none")
    parser.add_argument("--body-bytes", type=int, default=32768)
    parser.add_argument("--prefix-length", type=int, default=4096)
    parser.add_argument("--threshold", type=int, default=32, help="ConcurrencyThreshold")
    parser.add_argument("--held", type=int, default=4, help="leases open per target")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--decision-log", metavar="FILE", help="write a decision log there")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    options = parser.parse_args()
    body = b"x" * options.body_bytes
    strategies = [s for s in RoutingStrategy if s is not RoutingStrategy.KV_AWARE]
    best = {}
    for targets in options.targets:
        invocations = max(1000, 10_000 // targets)
        for strategy in strategies:
            log = DecisionLog(options.decision_log, bytes_max=1 << 40) if options.decision_log else None
            router = router_of(
                strategy, targets, options.prefix_length, options.threshold, log, options.copies
            )
            held = options.held * targets * (options.copies or 1)
            component = COMPONENT if options.copies else ""
            best[f"{strategy.value} {targets}"] = min(
                cpu_us(router, body, invocations=invocations, held=held, component=component)
                for _ in range(options.rounds)
            )
            if log is not None:
                log.close()
    if options.json:
        print(json.dumps(best))
        return
    print("microseconds of CPU per invocation: choose_variant, key, decide, apply")
    print(f"{'instances':>9}  " + "  ".join(f"{strategy.value:>26}" for strategy in strategies))
    for targets in options.targets:
        cells = "  ".join(f"{best[f'{strategy.value} {targets}']:26.2f}" for strategy in strategies)
        print(f"{targets:>9}  {cells}")


if __name__ == "__main__":
    main()
