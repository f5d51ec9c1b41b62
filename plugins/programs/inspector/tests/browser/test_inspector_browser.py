"""The inspector in a real browser: a whole walk, hostile content, the keyboard alone, and who is let in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_inspector.command import TRIP

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202egnp.exe \x1b[31mred \"'><svg onload=alert(3)>"


def test_a_whole_walk(served: Any, page: Any, url: str) -> None:
    inspector = served(url)
    page.goto(inspector.entrance)
    page.wait_for_url(inspector.home)
    assert page.locator("text=window seat").count() == 0

    page.get_by_label("Find by name").fill("ad")
    page.locator("#owners tr:has-text('grace')").wait_for(state="detached")
    page.get_by_role("link", name="ada").click()
    page.get_by_role("link", name="trip").click()
    page.locator("text=Half answered: no result of").wait_for()

    inspector.call(lambda store: store.add(HumanMemory(content="Here I am again.", metadata=TRIP)))
    page.locator("text=Here I am again.").wait_for()

    page.get_by_role("link", name="What the model gets").click()
    page.wait_for_load_state()
    page.locator("#answer h2").wait_for()
    page.get_by_label("Rounds").first.fill("1")
    page.locator("text=before the last round").first.wait_for()
    sent = json.loads(page.locator("#payload-A").text_content())
    assert sent["messages"][-1]["content"] == "Here I am again."
    page.get_by_label("as", exact=True).select_option("anthropic")
    page.locator("#payload-A:has-text('\"system\"')").wait_for()
    page.get_by_label("compare A with B").check()
    page.locator("text=Only in B").wait_for()
    page.get_by_label("For the question").fill("which seat does she like?")
    page.locator(".reused .message:has-text('window seat')").first.wait_for()
    assert page.get_by_label("Rounds").first.is_hidden()

    page.get_by_role("link", name="Search").click()
    page.wait_for_load_state()
    page.get_by_label("Search").first.fill("window seat")
    page.locator("mark:has-text('seat')").first.wait_for()
    page.locator("dt:has-text('neighbours')").first.wait_for()
    page.locator("summary:has-text('Weights')").click()
    page.get_by_label("before", exact=True).fill("0")
    page.locator("text=ranked with your weights").wait_for()

    page.get_by_role("link", name="Actions").click()
    page.get_by_role("button", name="Dry run").click()
    page.get_by_role("button", name="Ask the model and compact").click()
    page.get_by_role("link", name="To the conversation").click()
    page.wait_for_url(re.compile(r"/o/\w+/$"))
    page.locator("summary:has-text('What it stands for')").first.click()
    page.locator(".sources article:has-text('window seat')").first.wait_for()
    page.get_by_role("button", name="Undo this summary").first.click()
    page.get_by_role("button", name="Undo it").click()
    page.locator("text=came back").wait_for()

    page.get_by_role("link", name="Health").click()
    page.locator("text=items read").wait_for()


def test_a_deleted_item_comes_back_and_a_user_is_forgotten(served: Any, page: Any) -> None:
    inspector = served()
    page.goto(inspector.entrance)
    page.get_by_role("link", name="grace").click()
    page.get_by_role("link", name="Details").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete it").click()
    page.get_by_role("button", name="Undo").click()
    page.locator("text=One item is back").wait_for()
    page.get_by_role("link", name="Actions").click()
    page.locator(".danger").get_by_role("button").click()
    page.get_by_label("Type").fill("grace")
    page.get_by_role("button", name="Erase for good").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save the receipt").click()
    assert json.loads(Path(download.value.path()).read_text())["complete"] is True


def test_the_quarantine_is_decided_on_by_name(served: Any, page: Any) -> None:
    inspector = served()
    page.goto(inspector.entrance)
    page.get_by_role("link", name="Quarantine").click()
    page.get_by_role("button", name="Approve").click()
    page.locator("text=Ignore all previous instructions").wait_for()
    page.get_by_role("button", name="Approve").click()
    assert page.get_by_label("Your name").evaluate("field => !field.validity.valid")
    page.get_by_label("Your name").fill("Vera")
    page.get_by_role("button", name="Approve").click()
    page.locator("text=Approved by Vera.").wait_for()
    page.get_by_role("link", name="To its conversation").click()
    page.locator(".entry:has-text('night ferry')").wait_for()
    page.get_by_role("link", name="Quarantine").click()
    page.locator("text=Nothing is in quarantine.").wait_for()


def open_what_the_model_gets(inspector: Any, page: Any) -> None:
    page.goto(inspector.entrance)
    page.get_by_role("link", name="ada").click()
    page.get_by_role("link", name="What the model gets").click()
    page.locator("#answer :text('travel assistant')").first.wait_for()


def test_a_user_is_asked_for_the_session_of_a_question(served: Any, page: Any) -> None:
    open_what_the_model_gets(served(), page)
    page.get_by_label("In the session").select_option(index=1)
    page.locator("#answer :text('Asked so far')").first.wait_for()
    page.get_by_label("For the question").fill("Which wine was it?")
    page.locator("h3:has-text('New with this question') ~ .messages :text('Which wine was it?')").wait_for()


def test_what_is_changed_before_the_scripts_are_there_is_asked(served: Any, page: Any) -> None:
    open_what_the_model_gets(served(), page)
    held: list[Any] = []
    page.route("**/static/*.js", lambda route: held.append(route))
    page.goto(page.url, wait_until="commit")
    page.get_by_label("In the session").select_option(index=1)
    for script in held:
        script.continue_()
    page.locator("#answer :text('Asked so far')").first.wait_for()


def test_hostile_content_is_text(served: Any, page: Any) -> None:
    async def prepare(store: Store) -> None:
        owner = MemoryMetadata(user_id=HOSTILE, session_id="s")
        await store.add_many(
            [HumanMemory(content=HOSTILE, metadata=owner), HumanMemory(content="a" * 5_000_000, metadata=owner)]
        )

    inspector = served(prepare=prepare)
    page.goto(inspector.entrance)
    page.locator(".owners a").click()
    shown = page.locator(".entry .text").first.text_content()
    assert "<script>alert(1)</script>" in shown
    assert "⟨U+202E⟩" in shown
    assert page.locator("main script, main img, main svg[onload]").count() == 0
    page.get_by_role("link", name="more characters").click()
    page.get_by_role("link", name="What the model gets").click()
    page.wait_for_load_state()
    page.locator("#payload-A").wait_for()
    page.get_by_role("link", name="Search").click()
    page.wait_for_load_state()
    page.get_by_label("Search").first.fill("script")
    page.locator("mark").first.wait_for()


def test_the_keyboard_is_enough(served: Any, page: Any) -> None:
    inspector = served()
    page.goto(inspector.entrance)
    page.wait_for_url(inspector.home)

    def reach(text: str, key: str = "Tab") -> None:
        for _ in range(60):
            page.keyboard.press(key)
            focused = page.evaluate("(document.activeElement.textContent || document.activeElement.id || '').trim()")
            if text in focused:
                return
        raise AssertionError(f"The keyboard does not reach {text!r}.")

    reach("ada")
    page.keyboard.press("Enter")
    page.locator(".entry").first.wait_for()
    reach("To the content")
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'main'")
    reach("What the model gets", "Shift+Tab")
    page.keyboard.press("Enter")
    page.locator("#a_rounds").focus()
    page.keyboard.press("Home")
    page.locator("text=before the last 0 rounds").first.wait_for()


def test_every_field_has_a_label_and_nothing_is_wider_than_a_phone(served: Any, page: Any) -> None:
    inspector = served()
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(inspector.entrance)
    page.wait_for_url(inspector.home)
    home = page.url
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()
    owner = page.url
    pages = ("", "context", "search", "facts", "receipts", "actions")
    for address in (home, *(owner + path for path in pages), home + "quarantine", home + "health"):
        page.goto(address)
        unlabelled = (
            "[...document.querySelectorAll('input:not([type=hidden]),select')].filter(e => !e.labels.length).length"
        )
        assert page.evaluate(unlabelled) == 0, address
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(served: Any, page: Any, scheme: str) -> None:
    inspector = served()
    page.emulate_media(color_scheme=scheme)
    page.goto(inspector.entrance)
    page.wait_for_url(inspector.home)
    home = page.url
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()
    owner = page.url
    for address in (
        owner,
        owner + "context",
        owner + "receipts",
        owner + "actions",
        home + "quarantine",
        home + "health",
    ):
        page.goto(address)
        assert page.evaluate(CONTRAST) >= 4.5, address


# The least contrast of any text with what lies below it, by the formula of the accessibility guidelines.
CONTRAST = """() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (c) => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  let least = 21;
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.getClientRects().length || ["SCRIPT", "OPTION"].includes(element.tagName)) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(ground(element))];
    least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return least;
}"""


def test_another_page_in_the_same_browser_gets_nothing(served: Any, page: Any, browser: Any) -> None:
    inspector, other = served(), served()
    page.goto(inspector.entrance)
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()
    owner = page.url
    stranger = page.context.new_page()
    stranger.goto(other.entrance)
    stranger.wait_for_url(other.home)
    status = stranger.evaluate(
        "url => fetch(url, {method: 'POST', credentials: 'include'}).then(() => 'sent', () => 'refused')",
        owner + "do/forget",
    )
    assert status == "refused"
    again = browser.new_context().new_page()
    assert again.goto(inspector.entrance).status == 403
    assert again.goto(owner).status == 403


def test_a_program_on_another_port_gets_neither_the_cookie_nor_an_address(
    served: Any, page: Any, another_program: Any
) -> None:
    inspector, program = served(), another_program()
    page.goto(inspector.entrance)
    page.wait_for_url(inspector.home)
    home = page.url
    page.evaluate("url => { location.href = url }", program.address)
    page.wait_for_url(program.address + "/")
    assert program.requests
    for _, headers in program.requests:
        assert "cookie" not in headers
        assert "referer" not in headers
    # A page of it reads nothing either, not even if it knew an address.
    stranger = page.context.new_page()
    stranger.goto(program.address)
    outcome = stranger.evaluate(READING, home)
    assert outcome == {"fetched": "refused", "framed": "refused", "opened": "refused"}


# What a page may try with an address: to fetch it, to frame it, and to open it and look inside.
READING = """async (url) => {
  const told = (text) => text && text.includes("ada") ? "read" : "refused";
  const fetched = await fetch(url, {credentials: "include"}).then(r => r.text()).then(told, () => "refused");
  const frame = document.createElement("iframe");
  frame.src = url;
  const loaded = new Promise(done => { frame.onload = done; setTimeout(done, 3000); });
  document.body.append(frame);
  await loaded;
  const look = (open) => { try { return told(open().body.textContent); } catch { return "refused"; } };
  const framed = look(() => frame.contentWindow.document);
  const opened = window.open(url);
  await new Promise(done => setTimeout(done, 1000));
  return {fetched, framed, opened: look(() => opened.document)};
}"""


def test_a_page_on_another_port_changes_nothing(served: Any, page: Any, another_program: Any) -> None:
    inspector, program = served(), another_program()
    page.goto(inspector.entrance)
    page.get_by_role("link", name="grace").click()
    page.locator(".entry").first.wait_for()
    owner = page.url
    stranger = page.context.new_page()
    stranger.goto(program.address)
    with stranger.expect_navigation() as posted:
        stranger.evaluate(
            """action => {
              const form = Object.assign(document.createElement("form"), {method: "post", action});
              form.append(Object.assign(document.createElement("input"), {name: "typed", value: "grace"}));
              document.body.append(form);
              form.submit();
            }""",
            owner + "do/forget",
        )
    assert posted.value.status == 403
    assert inspector.call(lambda store: store.count(metadata=MemoryMetadata(user_id="grace"))) == 1


def test_cookies_of_another_program_lock_nothing(served: Any, page: Any, another_program: Any) -> None:
    inspector = served()
    name = f"memoranda_inspector_{inspector.address.rpartition(':')[2]}"
    program = another_program(f"{name}=theirs; Path=/", 'quoted="a; Path=/', "odd=Zoë; Path=/", "[]; Path=/")
    page.goto(program.address)
    page.goto(inspector.entrance)
    page.wait_for_url(inspector.home)
    home = page.url
    page.goto(program.address)
    assert page.goto(home).status == 200
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()


def test_pages_are_reloaded_gone_back_to_and_opened_in_another_tab(served: Any, page: Any) -> None:
    inspector = served()
    page.goto(inspector.entrance)
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()
    page.reload()
    page.locator(".entry").first.wait_for()
    link = page.get_by_role("link", name="What the model gets")
    address = link.evaluate("link => link.href")
    link.click(modifiers=["Control"])
    # The browser itself is asked: Playwright sometimes takes a tab that a click opened for empty, whatever it shows.
    tabs = page.context.browser.new_browser_cdp_session()
    for _ in range(100):
        opened = tabs.send("Target.getTargets")["targetInfos"]
        titles = [tab["title"] for tab in opened if tab["url"] == address]
        if titles == ["What the model gets · memoranda"]:
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail(f"The other tab does not show what the model gets: {titles}")
    page.go_back()
    page.get_by_role("link", name="grace").wait_for()
    typed = page.context.new_page()
    typed.goto(address)
    typed.locator("#payload-A").wait_for()


def test_the_used_token_and_the_terminals_address_lead_nowhere(served: Any, page: Any) -> None:
    inspector = served()
    page.goto(inspector.entrance)
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()
    for address in (inspector.entrance, inspector.address, inspector.address + "/health"):
        # The page fails for what its console complains of, and these are refused with good reason.
        assert page.context.request.get(address).status == 403


def test_items_of_odd_ids_are_opened_and_an_export_is_saved(served: Any, page: Any) -> None:
    odd = ["a/b", "..", "/", "%2F", "?#", " a ", "a\nb", "x" * 1000]

    async def prepare(store: Store) -> None:
        owner = MemoryMetadata(user_id=" odd\n")
        await store.add_many(
            HumanMemory(id=item_id, content=f"said {n}", metadata=owner) for n, item_id in enumerate(odd)
        )

    inspector = served(prepare=prepare)
    page.goto(inspector.entrance)
    page.get_by_role("link", name="⟨U+0020⟩odd␊").click()
    for number, item_id in enumerate(odd):
        page.locator(f".entry:has-text('said {number}')").get_by_role("link", name="Details of this item").click()
        page.locator("#fields").wait_for()
        assert json.loads(page.locator("#fields").text_content())["id"] == item_id
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Delete it").click()
        page.get_by_role("button", name="Undo").click()
        page.locator("text=One item is back").wait_for()
        page.get_by_role("link", name="Conversation", exact=True).click()
    page.get_by_role("link", name="Actions").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the file").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["id"] for line in lines[1:-1]} == set(odd)
    page.locator(".danger").get_by_role("button").click()
    page.get_by_label("Type").fill("⟨U+0020⟩odd␊")
    page.get_by_role("button", name="Erase for good").click()
    page.locator("text=Nothing is left").wait_for()


def test_no_script_reads_the_cookie_and_none_is_kept(served: Any, page: Any) -> None:
    inspector = served()
    page.goto(inspector.entrance)
    page.wait_for_url(inspector.home)
    assert page.evaluate("document.cookie") == ""
    (cookie,) = page.context.cookies()
    assert inspector.address + cookie["path"] == page.url
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert not any(word in kept for word in ("ada", "seat", "Porto"))
