"""The suite: the cases and sizes on which policies are compared, a short selection and all of it.

A sub-case is a case with some parameters set, under a name of its own: ``aws-long@112`` has 112 clients,
``mooncake@2x`` twice the recorded speed, ``…/8b`` runs Llama 3.1 8B on one H100 each in place of 70B on
eight (``…/70b`` where that is not the case's own profile), ``…+drain`` takes one instance out in mid-run,
``…+add`` puts one in, ``…+quarter`` has caches of a quarter of the size, ``…+4routers`` has four routers that
share nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from warmroute.core.errors import ConfigurationError
from warmroute.core.fleet import RoutingStrategy
from warmroute.sim.cases import CASES
from warmroute.sim.faults import FaultKind
from warmroute.sim.scenario import Parameters, Scenario

LARGE_PROFILE, SMALL_PROFILE = "llama-3.1-70b-8xh100", "llama-3.1-8b-1xh100"
ROUTERS = 4
"""Routers in the runs that show what a record of one's own costs."""
ROUTERS_SUFFIX = f"+{ROUTERS}routers"
SEEDS = 5
"""Of every sub-case and policy."""
KV_AWARE = RoutingStrategy.KV_AWARE.value
CANDIDATES = (KV_AWARE, f"{KV_AWARE}:estimated")
"""What is held to the bar: with what engines tell, and with the router's own record."""
PREFIX_AWARE = RoutingStrategy.PREFIX_AWARE.value
GRID_LENGTHS = (1024, 4096, 16384)
"""Characters; with each of `GRID_FACTORS` times the case's own threshold they are the declared grid."""
GRID_FACTORS = (0.5, 2)
LOW_THRESHOLDS = (1, 4)
"""With the case's own length they are the grid of the short suite: what suits a case with nothing to gain."""
_PAIR = re.compile(r"(.+)\[(\d+),(\d+)\]")


@dataclass(frozen=True, slots=True)
class SubCase:
    """A case at one size.

    Attributes:
        name: As tables show it.
        case: Name of a built-in scenario.
        overrides: Its parameters, as texts.
    """

    name: str
    case: str
    overrides: tuple[tuple[str, str], ...]

    @property
    def scenario(self) -> Scenario:
        """The built-in scenario."""
        return CASES[self.case]

    @property
    def parameters(self) -> Parameters:
        """All of its parameters."""
        return self.scenario.parameters(dict(self.overrides))

    @property
    def changes(self) -> bool:
        """Whether the fleet changes in mid-run."""
        return bool(self.parameters.text("fault"))

    def having(self, overrides: Mapping[str, str]) -> "SubCase":
        """Return the same with further parameters, of which it takes those that it has."""
        known = {name: text for name, text in overrides.items() if name in self.scenario.defaults}
        return replace(self, overrides=tuple({**dict(self.overrides), **known}.items()))

    def with_routers(self) -> "SubCase":
        """Return the same with several routers that share nothing."""
        return replace(self.having({"routers": str(ROUTERS)}), name=f"{self.name}{ROUTERS_SUFFIX}")

    def grid(self) -> tuple[str, ...]:
        """Return PREFIX_AWARE with every pair of the declared grid of the full suite, as policies."""
        own = self.parameters.whole("threshold") or self.scenario.threshold(self.parameters)
        thresholds = sorted({min(1024, max(1, round(own * factor))) for factor in GRID_FACTORS})
        return tuple(
            f"{PREFIX_AWARE}[{length},{threshold}]" for length in GRID_LENGTHS for threshold in thresholds
        )

    def short_grid(self) -> tuple[str, ...]:
        """Return the same of the short suite."""
        length = self.parameters.whole("prefix_length")
        return tuple(f"{PREFIX_AWARE}[{length},{threshold}]" for threshold in LOW_THRESHOLDS)


