// What HTML alone cannot do: show a slider's number while it moves, and copy a text.
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
