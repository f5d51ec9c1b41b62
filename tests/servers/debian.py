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

from servers.programs import Command, why_not
from servers.system import MissingServerError, ServerError, reachable

_DOWNLOAD_SECONDS = 240.0


class DebianPackage(NamedTuple):
    """A package of Debian that is unpacked with the libraries that this system lacks, and not installed."""

    title: str
    """As people call the program."""
    package: str
    also: Sequence[str] = ()
    """How the names of further packages begin that it needs; libraries are found by themselves."""
    left_out: Sequence[str] = ()
    """How the names of libraries begin that it can do without."""

    def unpacked(self, folder: Path) -> Path:
        """Unpack everything into a new folder within `folder`, and return that.

        Raises MissingServerError where this system has no such packages or no way to them, ServerError where it has.
        """
        if not shutil.which("apt-get") or not shutil.which("dpkg"):
            raise MissingServerError(f"without apt-get and dpkg no {self.title} can be fetched.")
        unpacked = folder / self.package
        for package in self._packages(folder):
            subprocess.run(["dpkg", "-x", str(package), str(unpacked)], check=True, capture_output=True)
        return unpacked

    def _packages(self, folder: Path) -> list[Path]:
        """Return the packages, fetched once and kept in the user's cache; in `folder` for who has none."""
        cache = _user_cache() or folder
        kept = cache / "-".join((self.package, _release(), platform.machine()))
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
        if not self._download(folder, []):
            return
        # A system that was never updated has no lists of packages, or old ones with packages that are gone.
        lists = folder.parent / "lists"
        (lists / "partial").mkdir(parents=True)
        own_lists = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={lists}"]
        complaint = _apt_get(folder, [*own_lists, "-o", "APT::Update::Error-Mode=any"], "update")
        if complaint:
            raise MissingServerError(f"apt-get could not fetch the lists of packages: {complaint}")
        complaint = self._download(folder, own_lists)
        if complaint:
            raise ServerError(f"apt-get could not fetch {self.title}: {complaint}")

    def _download(self, folder: Path, options: Sequence[str]) -> str:
        """Download the package and what it needs, and return what apt-get complains of."""
        wanted, seen = [self.package], {self.package}
        while wanted:
            complaint = _apt_get(folder, options, "download", *wanted)
            if complaint:
                return complaint
            needed = {name for package in folder.glob("*.deb") for name in self._needed(package)}
            wanted = sorted(needed - seen)
            seen.update(wanted)
        return ""

    def _needed(self, package: Path) -> list[str]:
        shown = subprocess.run(["dpkg-deb", "-f", str(package), "Depends"], capture_output=True, text=True, check=True)
        first_choices = (choices.split("|")[0].split() for choices in shown.stdout.split(","))
        names = [words[0].partition(":")[0] for words in first_choices if words]
        left_out = tuple(self.left_out)
        libraries = [name for name in names if name.startswith("lib") and not name.startswith(left_out)]
        lacking = [name for name in libraries if not _is_installed(name)]
        return [*lacking, *(name for name in names if name.startswith(tuple(self.also)))]


class DebianProgram(NamedTuple):
    """A program of a package, and how it is called."""

    package: DebianPackage
    name: str
    variable: str
    """What names another program to use instead."""

    def command(self, folder: Path, account: str | None) -> Command:
        """Return how `account` runs the program: what the variable names, or one that is installed, or one in `folder`.

        Raises MissingServerError where there is none of these and no way to one, ServerError where it does not run.
        """
        found = self._present()
        if found is not None and reachable(found, account):
            return (str(found),)
        remedy = f"Install it, or set {self.variable} to the path of the program."
        try:
            unpacked = self.package.unpacked(folder)
        except ServerError as error:
            raise type(error)(f"No {self.package.title} was found for the tests: {error} {remedy}") from error
        program = next(path for path in unpacked.glob(f"usr/*/{self.name}") if path.parent.name in ("bin", "sbin"))
        command = with_libraries(unpacked, program)
        complaint = why_not(command)
        if complaint:
            raise ServerError(
                f"The {self.package.title} of this system's packages does not run without being installed: {complaint} "
                f"{remedy}"
            )
        return command

    def _present(self) -> Path | None:
        named = os.environ.get(self.variable)
        if named:
            if not os.access(named, os.X_OK):
                raise ServerError(f"{self.variable} names {named!r}, which is no program.")
            return Path(named)
        found = shutil.which(self.name, path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
        return Path(found) if found and not why_not((found,)) else None


def with_libraries(unpacked: Path, program: Path) -> Command:
    """Return how a program is called that finds its libraries among what was unpacked."""
    libraries = ":".join(sorted({str(path.parent) for path in unpacked.rglob("*.so*")}))
    return ("env", f"LD_LIBRARY_PATH={libraries}", str(program))


def _release() -> str:
    with contextlib.suppress(OSError):
        system = platform.freedesktop_os_release()
        return f"{system.get('ID', 'linux')}{system.get('VERSION_ID', '')}"
    return "unknown"


def _is_installed(package: str) -> bool:
    asked = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == "installed"


def _user_cache() -> Path | None:
    # There may be no home, or one that can only be read.
    with contextlib.suppress(OSError, RuntimeError):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memoranda-testing"
        cache.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache).close()
        return cache
    return None


def _apt_get(folder: Path, options: Sequence[str], *arguments: str) -> str:
    """Run apt-get in a folder, and return what it complains of when it fails."""
    # The account that it would fetch with instead of root may not enter the folder.
    as_root = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    try:
        done = subprocess.run(
            ["apt-get", "-qq", *as_root, *options, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_DOWNLOAD_SECONDS:.0f} seconds."
    return (done.stderr.strip() or f"it ended with {done.returncode}.") if done.returncode else ""
