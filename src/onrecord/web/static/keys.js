// Keys of a page: each is registered once with what it does, and the help shows them all.

const known = new Map();

export function onKey(key, what, act) {
  known.set(key, { what, act });
}

export function allKeys() {
  return [...known].map(([key, { what }]) => [key, what]);
}

function isTyping(target) {
  return target.closest("input:not([type=range]), textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.target instanceof Element && isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const found = known.get(event.key);
  if (!found) return;
  if (found.act(event) !== false) event.preventDefault(); // false: it means nothing here, and is left to the browser
});
