"""What is true now, in every prompt: a store that is opened with facts, and one without."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.errors import InputError, PluginNotFoundError
from memoranda.plugins import Registry
from memoranda.store import Store
from memoranda.sync import open as open_sync
from memoranda.tokens import estimate_tokens
from memoranda_context import ContextManager, assemble
from memoranda_encrypt import LocalMasterKey
from memoranda_facts import Facts
from memoranda_facts.extraction import RuleExtractor, everyday_schema
from memoranda_mcp.server import opened
from memoranda_mcp.settings import Settings
from memoranda_receipts import Receipts

YEAR = {
    "2026-01": (
        "I live in Lisbon and I work as a nurse",
        "I'm vegetarian and allergic to peanuts",
        "My cat is called Miso",
    ),
    "2026-03": ("I moved to Porto", "I quit my job. From April I work at Farfetch", "We got a dog! He's called Rolo"),
    "2026-06": ("Miso died", "I'm not vegetarian anymore, I eat fish now"),
}
KNOWN = "# What is known"


async def live_a_year(store: Store) -> None:
    for month, said in YEAR.items():
        chat = store.scoped(user_id="nora", session_id=month)
        for minute, text in enumerate(said):
            at = f"{month}-10T10:{minute:02}:00Z"
            await chat.add_many([HumanMemory(content=text, created_at=at), AIMemory(content="Noted.", created_at=at)])


def text_of(prompt: Sequence[MemoryItem]) -> str:
    return "\n".join(item.content for item in prompt)


def known_in(text: str) -> str:
    """Return the section of what is known."""
    return text.partition(KNOWN)[2].partition("\n\n")[0].partition("</memories>")[0]


@pytest.fixture(params=["memory", "sqlite", "encrypted"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/agent.db"
    LocalMasterKey.make_file(tmp_path / "master.key")
    return f"encrypted+sqlite:///{tmp_path}/agent.db?keys={tmp_path}/keys.db&master_key={tmp_path}/master.key"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with memoranda.open(url, facts="rules") as opened:
        yield opened


async def test_a_prompt_shows_what_is_true_now_and_what_is_no_longer(store: Store) -> None:
    await live_a_year(store)
    nora = store.scoped(user_id="nora", session_id="new")
    text = text_of(await assemble(nora, "Where do I live?", tokens=1_000))
    known = known_in(text)
    assert "- lives in Porto (since 2026-03-10; before: Lisbon)" in known
    assert "- employer: Farfetch" in known
    assert "- job: no longer nurse" in known
    assert "- pet: no longer Miso" in known
    assert "- diet: no longer vegetarian" in known
    assert "- allergic to peanuts" in known
    assert "- pet: Rolo" in known
    assert "nora" not in known.lower()
    assert "fact-" not in known
    line = next(line for line in text.splitlines() if line.startswith("- I live in Lisbon"))
    assert "no longer true: Porto since 2026-03-10" in line
    assert "- I moved to Porto\n" in text


async def test_a_manager_shows_the_same_facts_as_assembling(store: Store) -> None:
    await live_a_year(store)
    nora = store.scoped(user_id="nora", session_id="new")
    assembled = text_of(await assemble(nora, "Where do I live?", tokens=1_000))
    managed = str(await ContextManager(long_term=nora, token_budget=1_000).assemble_context("Where do I live?"))
    assert known_in(managed) == known_in(assembled)
    assert "(no longer true since 2026-06-10: pet Miso)" in managed
    filtered = ContextManager(long_term=store, token_budget=1_000)
    theirs = await filtered.assemble_context("Where do I live?", metadata=MemoryMetadata(user_id="nora"))
    assert known_in(str(theirs)) == known_in(assembled)


async def test_a_fact_is_known_right_after_its_words_were_added(store: Store) -> None:
    nora = store.scoped(user_id="nora", session_id="one")
    for place in ("Lisbon", "Porto", "Braga"):
        await nora.add(HumanMemory(content=f"I live in {place} now."))
        await nora.add(AIMemory(content="Noted."))
        prompt = await assemble(store.scoped(user_id="nora", session_id="two"), "Where do I live?", tokens=1_000)
        assert f"- lives in {place}" in known_in(text_of(prompt))


async def test_facts_are_left_out_where_they_are_not_wanted(store: Store) -> None:
    await live_a_year(store)
    nora = store.scoped(user_id="nora", session_id="new")
    text = text_of(await assemble(nora, "Where do I live?", tokens=1_000, facts=False))
    assert KNOWN not in text
    assert "no longer true" not in text
    managed = ContextManager(long_term=nora, facts=False)
    assert KNOWN not in str(await managed.assemble_context("Where do I live?"))


async def test_words_of_strangers_and_assistants_are_no_facts(store: Store) -> None:
    await store.scoped(user_id="nora", session_id="one").add(HumanMemory(content="I live in Porto."))
    web = store.scoped(user_id="nora", session_id="web", trust="external")
    await web.add(HumanMemory(content="I moved to Atlantis. My dog is called Rex."))
    # A handle that is trusted less asks first: what the user said counts for all others all the same.
    assert "Porto" in text_of(await assemble(web, "Hello"))
    chat = store.scoped(user_id="nora", session_id="two")
    await chat.add_many([AIMemory(content="You live in Paris now, don't you?"), HumanMemory(content="Yes.")])
    known = known_in(text_of(await assemble(chat, "Where do I live?", tokens=1_000)))
    assert "- lives in Porto" in known
    assert not any(word in known for word in ("Atlantis", "Rex", "Paris"))


async def test_what_is_known_of_one_user_is_not_told_to_another(store: Store) -> None:
    await live_a_year(store)
    other = store.scoped(user_id="ada", session_id="new")
    assert KNOWN not in text_of(await assemble(other, "Where do I live?"))
    assert await store.known(tokens=300) == []
    assert await store.scoped(session_id="2026-01").known(tokens=300) == []
    assert await store.scoped(user_id="nora", agent_id="cook").known(tokens=300) == []


async def test_what_is_known_takes_a_small_part_of_a_budget(store: Store) -> None:
    nora = store.scoped(user_id="nora", session_id="one")
    for number in range(100):
        await nora.add(HumanMemory(content=f"I love the {number}th symphony of Haydn."))
    for tokens in (0, 50, 400, 2_000, 8_000):
        prompt = await assemble(nora, "Hello", tokens=tokens)
        known = HumanMemory(content=known_in(text_of(prompt)))
        assert estimate_tokens(known) <= min(tokens // 10, 300) + estimate_tokens(HumanMemory(content=""))
        assert tokens < 50 or sum(map(estimate_tokens, prompt)) <= tokens
    assert KNOWN not in text_of(await assemble(nora, "Hello", tokens=2_000, memories=0))


async def test_a_fact_goes_with_the_words_that_it_was_read_from(store: Store) -> None:
    nora = store.scoped(user_id="nora", session_id="one")
    secret = HumanMemory(content="I live in Porto.")
    await nora.add(secret)
    assert "Porto" in text_of(await assemble(nora, "Hi"))
    await nora.purge(secret.id)
    assert "Porto" not in text_of(await assemble(nora, "Hi"))
    assert await nora.known(tokens=300) == []


async def test_a_receipt_replays_facts_and_remarks_to_the_byte(store: Store) -> None:
    await live_a_year(store)
    nora = store.scoped(user_id="nora", session_id="new")
    prompt = await assemble(nora, "Where do I live?", tokens=1_000, receipt=True)
    receipts = Receipts(nora)
    (recorded,) = await receipts.list()
    await nora.add(HumanMemory(content="I moved to Faro. Rolo died."))
    assert "Faro" in text_of(await assemble(nora, "Where do I live?", tokens=1_000))
    replayed = await receipts.replay(recorded.id)
    assert replayed.exact
    assert [item.content for item in replayed.items] == [item.content for item in prompt]


async def test_a_receipt_keeps_nothing_of_what_is_known_when_its_source_is_purged(store: Store) -> None:
    nora = store.scoped(user_id="nora", session_id="one")
    move = HumanMemory(content="I moved to Porto.")
    await nora.add_many([HumanMemory(content="I live in Lisbon.", created_at="2026-01-10"), move])
    chat = store.scoped(user_id="nora", session_id="two")
    assert "no longer true: Porto" in text_of(await assemble(chat, "Where do I live?", receipt=True))
    (recorded,) = await Receipts(chat).list()
    assert "Porto" not in str(recorded.as_json())
    await nora.purge(move.id)
    replayed = await Receipts(chat).replay(recorded.id)
    assert not replayed.exact
    assert "Porto" not in text_of(replayed.items)


async def test_the_beginning_of_a_prompt_stays_while_nothing_new_is_known(store: Store) -> None:
    await live_a_year(store)
    nora = store.scoped(user_id="nora", session_id="new")
    first = await assemble(nora, "Hi", tokens=1_000)
    await nora.add_many([HumanMemory(content="Hi"), AIMemory(content="Hello!")])
    assert (await assemble(nora, "What is 2 + 2?", tokens=1_000))[0].content == first[0].content


async def test_facts_that_a_program_records_are_known_and_what_agents_record_is_not(store: Store) -> None:
    facts = Facts(store.scoped(user_id="nora"), schema=everyday_schema())
    await facts.set("nora", "lives_in", "Faro", sources="manual")
    await facts.set("nora", "likes", "jazz", sources="manual", trust="agent")
    assert [line.partition(" (")[0] for line in await store.scoped(user_id="nora").known(tokens=300)] == [
        "lives in Faro"
    ]


async def test_a_store_without_facts_knows_nothing_and_reads_nothing(url: str) -> None:
    async with memoranda.open(url) as plain:
        await live_a_year(plain)
        nora = plain.scoped(user_id="nora", session_id="new")
        before = await plain.count()
        with_facts = await assemble(nora, "Where do I live?", tokens=1_000)
        without = await assemble(nora, "Where do I live?", tokens=1_000, facts=False)
        assert [item.content for item in with_facts] == [item.content for item in without]
        assert await nora.known(tokens=300) == []
        assert await nora.outdated([item.id for item in await nora.search()]) == {}
        assert await plain.count() == before


async def test_a_url_asks_for_facts_as_a_keyword_does(tmp_path: Path) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path}/agent.db?facts=rules") as store:
        nora = store.scoped(user_id="nora")
        await nora.add(HumanMemory(content="I live in Porto."))
        assert len(await nora.known(tokens=300)) == 1
    async with memoranda.open("memory://", facts=RuleExtractor()) as store:
        nora = store.scoped(user_id="nora")
        await nora.add(HumanMemory(content="I live in Porto."))
        assert len(await nora.known(tokens=300)) == 1
    for off in (None, False):
        async with memoranda.open("memory://", facts=off) as store:
            assert await store.scoped(user_id="nora").known(tokens=300) == []


async def test_a_store_that_is_only_read_tells_what_it_knows_and_writes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with memoranda.open(url, facts="rules") as store:
        nora = store.scoped(user_id="nora")
        await nora.add(HumanMemory(content="I live in Porto."))
        assert await nora.known(tokens=300)
        await nora.add(HumanMemory(content="I moved to Faro."))
    async with memoranda.open(url, facts="rules", access="read") as store:
        assert "Porto" in (await store.scoped(user_id="nora").known(tokens=300))[0]


def test_a_program_without_async_asks_what_is_known() -> None:
    with open_sync("memory://", facts="rules") as store:
        nora = store.scoped(user_id="nora")
        home = HumanMemory(content="I live in Lisbon.", created_at="2026-01-10")
        nora.add_many([home, HumanMemory(content="I moved to Porto.", created_at="2026-03-10")])
        assert nora.known(tokens=300) == ["lives in Porto (since 2026-03-10; before: Lisbon)"]
        assert nora.outdated([home.id]) == {home.id: "no longer true: Porto since 2026-03-10"}


def test_another_value_of_facts_is_an_error_that_says_what_there_is() -> None:
    with pytest.raises(PluginNotFoundError, match=r"'guesses'.*Installed: .*rules"):
        memoranda.open("memory://", facts="guesses")
    with pytest.raises(InputError, match="needs options"):
        memoranda.open("memory://", facts="model")
    with pytest.raises(InputError, match="not int"):
        memoranda.open("memory://", facts=3)


@pytest.mark.parametrize("url", ["memory://", "memory://?facts=rules"])
def test_without_the_plugin_the_error_says_what_to_install(url: str) -> None:
    with pytest.raises(PluginNotFoundError, match=r"'memoranda\[facts\]'"):
        memoranda.open(url, facts="rules", registry=Registry([]))


def test_the_command_takes_facts_as_an_option_of_the_store(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memoranda", "search", "--user", "nora", "--store", "memory://?facts=rules"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0


async def test_facts_count_what_was_added_before_they_are_read() -> None:
    async with memoranda.open("memory://", facts="rules") as store:
        nora = store.scoped(user_id="nora")
        await nora.add(HumanMemory(content="I live in Lisbon."))
        facts = Facts(nora)
        assert [fact.object for fact in await facts.current(predicate="lives_in")] == ["Lisbon"]
        await nora.add(HumanMemory(content="I moved to Porto."))
        assert [fact.object for fact in await facts.current(predicate="lives_in")] == ["Porto"]
        assert "Porto" in await facts.profile()


async def test_stored_facts_are_shown_and_none_are_extracted() -> None:
    async with memoranda.open("memory://", facts="stored") as store:
        nora = store.scoped(user_id="nora")
        said = HumanMemory(content="I live in Lisbon.")
        await nora.add(said)
        assert await nora.known(tokens=100) == []
        await Facts(nora, schema=everyday_schema()).set("nora", "lives_in", "Porto", sources=[said.id])
        assert "Porto" in str(await nora.known(tokens=100))


async def test_the_command_and_the_server_show_facts_that_are_stored(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with memoranda.open(url, facts="rules") as store:
        nora = store.scoped(user_id="nora")
        await nora.add_many([HumanMemory(content="I live in Lisbon."), HumanMemory(content="I moved to Porto.")])
        await nora.known(tokens=100)
    settings = Settings(store=url, user="nora")
    async with opened(settings) as (served, _):
        assert "Porto" in str(await served.scoped(user_id="nora").known(tokens=100))

    command = [sys.executable, "-m", "memoranda", "context", "--store", url, "--user", "nora", "-q", "Where do I live?"]
    shown = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)

    assert "- lives in Porto" in shown.stdout


async def test_several_remarks_say_what_each_is_about() -> None:
    async with memoranda.open("memory://", facts="rules") as store:
        await live_a_year(store)
        first, *_ = await store.scoped(user_id="nora", session_id="2026-01").window()
        remark = (await store.scoped(user_id="nora").outdated([first.id]))[first.id]
    assert "lives in Lisbon is no longer true: Porto since 2026-03-10" in remark
    assert "job nurse" in remark


async def test_a_remark_on_a_sentence_that_is_half_true_says_which_half() -> None:
    async with memoranda.open("memory://", facts="rules") as store:
        nora = store.scoped(user_id="nora")
        said = HumanMemory(content="I live in Lisbon and I am allergic to peanuts.")
        await nora.add_many([said, HumanMemory(content="I moved to Porto.")])
        remarks = await nora.outdated([said.id])
    assert remarks[said.id].startswith("lives in Lisbon is no longer true: Porto since ")


async def test_memories_of_adk_and_strands_say_what_holds_no_longer() -> None:
    from memoranda_adk import MemorandaMemoryService
    from memoranda_strands import MemorandaMemoryStore

    async with memoranda.open("memory://", facts="rules") as store:
        ada = store.scoped(user_id="ada", session_id="old")
        await ada.add(HumanMemory(content="I live in Lisbon", created_at="2026-01-10T10:00:00Z"))
        await ada.add(HumanMemory(content="I moved to Porto", created_at="2026-03-10T10:00:00Z"))

        strands = await MemorandaMemoryStore(store.scoped(user_id="ada"), everything=True).search("Lisbon")
        adk = await MemorandaMemoryService(store, everything=True).search_memory(
            app_name="app", user_id="ada", query="Lisbon"
        )

    remarked = "I live in Lisbon (no longer true: Porto since 2026-03-10)"
    assert strands[0].content == remarked
    assert adk.memories[0].content.parts is not None
    assert adk.memories[0].content.parts[0].text == remarked
