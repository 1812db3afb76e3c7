// All events in a list of which only what is in view is in the page, however long it is.
import { h, inert } from "./dom.js";
import { duration, gist } from "./pretty.js";

const ROW = 30;
const AROUND = 12;
const TOLD = ["output", "payload", "error", "reason", "value", "resolution", "chunk", "state"];

export class EventList {
  #rows = new Map(); // seq → element
  #chosen = 0;
  #onChoice;

  constructor(run, { onChoice, label = "Events" }) {
    this.run = run;
    this.#onChoice = onChoice;
    this.inner = h("div", { class: "events-inner", role: "presentation", style: { height: `${run.length * ROW}px` } });
    this.element = h("div", { class: "events", role: "listbox", tabindex: "0", "aria-label": label }, this.inner);
    this.element.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()), { passive: true });
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
    this.inner.addEventListener("click", (event) => {
      const row = event.target.closest("[data-seq]");
      if (row) this.choose(Number(row.dataset.seq));
    });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  get chosen() {
    return this.#chosen;
  }

  move(by) {
    this.choose(Math.min(Math.max(this.#chosen + by, 1), this.run.length));
  }

  choose(seq, { quietly = false } = {}) {
    if (!Number.isInteger(seq) || seq < 1 || seq > this.run.length) return;
    this.#chosen = seq;
    this.#show(seq);
    this.draw();
    this.element.setAttribute("aria-activedescendant", `event-${seq}`);
    if (!quietly) this.#onChoice(seq);
  }

  #show(seq) {
    const top = (seq - 1) * ROW;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || clientHeight === 0) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const from = Math.max(1, Math.floor(scrollTop / ROW) - AROUND);
    const to = Math.min(this.run.length, Math.ceil((scrollTop + clientHeight) / ROW) + AROUND);
    for (const [seq, row] of this.#rows) {
      if (seq >= from && seq <= to) continue;
      row.remove();
      this.#rows.delete(seq);
    }
    for (let seq = from; seq <= to; seq += 1) {
      if (!this.#rows.has(seq)) this.#add(seq);
      const row = this.#rows.get(seq);
      row.setAttribute("aria-selected", String(seq === this.#chosen));
    }
  }

  #add(seq) {
    const { run } = this;
    const broken = run.bad.get(seq);
    const row = h(
      "div",
      {
        class: "event", role: "option", id: `event-${seq}`, "data-seq": seq, "data-kind": run.kind(seq),
        "aria-setsize": run.length, "aria-posinset": seq, style: { top: `${(seq - 1) * ROW}px` }, title: broken ?? null,
      },
      h("span", { class: "event-seq" }, String(seq)),
      h("span", { class: "event-mark", "data-mark": broken ? "broken" : mark(run, seq) }, broken ? "✕" : ""),
      h("span", { class: "event-kind" }, words(run.kind(seq))),
      h("span", { class: "event-name" }, inert(run.label(seq))),
      h("span", { class: "event-gist" }, this.#gist(seq)),
      h("span", { class: "event-bar", "aria-hidden": "true" }, bar(run, seq)),
      h("span", { class: "event-took" }, duration(run.took(seq))),
    );
    this.#rows.set(seq, row);
    this.inner.append(row);
  }

  #gist(seq) {
    const outline = this.run.outline(seq);
    if (outline === null) return "(erased)";
    const told = TOLD.find((name) => outline?.get?.(name) !== undefined);
    return told ? gist(outline.get(told)) : "";
  }

  #onKey(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.run.length, End: this.run.length };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.move(steps[event.key]);
  }
}

/** When it was, from the beginning of the run to its end; an answer from its request on. */
function bar(run, seq) {
  const time = run.link(seq)?.time ?? null;
  const [first, last] = run.span;
  if (time === null || first === null || last <= first) return null;
  const took = run.took(seq) ?? 0;
  const share = (microseconds) => Math.min(100, Math.max(0, (microseconds / (last - first)) * 100));
  return h("span", { class: "bar", style: { left: `${share(time - took - first)}%`, width: `${share(took)}%` } });
}

function mark(run, seq) {
  const kind = run.kind(seq);
  if (["ActionFailed", "ActionDenied", "Failed"].includes(kind)) return "failed";
  if (kind === "ActionRequested") return run.effect(seq) === "model_call" ? "model" : "asked";
  if (["ActionSucceeded", "Completed", "WaitResolved", "Resumed"].includes(kind)) return "done";
  return run.isBehaviour(seq) ? "other" : "quiet";
}

/** `ActionRequested` as words. */
export const words = (kind) => kind.replace(/^Action/, "").replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
