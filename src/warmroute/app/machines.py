"""Turn declared instance types and images into those the control process uses, built-in ones included."""

import re
from collections.abc import Mapping

from warmroute.adapters.providers.static import parse_base_url
from warmroute.app.credentials import read_optional_secret
from warmroute.app.settings import ImageSettings, InstanceTypeSettings, Settings
from warmroute.core.errors import ConfigurationError
from warmroute.core.machines import Image, InstanceType, ProviderKind

LOCAL = InstanceType(name="ml.local", provider=ProviderKind.LOCAL)
"""There without being declared."""
PLACEHOLDERS = ("host", "port", "model", "data_dir", "python")
"""Of a launch template's command."""
_NAME = re.compile(r"[a-zA-Z0-9][\w.-]{0,62}")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def images_of(settings: Settings, built_in: Mapping[str, Image]) -> dict[str, Image]:
    """Return every image by name; a declared one replaces the built-in one of its name.

    Raises:
        ConfigurationError: A command has a placeholder that does not exist.
    """
    declared = {name: _image(name, declaration) for name, declaration in settings.images.items()}
    return {**built_in, **declared}


def instance_types_of(settings: Settings, images: Mapping[str, Image]) -> dict[str, InstanceType]:
    """Return every instance type by name, ``ml.local`` included.

    Raises:
        ConfigurationError: A declaration does not fit its provider, or names an unknown image.
    """
    declared = {}
    for name, declaration in settings.instance_types.items():
        where = f'instance_types."{name}"'
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{where}: the name must be 1 to 63 letters, digits, '.', '_' or '-', and begin with a "
                "letter or digit"
            )
        _check_provider(where, declaration)
        if declaration.image is not None and declaration.image not in images:
            raise ConfigurationError(
                f"{where}.image = {declaration.image}: no such image; "
                f"there are {', '.join(images)}, and images declares others"
            )
        declared[name] = InstanceType(
            name=name,
            provider=declaration.provider,
            urls=tuple(checked_url(url, where=f"{where}.urls") for url in declaration.urls),
            image=declaration.image,
            instances_max=declaration.instances_max,
            api_key=read_optional_secret(
                declaration.api_key, declaration.api_key_file, text_name=f"{where}.api_key"
            ),
            accelerators=declaration.accelerators,
            cpus=declaration.cpus,
            memory_mb=declaration.memory_mb,
        )
    return {LOCAL.name: LOCAL, **declared}


def checked_url(url: str, *, where: str) -> str:
    """Return the base URL of a model server without its last slash.

    Args:
        url: As written.
        where: The key or flag it stands in, the beginning of the message.

    Raises:
        ConfigurationError: It is not ``http://host[:port][/path]``, or it ends in ``/v1``, as base
            URLs for the OpenAI SDK do: every request would go to ``/v1/v1/…``.
    """
    try:
        parsed = parse_base_url(url)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    base = url.strip().rstrip("/")
    if parsed.path_prefix.endswith("/v1"):
        right = base.removesuffix("/v1").rstrip("/")
        raise ConfigurationError(f"{where}: {base} ends in /v1; give the base URL without it: {right}")
    return base


def _check_provider(where: str, declaration: InstanceTypeSettings) -> None:
    match declaration.provider:
        case ProviderKind.STATIC:
            if not declaration.urls:
                raise ConfigurationError(f"{where}.urls is missing; provider static needs the servers' URLs")
            if declaration.instances_max is not None:
                raise ConfigurationError(f"{where}.instances_max: only provider local has it")
            if len(set(declaration.urls)) < len(declaration.urls):
                raise ConfigurationError(f"{where}.urls: the same URL stands there twice")
        case ProviderKind.LOCAL:
            for key in ("urls", "api_key", "api_key_file"):
                if getattr(declaration, key):
                    raise ConfigurationError(f"{where}.{key}: only provider static has it")


def _image(name: str, declaration: ImageSettings) -> Image:
    for argument in declaration.command:
        for word in _PLACEHOLDER.findall(argument):
            if word not in PLACEHOLDERS:
                raise ConfigurationError(
                    f'images."{name}".command: {{{word}}} in {argument!r} is not a placeholder; '
                    f"there are {', '.join(f'{{{placeholder}}}' for placeholder in PLACEHOLDERS)}"
                )
    return Image(
        name=name,
        command=declaration.command,
        environment=declaration.environment,
        health_path=declaration.health_path,
        native=declaration.native,
        hold_first_event=declaration.hold_first_event,
        startup_s_max=declaration.startup_s_max,
        adapters=declaration.adapters,
        adapters_max=declaration.adapters_max,
    )
