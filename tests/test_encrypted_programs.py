"""Programs on an encrypted store: they refuse its plain URL as the commands of the shell do."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from memoranda_cli.app import app


@pytest.mark.parametrize("program", [("mcp", "--user", "ada"), ("inspect",)], ids=lambda program: program[0])
def test_a_program_refuses_the_plain_url_by_name(
    program: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORANDA_KEYS", str(tmp_path / "keys.db"))
    monkeypatch.setenv("MEMORANDA_MASTER_KEY_FILE", str(tmp_path / "master.key"))
    plain = f"sqlite:///{tmp_path}/agent.db"
    run = CliRunner().invoke
    assert run(app, ["keys", "new", str(tmp_path / "master.key")]).exit_code == 0
    assert run(app, ["add", "tea", "--user", "ada", "--store", f"encrypted+{plain}"]).exit_code == 0

    done = run(app, [*program, "--store", plain])

    assert done.exit_code != 0
    assert f"'encrypted+{plain}'" in done.output.replace("\n", "")
