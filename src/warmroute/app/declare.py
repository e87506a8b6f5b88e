"""Turn the flags of ``serve --instances …`` into the endpoint they ask for."""

import re
from dataclasses import dataclass

from warmroute.app.machines import checked_url
from warmroute.core import limits
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.errors import ConfigurationError
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.core.ids import EndpointName
from warmroute.core.machines import InstanceType, ProviderKind

_ENDPOINT_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")  # SageMaker's service model


@dataclass(frozen=True, slots=True)
class EndpointFlags:
    """The flags as written; None for one that was not given."""

    instances: str | None = None
    endpoint: str | None = None
    strategy: str | None = None
    prefix_length: str | None = None
    concurrency_threshold: str | None = None


def declaration_of(flags: EndpointFlags) -> EndpointDeclaration | None:
    """Return the endpoint that the flags ask for; None when there is no ``--instances``.

    Raises:
        ConfigurationError: A flag is wrong, missing, or has nothing to apply to.
    """
    if flags.instances is None:
        for name in ("endpoint", "strategy", "prefix_length", "concurrency_threshold"):
            if getattr(flags, name) is not None:
                raise ConfigurationError(
                    f"--{name.replace('_', '-')} applies to --instances, which is missing"
                )
        return None
    if flags.endpoint is None:
        raise ConfigurationError(
            "--instances needs --endpoint NAME: how callers name what these servers serve"
        )
    if not _ENDPOINT_NAME.fullmatch(flags.endpoint):
        raise ConfigurationError(
            f"--endpoint {flags.endpoint}: must be 1 to 63 letters, digits and inner hyphens"
        )
    return EndpointDeclaration(
        endpoint=EndpointName(flags.endpoint),
        instance_type=InstanceType(
            name=f"static.{flags.endpoint}", provider=ProviderKind.STATIC, urls=_urls(flags.instances)
        ),
        routing=_routing(flags),
    )


def _urls(instances: str) -> tuple[str, ...]:
    urls = tuple(checked_url(url.strip(), where="--instances") for url in instances.split(","))
    for url in urls:
        if urls.count(url) > 1:
            raise ConfigurationError(f"--instances: {url} stands there twice; each URL is one instance")
    return urls


def _routing(flags: EndpointFlags) -> Routing:
    strategy = _strategy(flags.strategy or RoutingStrategy.RANDOM)
    parameters = {
        "--prefix-length": (flags.prefix_length, limits.PREFIX_LENGTH_MIN, limits.PREFIX_LENGTH_MAX),
        "--concurrency-threshold": (
            flags.concurrency_threshold,
            limits.CONCURRENCY_THRESHOLD_MIN,
            limits.CONCURRENCY_THRESHOLD_MAX,
        ),
    }
    if strategy is not RoutingStrategy.PREFIX_AWARE:
        for flag, (given, _, _) in parameters.items():
            if given is not None:
                raise ConfigurationError(
                    f"{flag} applies to --strategy PREFIX_AWARE, not to {strategy.value}"
                )
        return Routing(strategy=strategy)
    prefix_length, threshold = (
        _integer(flag, given, low=low, high=high) for flag, (given, low, high) in parameters.items()
    )
    return Routing(strategy=strategy, prefix_length=prefix_length, concurrency_threshold=threshold)


def _strategy(given: str) -> RoutingStrategy:
    try:
        return RoutingStrategy(given)
    except ValueError:
        allowed = ", ".join(strategy.value for strategy in RoutingStrategy)
        raise ConfigurationError(f"--strategy {given}: must be one of {allowed}") from None


def _integer(flag: str, given: str | None, *, low: int, high: int) -> int:
    if given is None:
        raise ConfigurationError(f"--strategy PREFIX_AWARE needs {flag}, an integer from {low} to {high}")
    if not re.fullmatch(r"\d{1,9}", given) or not low <= int(given) <= high:
        raise ConfigurationError(f"{flag} {given}: must be an integer from {low} to {high}")
    return int(given)
