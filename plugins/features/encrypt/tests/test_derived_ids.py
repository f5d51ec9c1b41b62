"""Ids that are made from what is said tell nothing to somebody without the key."""

from __future__ import annotations

from pathlib import Path

import pytest
from ciphertext import all_stored

from memoranda import HumanMemory
from memoranda.store import InMemoryStore, Store
from memoranda_encrypt import KeyRing, LocalMasterKey, with_encryption
from memoranda_facts import Facts
from memoranda_facts.extraction import ExtractionRun, RuleExtractor
from memoranda_sqlite import SQLiteMemoryStore


async def derived_names(store: Store) -> set[str]:
    """Return the ids and the places of all that was derived from what Ada said."""
    ada = store.scoped(user_id="ada", session_id="s")
    await ada.add(HumanMemory(id="said", content="I'm allergic to peanuts. I live in Rome."))
    facts = Facts(ada)
    await ExtractionRun(facts, RuleExtractor()).run()
    assert len(await facts.current()) == 2
    derived = [item async for item in all_stored(store) if item.id != "said"]
    assert derived
    return {item.id for item in derived} | {part for item in derived for part in item.metadata.namespace}


@pytest.mark.parametrize("hidden", [True, False])
async def test_no_id_of_a_fact_can_be_guessed_without_the_ring(tmp_path: Path, hidden: bool) -> None:
    guesses = InMemoryStore()
    guessed = await derived_names(guesses)
    found = []
    for name in ("one", "other"):
        ring = KeyRing(LocalMasterKey.generate(), tmp_path / f"{name}-keys.db", hide_owners=hidden)
        async with with_encryption(SQLiteMemoryStore(tmp_path / f"{name}.db"), ring) as store:
            found.append(await derived_names(store))
        guessed &= found[-1]
    # Where owners are not hidden, the place of Ada's facts is known, as Ada is; but not what the facts are about.
    assert len(guessed) == (0 if hidden else 3)
    assert not any("-" in name for name in guessed)
    assert found[0] & found[1] == guessed


async def test_handles_and_other_processes_derive_the_same_ids(
    tmp_path: Path, ring: KeyRing, master: LocalMasterKey
) -> None:
    async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), ring) as store:
        derived = store.derived_id("what was said")
        assert store.scoped(user_id="ada", session_id="s").derived_id("what was said") == derived
    other = KeyRing(master, tmp_path / "keys.db")
    async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), other) as store:
        assert store.derived_id("what was said") == derived != InMemoryStore().derived_id("what was said")
