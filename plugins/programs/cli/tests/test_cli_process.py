"""The command as a process of its own: pipes, colour, questions, Ctrl-C, and what it imports."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Process = Callable[..., "subprocess.CompletedProcess[str]"]
Started = Callable[..., "subprocess.Popen[Any]"]


def heed_ctrl_c() -> None:
    """Undo in a child what it would inherit from a background job, where Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def started(tmp_path: Path, environment: dict[str, str]) -> Started:
    """Start the command and return it running."""

    def start(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(
            [sys.executable, "-m", "memoranda", *arguments],
            env=environment | {"TERM": "xterm-256color"} | (env or {}),
            cwd=tmp_path,
            preexec_fn=heed_ctrl_c,
            **{"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )

    return start


def on_a_terminal(
    started: Started, *arguments: str, answer: str | signal.Signals | None = None, env: dict[str, str] | None = None
) -> tuple[str, int]:
    """Run the command on a pseudo-terminal, answer its question, and return what it showed and its exit code."""
    import pty

    ours, theirs = pty.openpty()
    shown = b""
    with started(*arguments, env=env, stdin=theirs, stdout=theirs, stderr=theirs, text=False) as process:
        os.close(theirs)
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 0.5)[0]:
                # It waits for an answer, or has not come to its question yet. A signal between the question and the
                # reading of the answer is not seen by Python before the next key, so it is sent until it is.
                if isinstance(answer, signal.Signals) and b"[y/N]" in shown:
                    process.send_signal(answer)
                continue
            try:
                part = os.read(ours, 4096)
            except OSError:  # The other end is closed: the process is done.
                break
            shown += part
            if not part:
                break
            if isinstance(answer, str) and b"[y/N]" in shown:
                os.write(ours, answer.encode())
                answer = None
        else:
            process.kill()
        code = process.wait(timeout=240)
    os.close(ours)
    return shown.decode(), code


def test_importing_memoranda_and_listing_plugins_imports_no_driver() -> None:
    code = """
import sys
import memoranda
sys.argv = ["memoranda", "plugins"]
try:
    from memoranda_cli import main
    main()
except SystemExit as done:
    assert not done.code, done.code
heavy = {"numpy", "openai", "aiosqlite", "sqlite3", "asyncpg", "redis", "usearch", "pytest", "hypothesis"}
loaded = sorted(heavy & set(sys.modules))
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=240)

    assert done.returncode == 0, done.stderr


def test_a_broken_plugin_is_a_row_and_exit_code_0(process: Process, tmp_path: Path) -> None:
    metadata = tmp_path / "plugins" / "bad-2.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 2.0\n")
    (metadata / "entry_points.txt").write_text("[memoranda]\nbad = memoranda_bad\n")
    (tmp_path / "plugins" / "memoranda_bad.py").write_text("print('noise')\nimport no_such_driver\n")

    done = process("plugins", "--json", environment={"PYTHONPATH": str(tmp_path / "plugins")})

    assert done.returncode == 0, done.stderr
    (row,) = (row for row in json.loads(done.stdout) if row["name"] == "bad")
    assert row["status"] == "broken"
    assert "no_such_driver" in row["reason"]


@pytest.mark.rare
def test_there_is_no_colour_in_a_pipe_and_colour_on_a_terminal(process: Process, started: Started) -> None:
    for line in (("--help",), ("plugins",), ("demo", "--store", "memory://"), ("search", "--help")):
        assert "\x1b" not in process(*line).stdout

    assert "\x1b[" in on_a_terminal(started, "plugins")[0]
    assert "\x1b[" in on_a_terminal(started, "--help")[0]


@pytest.mark.rare
def test_no_color_is_respected_on_a_terminal(started: Started) -> None:
    for line in (("--help",), ("plugins",)):
        assert "\x1b[3" not in on_a_terminal(started, *line, env={"NO_COLOR": "1"})[0]


def test_long_contents_are_not_cut_in_a_pipe(process: Process, tmp_path: Path) -> None:
    url = f"shelf:///{tmp_path / 'memories'}"
    content = "word " * 35 + "end"
    process("add", content, "--store", url)

    assert content in process("search", "--store", url).stdout


@pytest.mark.rare
def test_a_reader_that_stops_early_is_no_error(started: Started, tmp_path: Path, process: Process) -> None:
    url = f"shelf:///{tmp_path / 'memories'}"
    lines = "\n".join(json.dumps({"memory_type": "human", "content": "x" * 1000}) for _ in range(500))
    process("import", "--store", url, input=lines)

    with started("export", "--store", url) as exporting:
        assert exporting.stdout is not None
        exporting.stdout.readline()
        exporting.stdout.close()
        exporting.wait(timeout=240)
        assert exporting.stderr is not None
        complaint = exporting.stderr.read()

    assert "Traceback" not in complaint
    assert "Exception ignored" not in complaint


@pytest.mark.rare
@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_question_is_asked_on_a_terminal(
    process: Process, started: Started, tmp_path: Path, answer: str, left: int
) -> None:
    url = f"shelf:///{tmp_path / 'memories'}"
    process("add", "one", "--store", url)

    shown, code = on_a_terminal(started, "clear", "--all", "--store", url, answer=answer)

    assert "Delete 1 item" in shown
    assert code == (8 if left else 0)
    assert json.loads(process("stats", "--json", "--store", url).stdout)["items"] == left


@pytest.mark.rare
def test_ctrl_c_at_a_question_changes_nothing(process: Process, started: Started, tmp_path: Path) -> None:
    url = f"shelf:///{tmp_path / 'memories'}"
    process("add", "one", "--store", url)

    _, code = on_a_terminal(started, "clear", "--all", "--store", url, answer=signal.SIGINT)

    assert code == 130
    assert json.loads(process("stats", "--json", "--store", url).stdout)["items"] == 1


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait until the store says that it is in the middle, press Ctrl-C, and return exit code and standard error."""
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "paused\n", process.stderr.read()
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=240)
        return code, process.stderr.read()


@pytest.mark.rare
def test_ctrl_c_in_an_export_leaves_no_file(process: Process, started: Started, tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"memory_type": "human", "content": "x" * 100}) for _ in range(2_000))
    process("import", "--store", f"shelf:///{tmp_path / 'memories'}", input=lines)
    (tmp_path / "out").mkdir()

    code, complaint = interrupted(started("export", "out/all.jsonl", "--store", f"pausing:///{tmp_path / 'memories'}"))

    assert code == 130, complaint
    assert list((tmp_path / "out").iterdir()) == []
    assert "Traceback" not in complaint


