// What HTML alone cannot do: show a slider's number while it moves, copy a text, and send what was changed early.
"use strict";

document.addEventListener("input", (event) => {
  const shown = event.target.dataset && event.target.dataset.shows;
  if (shown) document.getElementById(shown).textContent = event.target.value;
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  const said = button.textContent;
  const told = (text) => {
    button.textContent = text;
    setTimeout(() => { button.textContent = said; }, 1500);
  };
  navigator.clipboard.writeText(source.textContent).then(
    () => told("Copied"),
    () => {
      // Without leave to use the clipboard the text is at least selected.
      const range = document.createRange();
      range.selectNodeContents(source);
      const selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      told("Selected");
    },
  );
});

// A file cannot be put into the page: such a button sends its form the plain way.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-plain]");
  if (!button) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const form = button.form;
  const before = form.action;
  form.action = button.formAction;
  form.submit();
  form.action = before;
}, true);

// What was changed before the scripts were there, or put back by the browser, is sent as soon as they are.
document.addEventListener("htmx:load", (event) => {
  if (event.target !== document.body) return;
  for (const form of document.querySelectorAll("form[hx-trigger]")) {
    const changed = [...form.elements].find(isChanged);
    if (changed) changed.dispatchEvent(new Event("input", { bubbles: true }));
  }
});

function isChanged(field) {
  if (field.localName === "select") {
    const first = [...field.options].findIndex((option) => option.defaultSelected);
    return field.selectedIndex !== Math.max(first, 0);
  }
  if (field.localName !== "input") return false;
  return field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
}
