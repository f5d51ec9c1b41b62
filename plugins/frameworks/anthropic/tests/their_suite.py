"""Run the tests that Anthropic's SDK has of its own memory tool against ours: ``python their_suite.py SDIST``.

The argument is the source distribution, or its version, which is then fetched. The SDK's tests write to and look into a
folder on the disk. So our tools are mounted there: before each command what the test has put into the folder goes into
the store, and after it the folder is made to hold what the store holds. Left out, by rule, is every test whose source
speaks of what no store has: symbolic links, permissions of files (umask), and the private methods of the SDK's own
classes. What is left out is printed and counted, and so is what runs.
"""

from __future__ import annotations

import asyncio
import inspect
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import _beta_builtin_memory_tool as sdk
from anyio import Path as AsyncPath

import memoranda.sync
from memoranda.store import InMemoryStore
from memoranda_anthropic import AsyncMemoryTool, MemoryTool

SUITE = "tests/lib/tools/memory_tools/test_filesystem.py"
LEFT_OUT = ("symlink", "umask", "._validate_path", "._ensure_memory_root")
COMMANDS = ("view", "create", "str_replace", "insert", "delete", "rename")


def unread(root: Path, known: dict[str, bytes]) -> dict[str, str]:
    """Return the files that a test has put into the folder itself."""
    there = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {name: data.decode() for name, data in there.items() if known.get(name) != data}


def put_out(root: Path, files: dict[str, str]) -> dict[str, bytes]:
    """Make the folder hold these files."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return {name: text.encode() for name, text in files.items()}


def creation(name: str, text: str) -> Any:
    return sdk.BetaMemoryTool20250818CreateCommand(command="create", path=f"/memories/{name}", file_text=text)


class Mounted(MemoryTool):
    """Our tool, with its files in a folder on the disk as well."""

    def __init__(self, base_path: str) -> None:
        self.base_path = Path(base_path)
        self.memory_root = self.base_path / "memories"
        self.memory_root.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, bytes] = {}
        self._all = memoranda.sync.open("memory://")
        self._all.init()
        super().__init__(self._all, user_id="ada")

    def mounted(self, name: str, command: Any) -> Any:
        for path, text in unread(self.memory_root, self._known).items():
            MemoryTool.create(self, creation(path, text))
        try:
            return getattr(MemoryTool, name)(self, command)
        finally:
            found = self._all.scan(memory_type="memory-file")
            files = {"/".join(item.metadata.extra["parts"]): item.content for item in found}
            self._known = put_out(self.memory_root, files)


class AsyncMounted(AsyncMemoryTool):
    """The same for the async tool."""

    def __init__(self, base_path: str) -> None:
        self.base_path = AsyncPath(base_path)
        self.memory_root = self.base_path / "memories"
        self._folder_on_disk = Path(base_path) / "memories"
        self._folder_on_disk.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, bytes] = {}
        self._all = InMemoryStore()
        super().__init__(self._all, user_id="ada")

    async def mounted(self, name: str, command: Any) -> Any:
        await self._all.init()
        for path, text in unread(self._folder_on_disk, self._known).items():
            await AsyncMemoryTool.create(self, creation(path, text))
        try:
            return await getattr(AsyncMemoryTool, name)(self, command)
        finally:
            found = [item async for item in self._all.scan(memory_type="memory-file")]
            files = {"/".join(item.metadata.extra["parts"]): item.content for item in found}
            self._known = await asyncio.to_thread(put_out, self._folder_on_disk, files)


for _name in COMMANDS:
    setattr(Mounted, _name, lambda self, command, _name=_name: self.mounted(_name, command))
    setattr(AsyncMounted, _name, lambda self, command, _name=_name: self.mounted(_name, command))


class Instead:
    """Puts our tools in the place of theirs, and leaves out what the rule says."""

    def pytest_sessionstart(self) -> None:
        sdk.BetaLocalFilesystemMemoryTool = Mounted  # type: ignore[assignment,misc]
        sdk.BetaAsyncLocalFilesystemMemoryTool = AsyncMounted  # type: ignore[assignment,misc]

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Function]) -> None:
        out = [item for item in items if any(word in inspect.getsource(item.function) for word in LEFT_OUT)]
        for item in out:
            print(f"left out: {item.name}")
        print(f"{len(items)} tests, of which {len(out)} are left out and {len(items) - len(out)} apply")
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=out)


def run(sdist: Path) -> int:
    """Unpack the SDK's suite into a folder of its own and run it there."""
    with tempfile.TemporaryDirectory() as place, tarfile.open(sdist) as archive:
        member = next(name for name in archive.getnames() if name.endswith(SUITE))
        source = archive.extractfile(member)
        assert source is not None
        suite = Path(place) / "test_filesystem.py"
        suite.write_bytes(source.read())
        arguments = ["-q", "-p", "no:cacheprovider", "--rootdir", place, "-c", "/dev/null", "-o", "asyncio_mode=auto"]
        arguments += [
            "-o",
            "asyncio_default_fixture_loop_scope=function",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
        ]
        return int(pytest.main([*arguments, str(suite)], plugins=[Instead()]))


def fetched(version: str, place: str) -> Path:
    """Return the SDK's source distribution of a version."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, f"anthropic=={version}", "--dest", place], check=True)
    return next(Path(place).glob("anthropic-*.tar.gz"))


if __name__ == "__main__":
    given = Path(sys.argv[1])
    if given.exists():
        sys.exit(run(given))
    with tempfile.TemporaryDirectory() as downloads:
        sys.exit(run(fetched(sys.argv[1], downloads)))
