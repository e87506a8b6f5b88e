"""Where the demo's numbers come from: the machine and the versions."""

import contextlib
import importlib.metadata
import os
import platform
from pathlib import Path

DISTRIBUTIONS = ("warmroute", "xllamacpp", "boto3", "botocore", "uvloop", "httptools", "matplotlib", "rich")


def machine_facts() -> dict[str, object]:
    """Return what a reader needs to judge a measurement; unknown things are left out."""
    facts: dict[str, object] = {
        "system": platform.platform(),
        "processors": len(os.sched_getaffinity(0)),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                facts["processor"] = line.partition(":")[2].strip()
                break
    return facts


def versions() -> dict[str, str]:
    """Return the versions of Python and of what took part."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
