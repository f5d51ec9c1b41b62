"""What every test server shares: a process, a private folder, and a reliable end."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from servers.system import (
    HeldPort,
    ServerError,
    account_options,
    alive,
    descendants,
    temporary_folder,
    wait_until,
)

START_SECONDS = 240.0
STOP_SECONDS = 60.0

# Outlives a test run that was itself killed: the pipe on its standard input closes when the run is gone.
_REAPER = 'cat >/dev/null; [ -s "$1/server.pid" ] && kill -9 "$(cat "$1/server.pid")" && sleep 0.2; rm -rf "$1"'


class Server(ABC):
    """A server for tests, used as a context manager: started on entry, gone on exit."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL under which the server answers; the same after a restart."""

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it answers; does nothing when it is running already."""

    @abstractmethod
    def stop(self) -> None:
        """Shut the server down in order, keeping its port and its data for the next `start`."""

    @abstractmethod
    def kill(self) -> None:
        """End every process of the server with SIGKILL, keeping its port and what had reached its files."""

    @abstractmethod
    def pause(self) -> None:
        """Freeze the server: connections are still accepted by the kernel, and nothing is answered."""

    @abstractmethod
    def resume(self) -> None:
        """Resume a paused server."""

    @abstractmethod
    def close(self) -> None:
        """End the server and remove its folder; it cannot be started again."""

    def restart(self) -> None:
        """Stop the server and start it on the same port and data."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ExternalServer(Server):
    """A server that was running before; it can be used, but not stopped, killed or paused."""

    def __init__(self, url: str, variable: str) -> None:
        self._url = url
        self._variable = variable

    @property
    def url(self) -> str:
        """The URL that the environment variable holds."""
        return self._url

    def start(self) -> None:
        """Do nothing: the server is expected to be running."""

    def close(self) -> None:
        """Do nothing: the server is not ours."""

    def _refuse(self) -> None:
        """Raise a `ServerError`."""
        raise ServerError(
            f"A test cannot stop, kill or pause the server that {self._variable} names. "
            "Ask for a server of your own with private=True."
        )

    stop = kill = pause = resume = _refuse


class LocalServer(Server):
    """A server process on a free loopback port with a folder of its own under the temporary folder.

    If it does not start within four minutes, a `ServerError` shows the end of its log. The process and the folder are
    gone after `close`, or when Python exits, even if Python is killed.
    """

    name: str = "server"
    stop_signal: signal.Signals = signal.SIGTERM

    def __init__(self, *, account: str | None = None) -> None:
        self._account = account
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._reaper: subprocess.Popen[bytes] | None = None
        self._held: HeldPort | None = None
        self.port = 0

    @abstractmethod
    def _prepare(self) -> None:
        """Fill the new folder, once, before the first start."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command line that runs the server in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Return True if the server is ready for clients."""

    @property
    def folder(self) -> Path:
        """The server's own folder; there is none before the first start."""
        if self._folder is None:
            raise ServerError(f"This {self.name} has not been started yet, or it was closed.")
        return self._folder

    @property
    def running(self) -> bool:
        """True if the server's process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def log_tail(self) -> str:
        """The last thirty lines that the server has written."""
        log = self.folder / "server.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-30:]) if log.exists() else ""

    def start(self) -> None:
        """Start the server and wait until it answers; does nothing when it is running already."""
        if self.running:
            return
        if self._folder is None:
            self._make_folder()
        if self.port:
            self._launch()
            return
        for attempt in range(3):
            self._held = self._hold_port()
            self.port = self._held.number
            try:
                self._launch()
            except ServerError as error:
                self._held.close()
                # Where a port cannot be held, another process may have taken it before the start.
                if attempt == 2 or "in use" not in str(error):
                    self.close()
                    raise
            else:
                return

    def _hold_port(self) -> HeldPort:
        return HeldPort()

    def _launch(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
                **account_options(self._account),
            )
        (self.folder / "server.pid").write_text(str(self._process.pid))
        self._wait_until_ready()

    def stop(self) -> None:
        """Shut the server down in order; kill it when that takes more than a minute."""
        if self._process is None or not self.running:
            return
        self.resume()
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._forget_process()

    def kill(self) -> None:
        """End every process of the server with SIGKILL and wait until all of them are gone."""
        if self._process is None or not self.running:
            return
        # A stopped parent can neither fork nor shut its children down in order.
        self._signal(signal.SIGSTOP, self._process.pid)
        family = [*descendants(self._process.pid), self._process.pid]
        self._signal(signal.SIGKILL, *family)
        self._process.wait()
        wait_until(lambda: not any(alive(pid) for pid in family), STOP_SECONDS)
        self._forget_process()

    def pause(self) -> None:
        """Freeze the server with SIGSTOP, children included."""
        if self._process is not None and self.running:
            self._signal(signal.SIGSTOP, self._process.pid)
            self._signal(signal.SIGSTOP, *descendants(self._process.pid))

    def resume(self) -> None:
        """Resume a paused server with SIGCONT, children included."""
        if self._process is not None and self.running:
            self._signal(signal.SIGCONT, *descendants(self._process.pid), self._process.pid)

    def close(self) -> None:
        """End the server and remove its folder; a fork of the process that started it leaves both alone."""
        if self._folder is None or os.getpid() != self._owner:
            return
        atexit.unregister(self.close)
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None
        if self._held is not None:
            self._held.close()
        if self._reaper is not None and self._reaper.stdin is not None:
            self._reaper.stdin.close()
            self._reaper.wait()
            self._reaper = None

    def _make_folder(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="memoranda-", dir=temporary_folder(self._account)))
        # The server's own account must pass through; everything private lies deeper.
        self._folder.chmod(0o711)
        self._owner = os.getpid()
        self._reaper = subprocess.Popen(
            ["/bin/sh", "-c", _REAPER, "sh", str(self._folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.close)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        ready = wait_until(lambda: not self.running or self._answers(), START_SECONDS)
        if ready and self.running:
            return
        reason = f"was not ready after {START_SECONDS:.0f} seconds" if self.running else "ended while starting"
        message = f"The {self.name} on port {self.port} {reason}. The end of its log:\n{self.log_tail}"
        self.kill()
        raise ServerError(message)

    def _forget_process(self) -> None:
        self._process = None
        (self.folder / "server.pid").unlink(missing_ok=True)

    @staticmethod
    def _signal(number: signal.Signals, *pids: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
