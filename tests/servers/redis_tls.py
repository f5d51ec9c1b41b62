"""Redis with TLS: an entrance that decrypts for a plain server, since the servers in wheels have no TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from servers.local_redis import RedisServer, redis_program
from servers.programs import Command
from servers.system import HeldPort, ServerError


def redis_tls_server(*, password: str | None = None, client_certificates: bool = False) -> TLSRedisServer:
    """Return a Redis server to use as a context manager, which clients reach with its `certificates`.

    With `client_certificates` a client needs a certificate of its own as well.
    """
    entrance = TLSEntrance(client_certificates=client_certificates)
    return TLSRedisServer(redis_program(), settings={}, password=password, entrance=entrance)


@dataclass(frozen=True)
class Certificates:
    """The files that a client needs: the authority to trust, and its own certificate and key."""

    authority: Path
    client_certificate: Path
    client_key: Path


class TLSEntrance:
    """A loopback port that speaks TLS as `localhost` and hands what it decrypts to a plain port.

    The certificates come from an authority of its own, made with the package trustme; they and the port
    stay the same when the entrance is closed and opened again.
    """

    def __init__(self, *, client_certificates: bool = False) -> None:
        self._require_client = client_certificates
        self._certificates: Certificates | None = None
        self._context: ssl.SSLContext | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._like: TLSEntrance | None = None
        self._held: HeldPort | None = None
        self.port = 0

    @property
    def certificates(self) -> Certificates:
        """The client's files; there are none before the first opening."""
        if self._certificates is None:
            raise ServerError("The TLS entrance has no certificates before its server is started.")
        return self._certificates

    def reserve(self) -> int:
        """Return the port, chosen before there is anything to listen for."""
        if self._held is None:
            self._held = HeldPort()
            self.port = self._held.number
        return self.port

    def release(self) -> None:
        """Leave the port to others; the entrance is not opened again."""
        if self._held is not None:
            self._held.close()

    def share(self, other: TLSEntrance) -> None:
        """Use the certificates of another entrance, which is opened first."""
        self._like = other

    def open(self, target: int, folder: Path) -> None:
        """Listen, and pass connections on to the loopback port `target`; certificates go into `folder`."""
        if self._thread is not None:
            return
        context = self._server_context(folder)
        self.reserve()
        listening = threading.Event()
        failures: list[OSError] = []

        def run() -> None:
            try:
                asyncio.run(self._serve(target, context, listening))
            except OSError as error:
                failures.append(error)
                listening.set()

        self._thread = threading.Thread(target=run, name="memoranda-tls-entrance", daemon=True)
        self._thread.start()
        listening.wait()
        if failures:
            self._thread = None
            raise ServerError(f"The TLS entrance could not listen on port {self.port}: {failures[0]}")

    def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._thread is None or self._loop is None:
            return
        loop, self._loop = self._loop, None
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        self._thread.join()
        self._thread = None

    async def _serve(self, target: int, context: ssl.SSLContext, listening: threading.Event) -> None:
        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", target)
                await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

        self._loop = asyncio.get_running_loop()
        # A client that refuses the certificate is a test of the client, not an event for this log.
        self._loop.set_exception_handler(lambda loop, details: None)
        server = await asyncio.start_server(pass_on, "127.0.0.1", self.port, ssl=context)
        listening.set()
        with contextlib.suppress(asyncio.CancelledError):
            await server.serve_forever()

    def _server_context(self, folder: Path) -> ssl.SSLContext:
        if self._like is not None:
            self._certificates, self._context = self._like._certificates, self._like._context
        if self._context is not None:
            return self._context
        try:
            import trustme
        except ImportError as error:
            raise ServerError("A Redis with TLS needs test certificates: install the package trustme.") from error
        authority = trustme.CA()
        client = authority.issue_cert("client@memoranda.invalid")
        files = Certificates(folder / "ca.pem", folder / "client.pem", folder / "client.key")
        authority.cert_pem.write_to_path(files.authority)
        client.cert_chain_pems[0].write_to_path(files.client_certificate)
        client.private_key_pem.write_to_path(files.client_key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
        if self._require_client:
            authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        self._certificates, self._context = files, context
        return context


class TLSRedisServer(RedisServer):
    """A Redis behind a TLS entrance; without one it is a plain Redis."""

    def __init__(
        self,
        program: Command,
        *,
        settings: Mapping[str, str],
        password: str | None = None,
        entrance: TLSEntrance | None,
    ) -> None:
        super().__init__(program, settings=settings, password=password)
        self._entrance = entrance

    @property
    def certificates(self) -> Certificates:
        """The files that a client needs."""
        if self._entrance is None:
            raise ServerError("This Redis server has no TLS entrance and no certificates.")
        return self._entrance.certificates

    def start(self) -> None:
        """Start the server and its entrance, and wait until it answers."""
        super().start()
        if self._entrance is not None:
            self._entrance.open(self.port, self.folder)

    def stop(self) -> None:
        """Close the entrance and shut the server down."""
        if self._entrance is not None:
            self._entrance.close()
        super().stop()

    def kill(self) -> None:
        """Close the entrance and end the server with SIGKILL."""
        if self._entrance is not None:
            self._entrance.close()
        super().kill()

    def close(self) -> None:
        """End the server, remove its folder and release its ports."""
        super().close()
        if self._entrance is not None:
            self._entrance.release()

    def _url(self, credentials: str) -> str:
        if self._entrance is not None:
            return f"rediss://{credentials}localhost:{self._entrance.port}/0"
        return super()._url(credentials)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while chunk := await source.read(65536):
            target.write(chunk)
            await target.drain()
    finally:
        target.close()
