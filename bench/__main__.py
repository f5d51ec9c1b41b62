"""Every benchmark one after the other, and all their lines in one table in the end.

python bench [NAME ...] [--items N] [--locomo FILE] [--plot FILE.svg]

Names are those of the scripts beside this file (core, sqlite, …); by default all of them. ``--plot`` also fills every
backend step by step and draws how the cost of its calls grows. A script that fails is said in the end; the others run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from harness import LINES_VARIABLE, Line, report

FOLDER = Path(__file__).parent
NEEDS_DATA = "retrieval"
SIZES = (100, 1_000, 10_000)


def scripts() -> dict[str, Path]:
    """Return the scripts that can be run, by name, the core's first."""
    found = {
        path.stem: path
        for path in sorted(FOLDER.glob("*.py"))
        if path.name != "__main__.py" and '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    }
    return {name: found[name] for name in sorted(found, key=lambda name: (name != "core", name))}


def arguments_for(name: str, path: Path, options: argparse.Namespace) -> list[str] | None:
    """Return the arguments of a script, or None where it cannot be run."""
    if name == NEEDS_DATA:
        return [str(options.locomo)] if options.locomo else None
    return ["--items", str(options.items)] if options.items and "--items" in path.read_text(encoding="utf-8") else []


def run_all(options: argparse.Namespace, lines: Path) -> list[str]:
    """Run the scripts and return the names of those that failed."""
    known = scripts()
    failed = []
    for name in options.names or known:
        arguments = arguments_for(name, known[name], options)
        if arguments is None:
            print(f"\n{name}: left out, since it needs --locomo FILE")
            continue
        command = [sys.executable, str(known[name]), *arguments]
        if subprocess.run(command, env={**os.environ, LINES_VARIABLE: str(lines)}, check=False).returncode:
            failed.append(name)
    return failed


def summary(lines: Path) -> None:
    """Print all lines that the scripts reported, in one table."""
    written = lines.read_text(encoding="utf-8").splitlines() if lines.exists() else []
    entries = [json.loads(line) for line in written]
    if entries:
        report(
            "Everything",
            [
                Line(f"{entry['title']}: {entry['what']}", entry["ours"], entry["floor"], entry["goal"], entry["unit"])
                for entry in entries
            ],
        )


async def growth_plot(path: Path) -> None:
    """Fill every backend step by step, and draw how the cost of its calls grows."""
    from memoranda_cli.bench import measured, plotted
    from servers import postgres_server, redis_server

    found = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        database = stack.enter_context(stack.enter_context(postgres_server()).database())
        redis = stack.enter_context(redis_server(private=True)).url
        urls = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/bench.db", "postgres": database, "redis": redis}
        for name, url in urls.items():
            found[name] = await measured(url, {}, SIZES, calls=100)
    path.write_text(plotted(found), encoding="utf-8")
    print(f"\nThe plot is in {path}.")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*scripts(), []], metavar="NAME")
    parser.add_argument("--items", type=int, help="how many items the larger benchmarks fill their stores with")
    parser.add_argument("--locomo", type=Path, help="LoCoMo's JSON file, for the retrieval benchmark")
    parser.add_argument("--plot", type=Path, help="where to write the plot, as SVG")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.jsonl"
        failed = run_all(options, lines)
        summary(lines)
    if options.plot:
        asyncio.run(growth_plot(options.plot))
    if failed:
        print(f"\nThese failed: {', '.join(failed)}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
