"""Running the server: bind, load, answer, drain, end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import signal
import socket
from collections.abc import Iterator

import uvicorn

from foretoken.config import EngineConfig
from foretoken.errors import ConfigError, EngineStopped
from foretoken.server.app import create_app
from foretoken.server.gathering import GatheringProtocol
from foretoken.server.service import Service
from foretoken.server.settings import ServerSettings
from foretoken.worker.supervisor import Supervisor

log = logging.getLogger("foretoken.server")

_BACKLOG = 2048
_KEEP_ALIVE = 30


class _Http(uvicorn.Server):
    """uvicorn, with the signals left to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(engine: EngineConfig, settings: ServerSettings) -> None:
    """Serve until told to stop; raises what a person should know when that does not work."""
    listener = listen(settings)
    with contextlib.closing(listener):
        # uvicorn knows the fastest event loop that is installed.
        factory = uvicorn.Config("", log_config=None).get_loop_factory()
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_serve(engine, settings, listener))


async def _serve(engine: EngineConfig, settings: ServerSettings, listener: socket.socket) -> None:
    await Server(engine, settings).run(listener)


class Server:
    """A worker, an app and a listener, from start to end."""

    def __init__(self, engine: EngineConfig, settings: ServerSettings) -> None:
        self.service = Service(Supervisor(engine, settings.patience), settings)
        self._settings = settings
        self._stopping = False
        self._http = _Http(
            uvicorn.Config(
                create_app(self.service),
                http=GatheringProtocol,
                log_config=None,
                access_log=False,
                proxy_headers=False,
                lifespan="off",
                backlog=_BACKLOG,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                # Answers that run out of grace still have to say so.
                timeout_graceful_shutdown=math.ceil(settings.grace) + 2,
            )
        )

    async def run(self, listener: socket.socket) -> None:
        """Answer on the listener; it is bound before the model is loaded, so that /health can say so."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, self.stop)
        http = asyncio.create_task(self._http.serve([listener]))
        work = asyncio.create_task(self._work(listener))
        await asyncio.wait({http, work}, return_when=asyncio.FIRST_COMPLETED)
        self._http.should_exit = True
        await asyncio.wait({http})
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await self.service.close()
        if not self._stopping and not work.cancelled() and (error := work.exception()):
            raise error
        log.info("stopped")

    def stop(self) -> None:
        """Drain: no new requests, the running ones finish; a second call ends them too."""
        if self._stopping:
            self._http.force_exit = True
            return
        self._stopping = True
        n = self.service.worker.n_running
        log.info("stopping: %d running requests have %g s to finish", n, self._settings.grace)
        self.service.worker.drain()
        asyncio.get_running_loop().call_later(self._settings.grace, self.service.worker.abandon)
        self._http.should_exit = True

    async def _work(self, listener: socket.socket) -> None:
        """Load the model, then wait for the worker to be given up."""
        await self.service.start()
        # What was loaded stays, and need not be looked through for garbage while answers stream.
        gc.freeze()
        host, port = listener.getsockname()[:2]
        log.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)
        raise EngineStopped(f"the engine could not be kept alive: {await self.service.worker.failed()}")


def listen(settings: ServerSettings) -> socket.socket:
    """A socket that accepts connections where the settings say."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named because asyncio sends small pieces at once only on what it knows to be TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; choose another --port"
        ) from None
    listener.setblocking(False)
    return listener
