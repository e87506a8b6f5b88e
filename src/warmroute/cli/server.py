"""Where the server is that a command talks to, and with which credentials."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from warmroute.core.errors import ConfigurationError

if TYPE_CHECKING:
    from warmroute.app.settings import Settings

URL_VARIABLES: Final = ("WARMROUTE_ENDPOINT_URL", "AWS_ENDPOINT_URL_SAGEMAKER", "AWS_ENDPOINT_URL")
"""In this order; the last two are those that the AWS CLI and boto3 read."""
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  (not bound here)


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key, and where it comes from.

    Attributes:
        access_key_id: Its public half.
        secret_access_key: Its secret half; never shown.
        token: Session token; None for none.
        source: For messages.
    """

    access_key_id: str
    secret_access_key: str = field(repr=False)
    token: str | None = field(repr=False)
    source: str


@dataclass(frozen=True)
class Server:
    """A warmroute to talk to.

    Attributes:
        endpoint_url: Of ``--endpoint-url``; None for the environment's or the settings'.
        config: Of ``--config``; None for the usual settings file.
        profile: Of ``--profile``; None for ``AWS_PROFILE``.
        environment: Environment variables.
        directory: The working directory.
    """

    endpoint_url: str | None = None
    config: Path | None = None
    profile: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    directory: Path = field(default_factory=Path.cwd)

    @cached_property
    def settings(self) -> "Settings":
        """The settings, as ``serve`` would read them.

        Raises:
            ConfigurationError: They are wrong.
        """
        from warmroute.app.config import Sources, load

        return load(Sources(config=self.config, environment=self.environment, directory=self.directory))

    @cached_property
    def url(self) -> str:
        """Base URL of the public listener, without a slash at its end.

        Raises:
            ConfigurationError: It is no URL, or the settings do not tell the port.
        """
        if self.endpoint_url is not None:
            return _checked(self.endpoint_url, "--endpoint-url")
        for name in URL_VARIABLES:
            if self.environment.get(name):
                return _checked(self.environment[name], name)
        listener = self.settings.server
        if listener.port == 0:
            raise ConfigurationError(
                "server.port = 0: the server takes any free port, so the settings do not tell which; "
                "give --endpoint-url with the URL that serve printed"
            )
        host = _ANY_ADDRESS.get(listener.host, listener.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{listener.port}"

    @cached_property
    def region(self) -> str:
        """Region to sign for: the environment's, else that of the settings."""
        return (
            self.environment.get("AWS_REGION")
            or self.environment.get("AWS_DEFAULT_REGION")
            or self.settings.server.region
        )

    def credentials(self) -> Credentials | None:
        """Return the credentials to sign with; None when there are none.

        In this order: ``--profile`` or ``AWS_PROFILE``, ``AWS_ACCESS_KEY_ID``, the access keys of the
        settings and of ``WARMROUTE_ACCESS_KEY_ID``, the default profile in the AWS files.

        Raises:
            ConfigurationError: The profile does not exist, or the settings are wrong.
        """
        profile = self.profile or self.environment.get("AWS_PROFILE")
        if profile:
            return self._of_profile(profile)
        key, secret = (self.environment.get(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"))
        if key and secret:
            return Credentials(key, secret, self.environment.get("AWS_SESSION_TOKEN"), "AWS_ACCESS_KEY_ID")
        for known in self.settings.auth.access_keys:
            return Credentials(known.access_key_id, known.secret_access_key, None, "the settings")
        return self._of_profile(None)

    def _of_profile(self, profile: str | None) -> Credentials | None:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session

        session: Any = Session(profile=profile)
        try:
            providers = session.get_component("credential_provider")
            for remote in (
                "iam-role",
                "container-role",
                "env",
            ):  # no question to a network for a local command
                providers.remove(remote)
            found = session.get_credentials()
        except BotoCoreError as error:
            raise ConfigurationError(f"credentials of profile {profile or 'default'}: {error}") from None
        if found is None:
            return None
        frozen = found.get_frozen_credentials()
        source = f"AWS profile {profile or 'default'}"
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token, source)


def _checked(url: str, name: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
        fits = fits and parts.path in ("", "/") and parts.username is None and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits:
        raise ConfigurationError(f"{name} {url}: must be a URL such as http://127.0.0.1:8080, without a path")
    return url.rstrip("/")