@pytest.mark.rare
def test_ctrl_c_in_a_copy_can_be_gone_on_from(process: Process, started: Started, tmp_path: Path) -> None:
    source, target = tmp_path / "source", f"shelf:///{tmp_path / 'target'}"
    lines = "\n".join(
        json.dumps({"memory_type": "human", "id": str(number), "content": "x" * 100}) for number in range(1_300)
    )
    process("import", "--store", f"shelf:///{source}", input=lines)

    code, complaint = interrupted(started("copy", f"pausing:///{source}", target))

    assert code == 130, complaint
    assert "Interrupted after 1,000 items" in complaint
    assert "Traceback" not in complaint
    again = process("copy", f"shelf:///{source}", target, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["count"] == 1_300


BUSY = """
import asyncio, itertools, time
from memoranda_commands.exits import run

async def computes():
    print("paused", flush=True)
    for _ in itertools.count():
        pass

async def waits_for_an_engine():
    try:
        print("paused", flush=True)
        await asyncio.sleep(3600)
    finally:
        await asyncio.shield(asyncio.to_thread(time.sleep, 3600))

try:
    run({}())
except KeyboardInterrupt:
    import os
    os._exit(130)
"""


@pytest.mark.parametrize("doing", ["computes", "waits_for_an_engine"])
def test_ctrl_c_does_not_wait_for_what_does_not_end(doing: str) -> None:
    busy = subprocess.Popen(
        [sys.executable, "-c", BUSY.replace("{}", doing)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
    )

    code, complaint = interrupted(busy)

    assert code == 130, complaint


def test_ctrl_c_while_a_file_is_checked_is_heard_before_its_end(started: Started, tmp_path: Path) -> None:
    line = json.dumps({"memory_type": "human", "content": "x" * 100})
    (tmp_path / "many.jsonl").write_text(f"{line}\n" * 100_000)

    with started("import", "many.jsonl", "--json", "--store", f"checking:///{tmp_path / 'memories'}") as importing:
        assert importing.stdout is not None
        assert importing.stdout.readline() == "paused\n", importing.communicate()
        importing.send_signal(signal.SIGINT)
        shown, complaint = importing.communicate(timeout=240)

    assert importing.returncode == 130, complaint
    assert json.loads(shown)["error"] == "Interrupted before anything was stored."
    assert not (tmp_path / "memories").exists()


def test_python_m_memoranda_and_the_script_are_the_same(process: Process) -> None:
    script = Path(sys.executable).with_name("memoranda")

    done = subprocess.run([str(script), "--version"], capture_output=True, text=True, check=False, timeout=240)

    assert done.stdout == process("--version").stdout


def test_a_shell_can_complete_commands(process: Process) -> None:
    done = process(
        environment={
            "_MEMORANDA_COMPLETE": "complete_bash",
            "COMP_WORDS": "memoranda con",
            "COMP_CWORD": "1",
        }
    )

    assert {"conform", "context"} <= set(done.stdout.split())


def test_the_default_store_is_a_file_in_the_data_folder_and_said(process: Process, tmp_path: Path) -> None:
    done = process("search", environment={"MEMORANDA_PLUGINS": "shelf"})

    assert done.returncode == 3
    assert "store: sqlite:///" in done.stderr
    assert str(tmp_path / "data" / "memoranda" / "memory.db") in done.stderr
    assert "memoranda-sqlite" in done.stderr


BROKEN_OBSERVER = """
from memoranda.plugins import ObserverSpec, hookimpl
from memoranda.store import Observer

class Refuses(Observer):
    def __init__(self):
        raise RuntimeError("no model on this machine")

@hookimpl
def memoranda_observers():
    return [ObserverSpec("watching", target="hostile_watching:Refuses", auto=True)]
"""


def test_hostile_plugins_are_rows_with_their_reasons(tmp_path: Path, process: Process) -> None:
    plugins = {
        "good": "from memoranda.plugins import Backend, hookimpl\n\n@hookimpl\ndef memoranda_backends():\n"
        "    return [Backend('good', target='memoranda.store.in_memory:InMemoryStore')]\n",
        "damaged": "",
        "exits": "import sys; sys.exit(9)",
        "red": "raise RuntimeError('\\x1b[31mred\\x1b[0m')",
        "watching": BROKEN_OBSERVER,
        "latin": "",
    }
    for name, source in plugins.items():
        (tmp_path / f"hostile_{name}.py").write_text(source)
        folder = tmp_path / f"hostile_{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hostile-{name}\nVersion: 1.0\n")
        point = "this line says nothing" if name == "damaged" else f"{name} = hostile_{name}"
        encoded = "é".encode("latin-1") if name == "latin" else b""
        (folder / "entry_points.txt").write_bytes(f"[memoranda]\n{point}\n".encode() + encoded)

    done = process("plugins", "--json", environment={"PYTHONPATH": str(tmp_path)})
    added = process("add", "hello", "--store", "memory://", environment={"PYTHONPATH": str(tmp_path)})

    assert done.returncode == 0, done.stderr
    assert added.returncode == 0, added.stderr
    statuses = {row["name"].removeprefix("hostile-"): row["status"] for row in json.loads(done.stdout)}
    broken = dict.fromkeys(("damaged", "exits", "red", "watching", "latin"), "broken")
    assert statuses.items() >= {"good": "ok", **broken}.items()
