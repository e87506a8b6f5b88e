"""LoRA adapters in engines: artifacts, the calls that load and unload, what routers report."""
