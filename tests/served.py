"""The control plane's HTTP application on a TCP port, in this process."""

import asyncio
import socket
import threading

import uvicorn

from tests.clients import ONCE, boto3_client
from warmroute.app.control_process import _Server


class Served:
    """Serves an application on a thread of its own while the block lasts."""

    port = 0

    def make_app(self):
        """Return the application; called on the thread's loop."""
        raise NotImplementedError

    async def close(self):
        """End what the application started; called when it serves no more."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def client(self, service, region):
        return boto3_client(service, self.url, region=region, retries=ONCE)

    def __enter__(self):
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    async def _run(self, ready):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = self.make_app()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        self.port = listener.getsockname()[1]
        server = _Server(uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1))
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110  (uvicorn tells nobody)
            await asyncio.sleep(0.005)
        ready.set()
        await self._stop.wait()
        server.should_exit = True
        await serving
        await self.close()
