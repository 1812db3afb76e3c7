// A value as a tree that opens where it is clicked. Parts come into being when they are opened: values may be large.
import { h, inert } from "./dom.js";
import { size } from "./run-words.js";

const OPEN_AT_FIRST = 4;
const FEW = 24;
const SMALL = 60; // parts of a value that is shown whole, however deep it goes
const DEEPEST = 16;
const LONG = 600;

export function tree(value, depth = 0, small = isSmall(value)) {
  if (value === null || typeof value !== "object") return leaf(value);
  const artifact = Object.keys(value).length === 1 && value.$artifact;
  if (artifact && typeof artifact.digest === "string") return download(artifact);
  const entries = Array.isArray(value) ? value.map((one, index) => [index, one]) : Object.entries(value);
  if (!entries.length) return h("span", { class: "soft" }, Array.isArray(value) ? "[]" : "{}");
  const list = h("dl", { class: "tree" });
  const fill = () => {
    if (list.childElementCount) return;
    list.append(...entries.flatMap(([name, one]) => [h("dt", {}, inert(name)), h("dd", { class: isLong(one, depth) ? "below" : null }, tree(one, depth + 1, small))]));
  };
  const open = depth === 0 || small || (depth < OPEN_AT_FIRST && entries.length <= FEW);
  if (depth === 0) {
    fill();
    return list;
  }
  const count = `${entries.length} ${Array.isArray(value) ? "item" : "member"}${entries.length === 1 ? "" : "s"}`;
  const box = h("details", { class: "branch", open }, h("summary", {}, h("span", { class: "soft" }, count)), list);
  if (open) fill();
  else box.addEventListener("toggle", fill, { once: true });
  return box;
}

/** Looks at no more of it than that. */
function isSmall(value) {
  let left = SMALL;
  const fits = (one, depth) => {
    left -= 1;
    if (one === null || typeof one !== "object") return left >= 0;
    return left >= 0 && depth < DEEPEST && Object.values(one).every((part) => fits(part, depth + 1));
  };
  return fits(value, 0);
}

/** A text that would be a column of single words far to the right. */
const isLong = (value, depth) => depth > 2 && typeof value === "string" && value.length > 24;

function leaf(value) {
  if (typeof value !== "string") return h("span", { class: "literal" }, String(value));
  if (value.length <= LONG) return h("span", { class: "text" }, inert(value));
  const rest = h("span", {}, "…");
  const more = h("button", { type: "button", class: "quiet small", onclick: () => { rest.textContent = inert(value.slice(LONG)); more.remove(); } }, `${size(value.length)}: show all`);
  return h("span", { class: "text" }, inert(value.slice(0, LONG)), rest, " ", more);
}

export function download({ digest, bytes, size: length }) {
  const many = bytes ?? length;
  const about = typeof many === "number" ? ` (${size(many)})` : "";
  return h("a", { href: `/api/v1/artifacts/${encodeURIComponent(digest)}`, download: true, class: "mono" }, inert(`${digest.slice(0, 19)}…${about}`));
}
