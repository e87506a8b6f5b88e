"""Instances that run already: each URL an operator lists is one."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from warmroute.adapters.providers.files import read_json, write_json
from warmroute.controlplane.ports import InstanceFact, InstanceOrder, InstancePhase, ProviderRefused
from warmroute.core.errors import ConfigurationError
from warmroute.core.ids import InstanceId
from warmroute.core.machines import InstanceType

_HOLDERS_NAMED_MAX = 3
"""Of the URLs that others have: a FailureReason is short."""
_SCHEMES = {"http": (False, 80), "https": (True, 443)}


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """Where a model server listens.

    Attributes:
        host: Name or address; an IPv6 address without its brackets.
        port: TCP port, 1-65535.
        tls: HTTPS.
        path_prefix: ``""`` or ``"/something"``, without a slash at the end.
    """

    host: str
    port: int
    tls: bool
    path_prefix: str


def parse_base_url(url: str) -> BaseUrl:
    """Read the base URL of a model server.

    Args:
        url: ``http`` or ``https``, a host, and optionally a port and a path.

    Raises:
        ConfigurationError: It is something else; the text quotes it, credentials left out.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"{url!r} is not a base URL: {error}.") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            f"The base URL of {parts.hostname!r} holds credentials; "
            "give the servers' own key as api_key of the instance type."
        )
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ConfigurationError(
            f"{url!r} is not a base URL: it must look like http://HOST:PORT or https://HOST:PORT/PREFIX."
        )
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ConfigurationError(f"{url!r} is not a base URL: it must end before any '?' or '#'.")
    if any(not "!" <= character <= "~" for character in parts.path + parts.hostname):
        raise ConfigurationError(f"{url!r} is not a base URL: it must be printable ASCII without spaces.")
    tls, usual_port = _SCHEMES[parts.scheme]
    if port == 0:
        raise ConfigurationError(f"{url!r} is not a base URL: the port must be 1 to 65535.")
    return BaseUrl(host=parts.hostname, port=port or usual_port, tls=tls, path_prefix=parts.path.rstrip("/"))


@dataclass(frozen=True, slots=True)
class _Assignment:
    instance_type: str
    url: str
    generation: int
    endpoint: str = ""
    """Empty in files of versions that did not write it down."""


@dataclass(frozen=True, slots=True)
class _Book:
    """What ``static.json`` holds; one that differs is another object."""

    next_generation: int
    assigned: dict[str, _Assignment]


class StaticProvider:
    """Hands out the URLs of its instance types, one to an instance.

    Which instance has which URL is kept in ``<data_dir>/instances/static.json``, so that a restart
    changes nothing.
    """

    def __init__(self, *, instance_types: Mapping[str, InstanceType], data_dir: Path) -> None:
        """Read the assignments of an earlier process.

        Args:
            instance_types: The static ones, by name.
            data_dir: warmroute's own directory; ``instances`` is made in it.

        Raises:
            ConfigurationError: A URL is malformed or listed twice.
            ValueError: ``static.json`` is damaged.
        """
        self._types = dict(instance_types)
        self._places: dict[str, dict[str, BaseUrl]] = {}
        for name, instance_type in self._types.items():
            places = {url: parse_base_url(url) for url in instance_type.urls}
            if len(set(places.values())) != len(instance_type.urls):
                raise ConfigurationError(
                    f'Instance type "{name}" lists the same URL twice; each is one instance.'
                )
            self._places[name] = places
        self._path = data_dir / "instances" / "static.json"
        self._changing = asyncio.Lock()
        self._book = read_json(self._path, _Book) or _Book(next_generation=1, assigned={})

    async def start(self, order: InstanceOrder) -> None:
        """Give the instance a free URL.

        Raises:
            ProviderRefused: Every URL is in use.
            OSError: It could not be written down, and so was not done.
        """
        async with self._changing:
            book = self._book
            if order.instance_id in book.assigned:
                return
            taken = {parse_base_url(one.url) for one in book.assigned.values()}
            places = self._places[order.instance_type]
            free = next((url for url, place in places.items() if place not in taken), None)
            if free is None:
                raise ProviderRefused(self._refusal(order))
            generation = book.next_generation
            new = _Assignment(order.instance_type, free, generation, order.endpoint)
            await self._change(_Book(generation + 1, {**book.assigned, order.instance_id: new}))

    async def list(self) -> tuple[InstanceFact, ...]:
        """Return every assignment; one whose URL is listed no more has exited."""
        return tuple(
            self._fact(InstanceId(instance_id), assignment)
            for instance_id, assignment in self._book.assigned.items()
        )

    async def stop(self, instance_id: InstanceId, grace_s: float) -> None:
        """Take the URL back; the server behind it is not ours to stop, so ``grace_s`` has no effect.

        Raises:
            OSError: It could not be written down, and so was not done.
        """
        del grace_s
        async with self._changing:
            book = self._book
            if instance_id in book.assigned:
                left = {name: one for name, one in book.assigned.items() if name != instance_id}
                await self._change(_Book(book.next_generation, left))

    def _refusal(self, order: InstanceOrder) -> str:
        """Return why there is no URL for an order; who has them, where that is another endpoint."""
        name = order.instance_type
        places = self._places[name]
        if not places:
            return f'Instance type "{name}" has no URLs; list some under its "urls".'
        text = f'Instance type "{name}" has ' + (
            "1 URL, in use" if len(places) == 1 else f"{len(places)} URLs, all in use"
        )
        ours = set(places.values())
        others = [
            f"{one.url} by {_holder(one)} (instance {instance_id})"
            for instance_id, one in self._book.assigned.items()
            if parse_base_url(one.url) in ours
            and (one.endpoint != order.endpoint if one.endpoint else one.instance_type != name)
        ]
        if not others:
            return f"{text}; InitialInstanceCount asks for more."
        named = ", ".join(others[:_HOLDERS_NAMED_MAX])
        more = len(others) - _HOLDERS_NAMED_MAX
        rest = f" and {more} more" if more > 0 else ""
        return f"{text}: {named}{rest}. Delete the other endpoint, or list other URLs."

    def _fact(self, instance_id: InstanceId, assignment: _Assignment) -> InstanceFact:
        place = self._places.get(assignment.instance_type, {}).get(assignment.url)
        if place is None:
            gone = parse_base_url(assignment.url)
            return InstanceFact(
                instance_id=instance_id,
                instance_type=assignment.instance_type,
                phase=InstancePhase.EXITED,
                generation=assignment.generation,
                host=gone.host,
                port=gone.port,
                detail=f'Instance type "{assignment.instance_type}" no longer lists {assignment.url}.',
            )
        return InstanceFact(
            instance_id=instance_id,
            instance_type=assignment.instance_type,
            phase=InstancePhase.RUNNING,
            generation=assignment.generation,
            host=place.host,
            port=place.port,
            tls=place.tls,
            path_prefix=place.path_prefix,
            api_key=self._types[assignment.instance_type].api_key,
            detail=assignment.url,
        )

    async def _change(self, book: _Book) -> None:
        """Write a book down, then let it be the one in force.

        A caller that gives up waits for the write all the same: what is written is what is so.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        writing = asyncio.get_running_loop().run_in_executor(None, write_json, self._path, book)
        try:
            await asyncio.shield(writing)
        finally:
            await asyncio.wait([writing])
            if writing.exception() is None:
                self._book = book


def _holder(assignment: _Assignment) -> str:
    if assignment.endpoint:
        return f'endpoint "{assignment.endpoint}"'
    return f'instance type "{assignment.instance_type}"'
