"""Images that come with warmroute: launch templates for model servers it can start by itself."""

from warmroute.core.fleet import NativeMapping
from warmroute.core.machines import AdapterRoutes, Image

LLAMA_CPP = "warmroute/llama.cpp"


def built_in_images() -> dict[str, Image]:
    """Return the images that need no declaration, by name.

    ``warmroute/llama.cpp`` is a llama.cpp server (extra ``llama-cpp``). The model's Environment
    sets it up: see ``python -m warmroute.adapters.images.llama_cpp --help``.
    """
    llama_cpp = Image(
        name=LLAMA_CPP,
        command=(
            "{python}",
            "-m",
            "warmroute.adapters.images.llama_cpp",
            "--host",
            "{host}",
            "--port",
            "{port}",
        ),
        health_path="/health",
        native=NativeMapping.OPENAI,
        startup_s_max=120.0,
        adapters=AdapterRoutes.LLAMA_CPP,
    )
    return {llama_cpp.name: llama_cpp}
