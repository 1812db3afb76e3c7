// Values as people read them, in a bounded number of characters.
import { h, inert } from "./dom.js";
import { Numeral } from "./values.js";

const ROOM = 60_000;
const LINE_ROOM = 110;

/** Indented JSON. Stops when the room is used up. */
export function pretty(value, room = ROOM) {
  const parts = [];
  const left = { room };
  write(value, "", parts, left);
  return { text: parts.join(""), cut: left.room <= 0 };
}

function put(parts, left, text) {
  if (left.room <= 0) return;
  parts.push(text.length > left.room ? text.slice(0, left.room) : text);
  left.room -= text.length;
}

function write(value, indent, parts, left) {
  if (left.room <= 0) return;
  if (value instanceof Map || Array.isArray(value)) writeAll(value, indent, parts, left);
  else put(parts, left, value instanceof Numeral ? value.spelling : JSON.stringify(value));
}

function writeAll(value, indent, parts, left) {
  const [open, close] = value instanceof Map ? "{}" : "[]";
  const entries = value instanceof Map ? value : value.map((one) => [null, one]);
  put(parts, left, open);
  let first = true;
  for (const [name, inner] of entries) {
    if (left.room <= 0) return;
    put(parts, left, `${first ? "" : ","}\n${indent}  ${name === null ? "" : `${JSON.stringify(name)}: `}`);
    first = false;
    write(inner, `${indent}  `, parts, left);
  }
  put(parts, left, first ? close : `\n${indent}${close}`);
}

/** One line about a value. */
export function gist(value, room = LINE_ROOM) {
  const { text } = pretty(value, room * 3);
  const line = inert(text.replace(/\s+/g, " ").replace(/^"|"$/g, ""));
  return line.length > room ? `${line.slice(0, room - 1)}…` : line;
}

/** A value in full, or its beginning with a button for more. */
export function prettyBlock(value, label) {
  const { text, cut } = pretty(value);
  const block = h("pre", { class: "value", tabindex: "0", "aria-label": label }, inert(text));
  if (!cut) return block;
  const more = h("button", { type: "button" }, "Show more of it");
  more.addEventListener("click", () => {
    const rest = pretty(value, ROOM * 50);
    block.textContent = inert(rest.text) + (rest.cut ? "\n… (cut here: read it with `onrecord import`)" : "");
    more.remove();
  });
  return h("div", { class: "stack" }, block, h("p", {}, more));
}

export const count = (number) => number.toLocaleString("en");

export function moment(microseconds) {
  if (microseconds === null) return "";
  const date = new Date(microseconds / 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().replace("T", " ").slice(0, 23);
}

export function duration(microseconds) {
  if (microseconds === null) return "";
  if (microseconds < 1000) return `${microseconds} µs`;
  if (microseconds < 1_000_000) return `${(microseconds / 1000).toFixed(1)} ms`;
  if (microseconds < 120_000_000) return `${(microseconds / 1_000_000).toFixed(2)} s`;
  return `${(microseconds / 60_000_000).toFixed(1)} min`;
}
