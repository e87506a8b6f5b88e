"""Find out the settings: flags before environment before file before defaults."""

import dataclasses
import ipaddress
import tomllib
from collections.abc import Mapping
from pathlib import Path

from msgspec import inspect

from warmroute.app.credentials import complete
from warmroute.app.reader import Key, Place, bare, keys_of, read, read_value
from warmroute.app.settings import Settings
from warmroute.core.errors import ConfigurationError

FILE_NAME = "warmroute.toml"
"""Read from the working directory when no file is named."""
ENVIRONMENT_PREFIX = "WARMROUTE_"
ENVIRONMENT_SECTIONS = ("server", "limits", "timeouts", "access_log", "router")
"""Sections whose keys are also read from the environment.

Two underscores stand between section and key: Kubernetes sets ``WARMROUTE_PORT`` and the like by
itself in every pod beside a service named ``warmroute``.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """Where settings come from.

    Attributes:
        config: The file named by ``--config``; None looks at ``WARMROUTE_CONFIG``, then at
            ``warmroute.toml`` in ``directory``, which need not exist.
        environment: Environment variables.
        flags: ``{"server.port": "8080"}``: what the command line gave, nothing it did not.
        directory: The working directory.
    """

    config: Path | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    flags: Mapping[str, object] = dataclasses.field(default_factory=dict)
    directory: Path = dataclasses.field(default_factory=Path)


def load(sources: Sources) -> Settings:
    """Return the settings, checked and with every default filled in.

    Raises:
        ConfigurationError: Something is wrong with one; the text names it and says what is allowed.
    """
    settings = _read_file(sources)
    settings = _apply_environment(settings, sources)
    settings = _apply_flags(settings, sources)
    settings = _complete(settings, sources.environment)
    _check_listeners(settings)
    return settings


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a listener on ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def environment_name(section: str, key: str) -> str:
    """Return the environment variable of a key."""
    return f"{ENVIRONMENT_PREFIX}{section.upper()}__{key.upper()}"


def _read_file(sources: Sources) -> Settings:
    named = sources.config or sources.environment.get("WARMROUTE_CONFIG")
    path = sources.directory / (named or FILE_NAME)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named is None:
            return Settings()
        raise ConfigurationError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from None
    return read(Settings, table, Place(source=str(named or FILE_NAME), directory=path.parent))


def _apply_environment(settings: Settings, sources: Sources) -> Settings:
    place = Place(source="environment", directory=sources.directory)
    for section in ENVIRONMENT_SECTIONS:
        for key in _section_keys(section):
            name = environment_name(section, key.name)
            if name in sources.environment:
                text = sources.environment[name]
                written = f"{name}={'(a secret)' if key.secret else text}"
                value = read_value(key, text, written=written, place=place, strict=False)
                settings = _replace(settings, section, key.name, value)
    known = {
        environment_name(section, key.name)
        for section in ENVIRONMENT_SECTIONS
        for key in _section_keys(section)
    }
    for name in sources.environment:
        if name.startswith(ENVIRONMENT_PREFIX) and "__" in name and name not in known:
            raise ConfigurationError(
                f"{name}: no such setting; WARMROUTE_<SECTION>__<KEY> takes the keys of "
                f"{', '.join(ENVIRONMENT_SECTIONS)}"
            )
    return settings


def _apply_flags(settings: Settings, sources: Sources) -> Settings:
    place = Place(source="flags", directory=sources.directory)
    for dotted, value in sources.flags.items():
        section, _, name = dotted.partition(".")
        key = next(key for key in _section_keys(section) if key.name == name)
        written = f"--{name.replace('_', '-')} {value}"
        checked = read_value(key, value, written=written, place=place, strict=False)
        settings = _replace(settings, section, name, checked)
    return settings


def _complete(settings: Settings, environment: Mapping[str, str]) -> Settings:
    server = settings.server
    data_home = environment.get("XDG_DATA_HOME") or str(Path("~/.local/share").expanduser())
    data_dir = server.data_dir or str(Path(data_home) / "warmroute")
    region = server.region or environment.get("AWS_REGION") or "us-east-1"
    store_url = server.store_url or f"sqlite:///{data_dir}/warmroute.db"
    access_log = settings.access_log.path or f"{data_dir}/access.log"
    return dataclasses.replace(
        settings,
        server=dataclasses.replace(server, data_dir=data_dir, region=region, store_url=store_url),
        access_log=dataclasses.replace(settings.access_log, path=access_log),
        auth=complete(settings.auth, environment),
    )


def _check_listeners(settings: Settings) -> None:
    host = settings.server.host
    if not (settings.auth.access_keys or settings.auth.allow_anonymous or is_loopback(host)):
        raise ConfigurationError(
            f"server.host = {host}: without credentials the public listener must be on a loopback address "
            "such as 127.0.0.1, because whoever reaches it may use and change every endpoint; "
            "declare auth.access_keys, or set auth.allow_anonymous = true"
        )


def _section_keys(section: str) -> tuple[Key, ...]:
    key = next(key for key in keys_of(Settings) if key.name == section)
    described = bare(key.type)
    assert isinstance(described, inspect.DataclassType), section
    return keys_of(described.cls)


def _replace(settings: Settings, section: str, name: str, value: object) -> Settings:
    changed = dataclasses.replace(getattr(settings, section), **{name: value})
    return dataclasses.replace(settings, **{section: changed})
