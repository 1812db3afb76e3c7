// One event: what it is, what was recorded, and the hashes that it hangs on.
import { h, inert } from "./dom.js";
import { words } from "./event_list.js";
import { shownLane } from "./lanes.js";
import { duration, moment, prettyBlock } from "./pretty.js";

export function inspected(run, seq, goTo) {
  const link = run.link(seq);
  const broken = run.bad.get(seq);
  const content = run.content(seq);
  return h(
    "article",
    { class: "inspected", "aria-label": `Event ${seq}` },
    h("h2", {}, `${seq} · ${words(run.kind(seq))}`, run.label(seq) ? ` · ${inert(run.label(seq))}` : ""),
    broken ? h("p", { class: "notice bad" }, `Broken: ${broken}`) : null,
    h("dl", { class: "facts" }, ...rows(run, seq, link, goTo)),
    content === null
      ? h("p", { class: "soft" }, "This content was erased. Its link stays, so the chain is whole.")
      : prettyBlock(content, `Content of event ${seq}`),
  );
}

function rows(run, seq, link, goTo) {
  if (!link) return row("link", "could not be read");
  const cause = link.parent === null ? [] : row("caused by", jump(link.parent, goTo));
  const took = run.took(seq);
  return [
    ...row("time", `${moment(link.time)} UTC`),
    ...(took === null ? [] : row("took", duration(took))),
    ...row("lane", inert(shownLane(String(link.lane)))),
    ...(link.key === null ? [] : row("key", inert(link.key))),
    ...cause,
    ...row("hash", h("code", {}, link.hash)),
  ];
}

const row = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

function jump(seq, goTo) {
  return h("button", { type: "button", class: "link", onclick: () => goTo(seq) }, `event ${seq}`);
}