def policy_of(name: str) -> tuple[str, dict[str, str]]:
    """Return a policy and the parameters that its name sets: ``PREFIX_AWARE[4096,40]`` sets two.

    Raises:
        ConfigurationError: There are brackets behind another policy.
    """
    found = _PAIR.fullmatch(name)
    if not found:
        return name, {}
    policy, length, threshold = found.groups()
    if policy != PREFIX_AWARE:
        raise ConfigurationError(
            f"only {PREFIX_AWARE}[PrefixLength,ConcurrencyThreshold] has a pair, got {name}"
        )
    return policy, {"prefix_length": length, "threshold": threshold}


def _sub(name: str, **overrides: str | float) -> SubCase:
    case, _, _ = name.partition("@")
    return SubCase(name, case, tuple((key, f"{value}") for key, value in overrides.items()))


def _with(sub_case: SubCase, mark: str, **overrides: str | float) -> SubCase:
    texts = {key: f"{value}" for key, value in overrides.items()}
    return replace(sub_case.having(texts), name=f"{sub_case.name}{mark}")


def _small(sub_case: SubCase, **overrides: str | float) -> SubCase:
    return _with(sub_case, "/8b", profile=SMALL_PROFILE, **overrides)


def _changed(sub_case: SubCase, *, at_s: float, warmup_s: float) -> Iterator[SubCase]:
    for kind in (FaultKind.DRAIN, FaultKind.ADD):
        yield _with(
            sub_case,
            f"+{kind.value}",
            fault=kind.value,
            fault_s=at_s,
            duration_s=at_s + 60,
            warmup_s=warmup_s,
        )


def _short() -> Iterator[SubCase]:
    yield _sub("aws-long@14", clients=14, duration_s=900, warmup_s=60)
    busy = _sub("aws-long@112", clients=112, duration_s=120, warmup_s=30)
    yield from (busy, _small(busy))
    yield _sub("aws-short@140", clients=140, duration_s=150, warmup_s=30)
    yield _small(_sub("aws-short@280", clients=280, duration_s=90, warmup_s=30))
    ladder = _sub("ladder@10", qps=10)
    yield from (ladder, _small(ladder))
    yield _sub("pressure@12", qps=12, duration_s=150, warmup_s=60)
    mooncake = _sub("mooncake@2x", speed=2, duration_s=420, warmup_s=60, start_max_s=2600)
    yield from (mooncake, _small(mooncake, instances=8))
    yield _sub("agents@100", sessions=100, duration_s=1200, warmup_s=200)
    yield _small(_sub("agents@50", sessions=50, duration_s=1200, warmup_s=200))
    harmless = _sub("do-no-harm@56", clients=56, duration_s=90, warmup_s=15)
    yield from (harmless, _small(harmless, duration_s=60))
    yield _sub("bursts@1x", speed=1, duration_s=480, warmup_s=30, start_max_s=2600)
    yield _small(_sub("bursts@4x", speed=4, duration_s=240, warmup_s=15, start_max_s=2000))
    skew = _sub("skew@1x", duration_s=16, warmup_s=6)
    yield from (skew, _small(skew))
    hot = _sub("hot@56", clients=56, duration_s=120, warmup_s=30)
    yield from (hot, _small(hot, duration_s=80))
    popular = _sub("prefixes@112", zipf=0.8, clients=112, duration_s=80, warmup_s=25)
    yield _with(popular, "+quarter", cache_scale=0.25)
    yield _small(popular)
    yield _sub("mt-bench@56", clients=56, duration_s=60, warmup_s=10)
    yield _sub("updates@140", clients=140, duration_s=180, warmup_s=40)
    yield _sub("tenants@56", clients=56, duration_s=90, warmup_s=20)
    yield _sub("waves@14", qps=14, duration_s=160, warmup_s=40)
    yield _sub(
        "autoscaling@12", qps=12, period_s=400, duration_s=400, warmup_s=40, scale_every_s=20, start_s=30
    )
    yield from _changed(_sub("aws-long@28", clients=28), at_s=120, warmup_s=45)
    yield from _changed(_sub("aws-short@140", clients=140), at_s=90, warmup_s=30)
    yield from _changed(_sub("skew@0.25x", speed=0.25), at_s=30, warmup_s=8)


