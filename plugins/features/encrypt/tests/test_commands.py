"""The commands: keys, encrypt, decrypt, and what forget, export and import do with an encrypted store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.fixture
def url(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An encrypted store with a memory of ada and one of ben; the environment names its keys."""
    monkeypatch.setenv("MEMORANDA_KEYS", str(tmp_path / "keys.db"))
    monkeypatch.setenv("MEMORANDA_MASTER_KEY_FILE", str(tmp_path / "master.key"))
    assert command("keys", "new", tmp_path / "master.key").exit_code == 0
    url = f"encrypted+sqlite:///{tmp_path}/agent.db"
    for user in ("ada", "ben"):
        added = command("add", f"tea for {user}", "--user", user, "--store", url)
        assert added.exit_code == 0, added.output
    return url


def answer(command: Command, *arguments: object) -> Any:
    done = command(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def states(command: Command) -> dict[str | None, str]:
    return {key["user_id"]: key["state"] for key in answer(command, "keys", "list")["keys"]}


def test_keys_are_listed_and_destroyed(command: Command, url: str) -> None:
    assert states(command) == {"ada": "active", "ben": "active"}
    assert command("keys", "destroy", "ada").exit_code == 8  # There is no terminal to ask on.
    assert answer(command, "keys", "destroy", "ada", "--yes") == {"user_id": "ada", "keys_destroyed": 1}
    assert states(command) == {None: "destroyed", "ben": "active"}
    assert command("keys", "destroy", "ada", "--yes").exit_code == 3
    shown = command("search", "tea", "--all", "--store", url)
    assert "tea for ben" in shown.output
    assert "tea for ada" not in shown.output


def test_forget_destroys_the_key_and_says_so(command: Command, url: str) -> None:
    receipt = answer(command, "forget", "ada", "--yes", "--store", url)
    assert (receipt["keys_destroyed"], receipt["complete"]) == (1, True)
    shown = command("forget", "ben", "--yes", "--store", url)
    assert "no backup of this user can be read" in shown.output


def test_data_keys_are_rotated(command: Command, url: str) -> None:
    assert answer(command, "keys", "rotate", "--user", "ada", "--store", url)["items"] == 1
    kinds = [key["state"] for key in answer(command, "keys", "list")["keys"]]
    assert sorted(kinds) == ["active", "active", "retired"]
    assert "tea for ada" in command("search", "tea", "--all", "--store", url).output


def test_the_master_key_is_replaced(command: Command, url: str, tmp_path: Path) -> None:
    assert command("keys", "new", tmp_path / "new.key").exit_code == 0
    assert answer(command, "keys", "rotate", "--new-master-key", tmp_path / "new.key") == {"rewrapped": 3}
    refused = command("search", "tea", "--all", "--store", url)
    assert refused.exit_code != 0
    assert "master key" in refused.output
    (tmp_path / "new.key").replace(tmp_path / "master.key")
    assert "tea for ada" in command("search", "tea", "--all", "--store", url).output


def test_a_store_is_encrypted_and_decrypted_in_place(command: Command, url: str, tmp_path: Path) -> None:
    plain = f"sqlite:///{tmp_path}/plain.db"
    assert command("add", "plum", "--user", "ada", "--store", plain).exit_code == 0
    assert answer(command, "encrypt", "--store", plain) == {"items": 1, "keys": 0, "pending": ""}
    refused = command("search", "--all", "--store", plain)
    assert refused.exit_code != 0
    assert f"Open it as 'encrypted+{plain}'" in " ".join(refused.output.split())
    assert "plum" in command("search", "--all", "--store", f"encrypted+{plain}").output
    assert answer(command, "decrypt", "--yes", "--store", plain)["items"] == 1
    assert "plum" in command("search", "--all", "--store", plain).output


def test_an_export_keeps_the_ciphertext_or_asks_for_the_key(
    command: Command, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = url.removeprefix("encrypted+")
    assert command("export", tmp_path / "refused.jsonl", "--store", inner).exit_code != 0
    assert command("export", tmp_path / "sealed.jsonl", "--store", f"ciphertext+{inner}").exit_code == 0
    assert "tea" not in (tmp_path / "sealed.jsonl").read_text()
    assert command("export", tmp_path / "clear.jsonl", "--store", url).exit_code == 0
    assert "tea for ada" in (tmp_path / "clear.jsonl").read_text()
    # With the ring, the ciphertext is read into any encrypted store.
    other = f"encrypted+sqlite:///{tmp_path}/other.db"
    imported = command("import", tmp_path / "sealed.jsonl", "--store", other)
    assert imported.exit_code == 0, imported.output
    assert "tea for ada" in command("search", "tea", "--all", "--store", other).output
    monkeypatch.delenv("MEMORANDA_MASTER_KEY_FILE")
    refused = command("export", tmp_path / "again.jsonl", "--store", url)
    assert refused.exit_code != 0
    assert "MEMORANDA_MASTER_KEY" in refused.output
    assert not (tmp_path / "again.jsonl").exists()
