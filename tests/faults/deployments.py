"""What tests of deployments share: servers that say their name, and an even load that notes who answered."""

import asyncio
import contextlib
import json
import os
import re
import signal
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from tests.clients import ONCE, boto3_client
from tests.running import command_line, get

STUB = Path(__file__).parents[1] / "stub_server.py"
SETTINGS = (
    "\n".join(
        f"""
[images."{name}"]
command = ["{{python}}", "{STUB}", "--name", "{name}", "--port", "{{port}}"]
"""
        for name in ("blue", "green")
    )
    + """
[images."broken"]
command = ["{python}", "-c", "raise SystemExit('no such weights')"]

[server]
describe_hold_s = 0
"""
)
RATE, CONNECTIONS = 200, 16
BODY = json.dumps({"messages": [{"role": "user", "content": "Hello"}]}).encode()


class Endpoint:
    """The endpoint ``llm`` of a running warmroute, with blue instances at first."""

    def __init__(self, server, *, count=2, shadow=None):
        self.server = server
        self.sagemaker = boto3_client("sagemaker", server.url, retries=ONCE)
        server.wait_for_control()
        for name in ("blue", "green", "broken"):
            self.sagemaker.create_model(ModelName=name, PrimaryContainer={"Image": name})
            self.sagemaker.create_endpoint_config(
                EndpointConfigName=name, ProductionVariants=[variant(name, count)]
            )
        if shadow is not None:
            self.sagemaker.create_endpoint_config(
                EndpointConfigName="shadowed", ProductionVariants=[variant("blue", count)],
                ShadowProductionVariants=[shadow],
            )  # fmt: skip
        config = "blue" if shadow is None else "shadowed"
        self.sagemaker.create_endpoint(EndpointName="llm", EndpointConfigName=config)
        self.wait_for("InService")

    def update(self, config, policy=None):
        more = {} if policy is None else {"DeploymentConfig": policy}
        self.sagemaker.update_endpoint(EndpointName="llm", EndpointConfigName=config, **more)

    def describe(self):
        return self.sagemaker.describe_endpoint(EndpointName="llm")

    def wait_for(self, *statuses, seconds=60.0):
        self.server.wait_until(
            lambda: self.describe()["EndpointStatus"] in statuses, f"never {statuses}", seconds
        )

    def of(self, name):
        """Return (process id, port) of the model servers of a name."""
        marker = str(self.server.data_dir).encode()
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            line = command_line(int(directory.name))
            if f"--name {name} " not in line:
                continue
            with contextlib.suppress(OSError):
                if marker in (directory / "environ").read_bytes():
                    found.append((int(directory.name), int(re.search(r"--port (\d+)", line)[1])))
        return found

    def behave(self, name, **behaviour):
        """Change what the servers of a name do."""
        for _, port in self.of(name):
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/stub", data=json.dumps(behaviour).encode(), timeout=5
            ) as answer:
                answer.read()

    def executions(self, name):
        answers = [get(f"http://127.0.0.1:{port}/stub") for _, port in self.of(name)]
        return sum(json.loads(body)["executions"] for status, body in answers if status == 200)

    def kill(self):
        for name in ("blue", "green"):
            for pid, _ in self.of(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.sagemaker.close()


def variant(model, count, **more):
    return {
        "VariantName": "AllTraffic", "ModelName": model, "InstanceType": "ml.local",
        "InitialInstanceCount": count,
    } | more  # fmt: skip


class Load:
    """Asks ``llm`` at an even rate until the block ends, each request without waiting for the others."""

    def __init__(self, server):
        place = urlsplit(server.url)
        self._host, self._port = place.hostname, place.port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.answers = []
        """(wall time, status, name of the server or the error's text)"""

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    @property
    def failures(self):
        return [answer for answer in self.answers if answer[1] != 200]

    def between(self, begin_s, end_s):
        """Return how many answers each server gave to requests that were sent then."""
        return Counter(who for at, status, who in self.answers if status == 200 and begin_s <= at < end_s)

    async def _run(self):
        begin_s = asyncio.get_running_loop().time()
        await asyncio.gather(*(self._client(number, begin_s) for number in range(CONNECTIONS)))

    async def _client(self, number, begin_s):
        loop = asyncio.get_running_loop()
        turn = number
        reader = writer = None
        while not self._stop.is_set():
            await asyncio.sleep(max(begin_s + turn / RATE - loop.time(), 0))
            turn += CONNECTIONS
            at = time.time()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(self._host, self._port)
                self.answers.append((at, *await self._ask(reader, writer)))
            except (OSError, asyncio.IncompleteReadError) as error:
                self.answers.append((at, 0, repr(error)))
                writer = None
        if writer is not None:
            writer.close()
            await writer.wait_closed()

    async def _ask(self, reader, writer):
        writer.write(
            b"POST /endpoints/llm/invocations HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n" % len(BODY) + BODY
        )
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        body = await reader.readexactly(length)
        status = int(head.split(None, 2)[1])
        if status != 200:
            return status, body.decode(errors="replace")
        return status, re.search(rb"Hello from (\w+)\.", body)[1].decode()


class Phases:
    """Looks at the endpoint all the time and notes when which status of the variant was first seen."""

    def __init__(self, endpoint):
        self._endpoint = endpoint
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seen = []
        """(wall time, EndpointStatus, VariantStatus, its message)"""

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _look(self):
        while not self._stop.wait(0.1):
            with contextlib.suppress(Exception):
                shown = self._endpoint.describe()
                status = shown["ProductionVariants"][0].get("VariantStatus", [{}])[0]
                self.seen.append(
                    (
                        time.time(),
                        shown["EndpointStatus"],
                        status.get("Status"),
                        status.get("StatusMessage", ""),
                    )
                )

    def bakes(self):
        """Return the (begin, end) of each time that it was baking, as seen."""
        found = {}
        for at, _, status, message in self.seen:
            if status == "Baking":
                found.setdefault(message, []).append(at)
        return [(times[0], times[-1]) for times in found.values()]