def _full() -> Iterator[SubCase]:
    big = list(_sizes())
    yield from big
    yield from (_small(each, **({"instances": 8} if each.case == "mooncake" else {})) for each in big)
    # Not on the small profile: a quarter of its cache is less than one of these prompts.
    agents = _sub("agents@100", sessions=100, duration_s=3600, warmup_s=300)
    yield _with(agents, "+quarter", cache_scale=0.25)
    # As llm-d ran them, beside the same on the two profiles of the suite.
    yield _sub("ladder@all", qps=0)
    for rate in (3, 6, 10, 15, 20):
        ladder = _sub(f"ladder@{rate}", qps=rate)
        yield from (ladder, _with(ladder, "/70b", profile=LARGE_PROFILE), _small(ladder))
    for rate in (8, 12, 16):
        pressure = _sub(f"pressure@{rate}", qps=rate, duration_s=300, warmup_s=60)
        yield from (pressure, _with(pressure, "/70b", profile=LARGE_PROFILE), _small(pressure))
    steady = [
        _sub("aws-long@28", clients=28), _sub("aws-short@140", clients=140),
        _sub("mooncake@1x", start_max_s=3000), _sub("agents@100", sessions=100), _sub("do-no-harm@56"),
        _sub("bursts@1x", start_max_s=3000), _sub("skew@0.25x", speed=0.25), _sub("hot@56"),
        _sub("prefixes@112", zipf=0.8, clients=112),
    ]  # fmt: skip
    for each in steady:
        times = (60, 15) if each.case == "skew" else (300, 90)
        for made in _changed(each, at_s=times[0], warmup_s=times[1]):
            yield from (made, _small(made))
    # The rate of the ladder lasts from the 90th to the 210th second.
    for each, at_s in ((_sub("ladder@6", qps=6), 150), (_sub("pressure@8", qps=8), 240)):
        yield from _changed(each, at_s=at_s, warmup_s=90)


def _sizes() -> Iterator[SubCase]:
    for clients, duration_s in ((14, 3600), (28, 1800), (56, 900), (112, 900)):
        yield _sub(f"aws-long@{clients}", clients=clients, duration_s=duration_s, warmup_s=90)
    for clients in (140, 280):
        yield _sub(f"aws-short@{clients}", clients=clients, duration_s=420, warmup_s=60)
    for speed in (0.5, 1, 2):
        yield _sub(f"mooncake@{speed}x", speed=speed, spread_s=3, warmup_s=300 / speed)
    for sessions in (50, 100, 150, 300):
        yield _sub(f"agents@{sessions}", sessions=sessions, duration_s=3600, warmup_s=300)
    yield _sub("do-no-harm@56", clients=56, duration_s=300, warmup_s=30)
    for speed in (1, 4):
        yield _sub(f"bursts@{speed}x", speed=speed, spread_s=3, warmup_s=60 / speed)
    yield _sub("skew@1x", duration_s=60, warmup_s=15)
    yield _sub("hot@56", clients=56, duration_s=400, warmup_s=60)
    yield _sub("mt-bench@56", clients=56, duration_s=240, warmup_s=30)
    yield _sub("rag@14", clients=14, duration_s=900, warmup_s=120)
    for name in ("chat", "updates"):
        yield _sub(f"{name}@280", clients=280, duration_s=360, warmup_s=60)
    yield _sub("tenants@56", clients=56, duration_s=360, warmup_s=60)
    yield _sub("waves@14", qps=14, duration_s=480, warmup_s=60)
    yield _sub("autoscaling@12", qps=12)
    popular = _sub("prefixes@112", zipf=0.8, clients=112, duration_s=400, warmup_s=60)
    yield from (popular, _with(popular, "+quarter", cache_scale=0.25))


def _named(sub_cases: Iterator[SubCase]) -> Mapping[str, SubCase]:
    listed = list(sub_cases)
    named = {sub_case.name: sub_case for sub_case in listed}
    assert len(named) == len(listed), "two sub-cases have one name"
    return named


SHORT: Mapping[str, SubCase] = _named(_short())
"""The selection that takes half an hour at most on two cores, by name."""
FULL: Mapping[str, SubCase] = _named(_full())
"""Everything, on both profiles, by name."""
