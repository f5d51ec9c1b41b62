"""The inspector in a real browser: a whole walk, hostile content, the keyboard alone, and who is let in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import BaseStore
from memoranda_inspector.demo import TRIP

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202egnp.exe \x1b[31mred \"'><svg onload=alert(3)>"


def test_a_whole_walk(served: Any, page: Any, url: str) -> None:
    inspector = served(url)
    page.goto(inspector.entrance)
    page.wait_for_url(inspector.address + "/")
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
    page.locator("text=long-term").first.wait_for()

    page.get_by_role("link", name="Search").click()
    page.wait_for_load_state()
    page.get_by_label("Search").first.fill("window seat")
    page.locator("mark:has-text('seat')").first.wait_for()
    page.locator("dt:has-text('neighbours')").first.wait_for()
    page.locator("summary:has-text('Weights')").click()
    page.get_by_label("before", exact=True).fill("0")
    page.locator("text=ranked with your weights").wait_for()

    page.get_by_role("link", name="Acts").click()
    page.get_by_role("button", name="Dry run").click()
    page.get_by_role("button", name="Ask the model and compact").click()
    page.get_by_role("link", name="To the conversation").click()
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
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete it").click()
    page.get_by_role("button", name="Undo").click()
    page.locator("text=One item is back").wait_for()
    page.get_by_role("link", name="Acts").click()
    page.locator(".danger").get_by_role("button").click()
    page.get_by_label("Type").fill("grace")
    page.get_by_role("button", name="Erase for good").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save the receipt").click()
    assert json.loads(Path(download.value.path()).read_text())["complete"] is True


def test_hostile_content_is_text(served: Any, page: Any) -> None:
    async def prepare(store: BaseStore) -> None:
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
    page.wait_for_url(inspector.address + "/")

    def reach(text: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.evaluate("(document.activeElement.textContent || document.activeElement.id || '').trim()")
            if text in focused:
                return
        raise AssertionError(f"The keyboard does not reach {text!r}.")

    reach("ada")
    page.keyboard.press("Enter")
    page.locator(".entry").first.wait_for()
    reach("To the content")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "What the model gets"
    page.keyboard.press("Enter")
    page.locator("#a_rounds").wait_for()
    page.locator("#a_rounds").focus()
    page.keyboard.press("Home")
    page.locator("text=before the last 0 rounds").first.wait_for()


def test_every_field_has_a_label_and_nothing_is_wider_than_a_phone(served: Any, page: Any) -> None:
    inspector = served()
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(inspector.entrance)
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()
    owner = page.url
    for address in (
        inspector.address + "/",
        owner,
        owner + "context",
        owner + "search",
        owner + "acts",
        inspector.address + "/health",
    ):
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
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()
    owner = page.url
    for address in (owner, owner + "context", owner + "acts", inspector.address + "/health"):
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
    stranger.wait_for_url(other.address + "/")
    status = stranger.evaluate(
        "url => fetch(url, {method: 'POST', credentials: 'include'}).then(() => 'sent', () => 'refused')",
        owner + "do/forget",
    )
    assert status == "refused"
    again = browser.new_context().new_page()
    assert again.goto(inspector.entrance).status == 403
    assert again.goto(owner).status == 403


def test_no_script_reads_the_cookie_and_none_is_kept(served: Any, page: Any) -> None:
    inspector = served()
    page.goto(inspector.entrance)
    page.wait_for_url(inspector.address + "/")
    assert page.evaluate("document.cookie") == ""
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    page.get_by_role("link", name="ada").click()
    page.locator(".entry").first.wait_for()
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert not any(word in kept for word in ("ada", "seat", "Porto"))
