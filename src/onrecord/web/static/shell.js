// What every page has: colours, the help, and the way to the search.
import { at, h } from "./dom.js";
import { allKeys, onKey } from "./keys.js";

const root = document.documentElement;

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function otherTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("onrecord-theme", root.dataset.theme);
  } catch {
    // storage may be switched off: then it is for this page alone
  }
}

function showKeys() {
  const rows = allKeys().map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]);
  at("keys-list").replaceChildren(...rows.flat());
  at("keys").showModal();
}

at("theme").addEventListener("click", otherTheme);
at("help").addEventListener("click", showKeys);
onKey("/", "search all runs", () => at("find").focus());
onKey("?", "this help", showKeys);
onKey("t", "light or dark", otherTheme);
onKey("g", "the list of runs", () => location.assign("/"));
onKey("w", "what is waited for", () => location.assign("/waits"));
