"""From an image and a model to a command line and an environment. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from warmroute.controlplane.ports import InstanceOrder, ProviderRefused
from warmroute.core.machines import Image

INSTANCE_ID_VARIABLE = "WARMROUTE_INSTANCE_ID"
"""Set for every model server: by it a process is found whose id was never written down."""
INSTANCE_DIRECTORY_VARIABLE = "WARMROUTE_INSTANCE_DIRECTORY"
"""Set likewise; tells the servers of one data directory from those of another."""
MODEL_PATH_VARIABLE = "WARMROUTE_MODEL_PATH"
"""The path in the model's ModelDataUrl, where it has one."""

DEVICE_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "ASCEND_RT_VISIBLE_DEVICES",
)
"""Hold the numbers of the accelerators that a server may use, where it was given some."""

_OURS = ("WARMROUTE_", "AWS_", "AZURE_")
_CREDENTIALS = (
    "_API_KEY", "_ACCESS_KEY", "_SECRET_KEY", "_SECRET", "_PASSWORD", "GOOGLE_APPLICATION_CREDENTIALS",
    "PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE",
)  # fmt: skip
_UNTOUCHED = {"SPT_NOENV": "1"}
"""Engines that name their processes by setproctitle, as vLLM does, would write over the environment by which
we know them. Source: setproctitle's README."""

_PLACEHOLDER = re.compile(r"\{(host|port|model|data_dir|python)\}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is to run.

    Attributes:
        host: Address to listen on.
        port: TCP port to listen on.
        data_dir: warmroute's own directory.
        directory: The instance's own directory, its working directory.
        python: The interpreter that runs warmroute.
    """

    host: str
    port: int
    data_dir: Path
    directory: Path
    python: str


def model_path(model_data_url: str | None) -> str | None:
    """Return the path that a ModelDataUrl names; None when there is no such URL.

    Raises:
        ProviderRefused: It is not a ``file://`` URL of this machine.
    """
    if model_data_url is None:
        return None
    parts = urlsplit(model_data_url)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or not parts.path:
        raise ProviderRefused(
            f"The local provider reads models from this machine only: ModelDataUrl must be file:///PATH, "
            f"not {model_data_url!r}."
        )
    return unquote(parts.path)


def command_line(image: Image, order: InstanceOrder, place: Place) -> tuple[str, ...]:
    """Fill in an image's command.

    Args:
        image: The launch template.
        order: Whose ModelDataUrl fills ``{model}``.
        place: Fills the rest. Other braces stay as they are.

    Raises:
        ProviderRefused: The image has no command, or needs a model that the order does not name.
    """
    if not image.command:
        raise ProviderRefused(
            f'Image "{image.name}" has no command, so no server can be started from it here.'
        )
    path = model_path(order.model_data_url)
    if path is None and any("{model}" in argument for argument in image.command):
        raise ProviderRefused(
            f'Image "{image.name}" needs a model: give PrimaryContainer.ModelDataUrl as file:///PATH.'
        )
    values = {
        "host": place.host,
        "port": str(place.port),
        "model": path or "",
        "data_dir": str(place.data_dir),
        "python": place.python,
    }
    return tuple(_PLACEHOLDER.sub(lambda match: values[match[1]], argument) for argument in image.command)


def server_environment(
    inherited: Mapping[str, str], image: Image, order: InstanceOrder, place: Place
) -> dict[str, str]:
    """Return the environment of a model server.

    Args:
        inherited: warmroute's own. What may hold a key of warmroute or of its account stays behind:
            names that begin with ``WARMROUTE_``, ``AWS_`` or ``AZURE_``, that end in ``_API_KEY``,
            ``_ACCESS_KEY``, ``_SECRET_KEY``, ``_SECRET`` or ``_PASSWORD``,
            ``GOOGLE_APPLICATION_CREDENTIALS``, and what libpq reads passwords from. ``HF_TOKEN`` goes
            along: engines fetch models with it.
        image: Its environment goes on top.
        order: The model's Environment goes on top of that, and above all the devices it was given.
        place: Names the instance's directory.
    """
    own = {
        INSTANCE_ID_VARIABLE: order.instance_id,
        INSTANCE_DIRECTORY_VARIABLE: str(place.directory),
    }
    path = model_path(order.model_data_url)
    if path is not None:
        own[MODEL_PATH_VARIABLE] = path
    if order.devices:
        own |= dict.fromkeys(DEVICE_VARIABLES, ",".join(str(device) for device in order.devices))
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(_OURS) and not name.endswith(_CREDENTIALS)
    }
    return {**_UNTOUCHED, **kept, **image.environment, **order.environment, **own}
