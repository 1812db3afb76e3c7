// Where two events differ, side by side: texts by words, other values whole, and the JSON patch between them.
import { h, inert } from "./dom.js";

const SIGNS = { changed: "≠", added: "+", removed: "−", moved: "↕" };
const WORDS = { changed: "changed", added: "only in the second run", removed: "only in the first run", moved: "moved" };

/** `told` is what `/events/SEQ/diff/…` answers. */
export function differenceView(told) {
  if (told.erased) return h("p", { class: "soft" }, "A content was erased: whether the two are the same is unknown.");
  const left = told.total - told.differences.length;
  return h(
    "div",
    { class: "differences" },
    told.differences.length === 0 ? h("p", { class: "soft" }, "What counts of the two is the same.") : null,
    ...told.differences.map(one),
    left > 0 ? h("p", { class: "soft" }, `… and ${left.toLocaleString("en")} more differences in this event`) : null,
    patchView(told),
  );
}

function one(difference) {
  const { path, kind } = difference;
  const elsewhere = difference.actual_path ? ` → ${difference.actual_path}` : "";
  return h(
    "section",
    { class: "difference", "data-kind": kind },
    h(
      "h3",
      {},
      h("span", { class: "difference-sign", "aria-hidden": "true" }, SIGNS[kind] ?? "≠"),
      h("code", {}, inert((path || "(all of it)") + elsewhere)),
      h("span", { class: "soft" }, WORDS[kind] ?? kind),
    ),
    h("div", { class: "pair" }, side(difference, "was", "removed"), side(difference, "is", "added")),
  );
}

function side(difference, member, mark) {
  const title = member === "was" ? "first run" : "second run";
  const shown = difference.words ? marked(difference, mark) : value(difference[member], mark);
  return h("div", { class: "half", "data-side": member }, h("span", { class: "half-title soft" }, title), shown);
}

function value(text, mark) {
  if (text === undefined) return h("p", { class: "soft nothing" }, "nothing");
  return h("pre", {}, h(mark === "added" ? "ins" : "del", { class: `word-${mark}` }, inert(text)));
}

/** One side of a text: what is the same as it is, what only this side has marked. */
function marked(difference, mark) {
  const [before, after] = difference.left_out ?? [0, 0];
  const tag = mark === "added" ? "ins" : "del";
  const runs = difference.words
    .filter((run) => run.kind === "equal" || run.kind === mark)
    .map((run) => (run.kind === "equal" ? inert(run.text) : h(tag, { class: `word-${mark}` }, inert(run.text))));
  return h("pre", {}, left(before), ...runs, difference.goes_on ? "…" : left(after));
}

function left(characters) {
  if (!characters) return null;
  return h("span", { class: "left-out" }, `[${characters.toLocaleString("en")} characters the same] `);
}

function patchView({ patch, patch_steps: steps }) {
  if (!patch || patch.length === 0) return null;
  const shown = JSON.stringify(patch, null, 2);
  const rest = steps > patch.length ? `\n… ${(steps - patch.length).toLocaleString("en")} more steps` : "";
  return h(
    "details",
    { class: "patch" },
    h("summary", {}, `JSON patch (RFC 6902), ${steps === 1 ? "one step" : `${steps.toLocaleString("en")} steps`}`),
    h("pre", { tabindex: "0", "aria-label": "JSON patch" }, inert(shown.slice(0, 100_000) + rest)),
  );
}
