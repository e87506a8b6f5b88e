"""Collect the credentials of the settings file, of files it names, and of the environment."""

import dataclasses
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from warmroute.app.reader import Place, keys_of, read, read_value
from warmroute.app.settings import AccessKeySettings, ApiKeySettings, AuthSettings, Settings
from warmroute.core.errors import ConfigurationError
from warmroute.core.fleet import AccessKey, ApiKey

ACCESS_KEY_ID = "WARMROUTE_ACCESS_KEY_ID"
SECRET_ACCESS_KEY = "WARMROUTE_SECRET_ACCESS_KEY"  # noqa: S105  (the variable's name)
SECRET_ACCESS_KEY_FILE = "WARMROUTE_SECRET_ACCESS_KEY_FILE"  # noqa: S105  (the variable's name)
API_KEYS = "WARMROUTE_API_KEYS"
STORE_URL = "WARMROUTE_SERVER__STORE_URL"
SECRET_VARIABLES = (SECRET_ACCESS_KEY, API_KEYS, STORE_URL)
"""Not passed on to child processes."""


def complete(auth: AuthSettings, environment: Mapping[str, str]) -> AuthSettings:
    """Return the settings with every secret read and the environment's credentials added.

    Raises:
        ConfigurationError: A secret is missing, cannot be read or stands there twice.
    """
    access_keys = {key.access_key_id: _read_access_key(key) for key in auth.access_keys}
    if len(access_keys) < len(auth.access_keys):
        raise ConfigurationError("auth.access_keys: the same access_key_id stands there twice")
    for key in _environment_access_keys(environment):
        access_keys[key.access_key_id] = key
    api_keys = tuple(map(_read_api_key, auth.api_keys)) + _environment_api_keys(environment)
    if len({key.key for key in api_keys}) < len(api_keys):
        raise ConfigurationError("auth.api_keys: the same key stands there twice")
    if api_keys and not access_keys:
        raise ConfigurationError(
            "auth.api_keys: they need at least one entry in auth.access_keys beside them; "
            "without it every route but /v1 would ask for no credentials"
        )
    return dataclasses.replace(auth, access_keys=tuple(access_keys.values()), api_keys=api_keys)


def read_optional_secret(text: str | None, file: str, *, text_name: str) -> str | None:
    """Return a secret that may be missing.

    Raises:
        ConfigurationError: Given twice, or its file cannot be read.
    """
    if not (text or file):
        return None
    return _secret(text=text or "", file=file, text_name=text_name, file_name=f"{text_name}_file")


def access_keys(settings: Settings) -> tuple[AccessKey, ...]:
    """Return the declared access keys as processes are told them."""
    return tuple(
        AccessKey(key.access_key_id, key.secret_access_key, key.principal)
        for key in settings.auth.access_keys
    )


def api_keys(settings: Settings) -> tuple[ApiKey, ...]:
    """Return the declared API keys as processes are told them."""
    return tuple(ApiKey(key.principal, key.key) for key in settings.auth.api_keys)


def exposed_files(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each secret file that others than its owner may read.

    Args:
        settings: Complete, those of the environment included.
    """
    files = [key.secret_access_key_file for key in settings.auth.access_keys]
    files += [key.key_file for key in settings.auth.api_keys]
    files += [declared.api_key_file for declared in settings.instance_types.values()]
    for file in dict.fromkeys(filter(None, files)):
        try:
            mode = stat.S_IMODE(Path(file).stat().st_mode)
        except OSError:
            continue  # gone since it was read
        if mode & (stat.S_IRGRP | stat.S_IROTH):
            who = "everybody on this machine" if mode & stat.S_IROTH else "its group"
            yield f"{file} holds a secret, and {who} may read it (mode {mode:04o}); chmod 600 takes that away"


def _read_access_key(key: AccessKeySettings) -> AccessKeySettings:
    where = f"auth.access_keys {key.access_key_id}"
    secret = _secret(
        text=key.secret_access_key,
        file=key.secret_access_key_file,
        text_name=f"{where}: secret_access_key",
        file_name="secret_access_key_file",
    )
    _check(AccessKeySettings, "secret_access_key", secret, where=where, file=key.secret_access_key_file)
    return dataclasses.replace(key, secret_access_key=secret)


def _read_api_key(key: ApiKeySettings) -> ApiKeySettings:
    where = f"auth.api_keys {key.principal}"
    secret = _secret(text=key.key, file=key.key_file, text_name=f"{where}: key", file_name="key_file")
    _check(ApiKeySettings, "key", secret, where=where, file=key.key_file)
    return dataclasses.replace(key, key=secret)


def _environment_access_keys(environment: Mapping[str, str]) -> tuple[AccessKeySettings, ...]:
    identifier = environment.get(ACCESS_KEY_ID, "")
    text = environment.get(SECRET_ACCESS_KEY, "")
    file = environment.get(SECRET_ACCESS_KEY_FILE, "")
    if not (identifier or text or file):
        return ()
    if not identifier:
        raise ConfigurationError(f"{SECRET_ACCESS_KEY} is set without {ACCESS_KEY_ID}; set both, or neither")
    secret = _secret(text=text, file=file, text_name=SECRET_ACCESS_KEY, file_name=SECRET_ACCESS_KEY_FILE)
    table = {"access_key_id": identifier, "secret_access_key": secret}
    if file:
        table["secret_access_key_file"] = file
    return (read(AccessKeySettings, table, Place(source="environment", directory=Path())),)


def _environment_api_keys(environment: Mapping[str, str]) -> tuple[ApiKeySettings, ...]:
    place = Place(source=API_KEYS, directory=Path())
    entries = [entry.strip() for entry in environment.get(API_KEYS, "").split(",")]
    keys = []
    for number, entry in enumerate(filter(None, entries), start=1):
        name, _, key = entry.rpartition(":")
        table = {"principal": name or f"api-key-{number}", "key": key}
        keys.append(read(ApiKeySettings, table, place.at(str(number))))
    return tuple(keys)


def _check(kind: type, name: str, secret: str, *, where: str, file: str) -> None:
    """Hold a secret to its key's rule, which the reader has applied to text alone.

    Raises:
        ConfigurationError: It is too short; the text names the file, never the secret.
    """
    key = next(key for key in keys_of(kind) if key.name == name)
    source = f" from {file}" if file else ""
    written = f"{where}: {name} = (a secret{source})"
    read_value(key, secret, written=written, place=Place(source="", directory=Path()))


def _secret(*, text: str, file: str, text_name: str, file_name: str) -> str:
    """Return a secret that was given as text or as the name of a file that holds it."""
    if text and file:
        raise ConfigurationError(f"{text_name} and {file_name} are both given; give one")
    if text:
        return text
    if not file:
        raise ConfigurationError(f"{text_name} is missing; give it, or give {file_name}")
    try:
        secret = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{text_name}: {file} cannot be read: {error}") from None
    if not secret:
        raise ConfigurationError(f"{text_name}: {file} is empty")
    return secret
