"""Programs for tests that no wheel brings: the system's own, or unpacked from Debian's packages, without root."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from memoranda_testing.servers._system import MissingServerError, ServerError, reachable

_DOWNLOAD_SECONDS = 120.0


class DebianProgram(NamedTuple):
    """A program of a package, and how it is called."""

    title: str
    """As people call it."""
    package: str
    name: str
    variable: str
    """What names another program to use instead."""
    libraries: Sequence[str] = ()
    """How the names of packages begin that a small system may lack; they change from release to release."""

    def command(self, folder: Path, account: str | None) -> list[str]:
        """Return how `account` runs the program: what the variable names, or one that is installed, or one in `folder`.

        Raises MissingServerError where there is none of these and none can be fetched.
        """
        found = self._present()
        if found is not None and reachable(found, account):
            return [str(found)]
        unpacked = folder / self.package
        for package in self._packages(folder):
            subprocess.run(["dpkg", "-x", str(package), str(unpacked)], check=True, capture_output=True)
        libraries = ":".join(sorted({str(path.parent) for path in unpacked.rglob("*.so*")}))
        program = next(path for path in unpacked.glob(f"usr/*/{self.name}") if path.parent.name in ("bin", "sbin"))
        command = ["env", f"LD_LIBRARY_PATH={libraries}", str(program)]
        tried = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
        if tried.returncode:
            raise MissingServerError(
                f"The {self.title} of this system's packages does not run without being installed: "
                f"{tried.stderr.strip()} Install it, or set {self.variable} to the path of the program."
            )
        return command

    def _present(self) -> Path | None:
        named = os.environ.get(self.variable)
        if named:
            if not os.access(named, os.X_OK):
                raise ServerError(f"{self.variable} names {named!r}, which is no program.")
            return Path(named)
        found = shutil.which(self.name, path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
        return Path(found) if found else None

    def _packages(self, folder: Path) -> list[Path]:
        """Return Debian's packages, fetched once and kept in the user's cache; in `folder` for who has none."""
        cache = _user_cache() or folder
        kept = cache / f"{self.package}-{platform.machine()}"
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=cache) as temporary:
                fetched = Path(temporary) / "packages"
                fetched.mkdir()
                self._fetch(fetched)
                # Another test run may have been quicker; then there is something in the place already.
                with contextlib.suppress(OSError):
                    fetched.rename(kept)
        return sorted(kept.glob("*.deb"))

    def _fetch(self, folder: Path) -> None:
        if not shutil.which("apt-get") or not shutil.which("dpkg"):
            raise MissingServerError(
                f"No {self.title} was found for the tests, and without apt-get none can be fetched: install it, or set "
                f"{self.variable} to the path of the program."
            )
        lists = folder.parent / "lists"
        (lists / "partial").mkdir(parents=True)
        # A system that was never updated has no lists of packages; then they are fetched into a folder of our own.
        own_lists = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={lists}"]
        complaint = _apt_get(folder, "download", self.package)
        options: list[str] = []
        if complaint:
            options = own_lists
            complaint = _apt_get(folder, *options, "update") or _apt_get(folder, *options, "download", self.package)
        if not complaint and self.libraries:
            complaint = _apt_get(folder, *options, "download", *self._needed(next(folder.glob("*.deb"))))
        if complaint:
            raise MissingServerError(
                f"No {self.title} was found for the tests, and apt-get could not fetch it: {complaint} Install "
                f"{self.title}, or set {self.variable} to the path of the program."
            )

    def _needed(self, package: Path) -> list[str]:
        shown = subprocess.run(["dpkg-deb", "-f", str(package), "Depends"], capture_output=True, text=True, check=True)
        names = [word.split()[0] for word in shown.stdout.replace("|", ",").split(",") if word.strip()]
        return [name for name in names if name.startswith(tuple(self.libraries))]


def _user_cache() -> Path | None:
    # There may be no home, or one that can only be read.
    with contextlib.suppress(OSError, RuntimeError):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memoranda-testing"
        cache.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache).close()
        return cache
    return None


def _apt_get(folder: Path, *arguments: str) -> str:
    """Run apt-get in a folder, and return what it complains of when it fails."""
    command = ["apt-get", "-qq", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_DOWNLOAD_SECONDS:.0f} seconds."
    return (done.stderr.strip() or f"it ended with {done.returncode}.") if done.returncode else ""
