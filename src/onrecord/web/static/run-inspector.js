// The event that is looked at: its value, what is stored, the difference to the call before, and the state at it.
import { Problem, get } from "./api.js";
import { at, h, inert } from "./dom.js";
import { isRequest } from "./run-axis.js";
import { context } from "./run-context.js";
import { shownLane } from "./lanes.js";
import { duration, size, titled } from "./run-words.js";
import { download, tree } from "./tree.js";

export const PARTS = [["value", "Value"], ["context", "Context"], ["difference", "Difference"], ["state", "State"], ["raw", "Raw"]];
const SETTLING = 90; // milliseconds: whoever drags the slider does not ask for every event on the way

export class Inspector {
  constructor(rows, { path, address, go, onPart }) {
    Object.assign(this, { rows, path, address, go, onPart, part: "value", seq: null, details: null });
    this.box = at("side");
  }

  show(seq, part = this.part) {
    this.part = PARTS.some(([name]) => name === part) ? part : "value";
    if (seq === this.seq) return this.draw();
    this.seq = seq;
    this.asking?.abort();
    clearTimeout(this.timer);
    if (seq === null) return undefined;
    this.timer = setTimeout(() => this.load(seq), this.details ? SETTLING : 0);
    return undefined;
  }

  async load(seq) {
    this.asking = new AbortController();
    try {
      this.details = await get(`${this.path}/events/${seq}/details`, { signal: this.asking.signal });
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.details = { seq, problem };
    }
    this.draw();
  }

  draw() {
    const found = this.details;
    if (!found || found.seq !== this.seq) return;
    if (found.problem) {
      this.box.replaceChildren(said(found.problem));
      return;
    }
    if (!this.body?.isConnected) this.build();
    this.head.replaceChildren(...this.heading(found));
    const isCall = (this.rows.row(found.seq) ?? found).effect === "model_call";
    this.buttons.get("context").hidden = !isCall;
    const part = this.part === "context" && !isCall ? "value" : this.part; // it comes back with the next model call
    for (const [name, button] of this.buttons) button.setAttribute("aria-selected", name === part);
    for (const [name, button] of this.buttons) button.tabIndex = name === part ? 0 : -1;
    this.body.setAttribute("aria-labelledby", `part-${part}`);
    this[part](found);
  }

  build() {
    this.head = h("div", { class: "side-head" });
    this.buttons = new Map(PARTS.map(([name, text]) => [name, h("button", {
      type: "button", role: "tab", id: `part-${name}`, "aria-controls": "part", onclick: () => this.choose(name),
    }, text)]));
    const tabs = h("div", { class: "tabs small", role: "tablist", "aria-label": "Parts of the event" }, ...this.buttons.values());
    tabs.addEventListener("keydown", (event) => this.walk(event));
    this.body = h("div", { class: "part", id: "part", role: "tabpanel", tabindex: "0" });
    this.box.replaceChildren(this.head, tabs, this.body);
  }

  choose(name) {
    this.part = name;
    this.onPart(name);
    this.draw();
  }

  walk(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const names = PARTS.map(([name]) => name).filter((name) => !this.buttons.get(name).hidden);
    this.choose(names[(names.indexOf(this.part) + by + names.length) % names.length]);
    this.buttons.get(this.part).focus();
    event.preventDefault();
  }

  heading(found) {
    const row = this.rows.row(found.seq) ?? found;
    const [title, kind] = titled({ ...row, kind: found.kind });
    const to = (seq, text) => h("a", { href: `${this.address}?seq=${seq}`, onclick: (event) => { event.preventDefault(); this.go(seq); } }, text);
    const facts = [
      ["Event", `${found.seq} · ${found.kind}`], ["Lane", shownLane(found.lane)], ["Time", found.time ?? "–"],
      isRequest(row) ? ["Took", row.outcome ? `${duration(row.took_us)}, ${row.outcome}` : "no answer yet"] : null,
      found.key ? ["Key", found.key] : null, row.model ? ["Model", row.model] : null,
    ].filter(Boolean);
    const links = [
      found.request ? to(found.request, `its request, ${found.request}`) : null, found.answer ? to(found.answer, `its answer, ${found.answer}`) : null,
      found.before ? to(found.before, `the call before, ${found.before}`) : null,
    ].filter(Boolean);
    return [
      h("h2", {}, inert(title), " ", kind ? h("span", { class: "soft" }, inert(kind)) : ""),
      found.damage ? h("p", { class: "notice bad" }, inert(found.damage)) : null,
      found.erased ? h("p", { class: "notice" }, "The content of this event was erased; the chain is whole without it.") : null,
      h("dl", { class: "facts small" }, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, inert(value))])),
      links.length ? h("p", { class: "row tight small" }, links) : null,
    ].filter(Boolean);
  }

  value(found) {
    const files = found.artifacts.map((one) => h("li", {}, download(one)));
    const whole = `/api/v1${this.path}/events/${found.seq}`;
    this.body.replaceChildren(...[
      found.cut ? h("p", { class: "notice small" }, "Long parts are cut short. ", h("a", { href: whole, download: `event-${found.seq}.json` }, "The whole event")) : null,
      files.length ? h("div", {}, h("h3", {}, "Artifacts"), h("ul", { class: "files" }, files)) : null,
      found.content === null ? h("p", { class: "soft" }, "There is nothing to show.") : tree(found.content),
    ].filter(Boolean));
  }

  raw(found) {
    const { stored } = found;
    const hashes = [["Hash", found.hash], ["Previous", found.previous], ["Parent", found.parent], ["Id", found.id], ["Key", found.key], ["Commitment", found.commitment],
      ["Salt", found.salt], ["Match digest", found.match], ["Prefix digest", found.prefix]];
    const told = hashes.filter(([, value]) => value !== null && value !== undefined);
    this.body.replaceChildren(
      h("dl", { class: "facts small" }, told.flatMap(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, inert(value))])),
      h("h3", {}, "Link, as it is stored"), h("pre", { class: "stored" }, inert(stored.link)),
      h("h3", {}, `Content, as it is stored${stored.content_bytes === null ? "" : ` (${size(stored.content_bytes)})`}`),
      h("pre", { class: "stored" }, stored.content === null ? "not readable, or erased" : inert(stored.content), stored.cut ? "…" : ""),
    );
  }

  async context(found) {
    const { seq } = found;
    if (!found.seen) {
      this.body.replaceChildren(h("p", { class: "soft" }, "Reading…"));
      try {
        found.seen = await get(`${this.path}/context/${seq}?cut=true`);
      } catch (problem) {
        found.seen = { problem };
      }
      if (this.seq !== seq || this.part !== "context") return;
    }
    this.body.replaceChildren(...(found.seen.problem ? [said(found.seen.problem)] : context(found.seen)));
  }

  async difference(found) {
    const { seq } = found;
    if (!found.before) {
      this.body.replaceChildren(h("p", { class: "soft" }, "No earlier call of the same name stands near enough to compare it with."));
      return;
    }
    if (!found.differs) {
      this.body.replaceChildren(h("p", { class: "soft" }, "Comparing…"));
      try {
        found.differs = await get(`${this.path}/events/${seq}/difference`);
      } catch (problem) {
        found.differs = { problem };
      }
      if (this.seq !== seq || this.part !== "difference") return;
    }
    const told = found.differs;
    if (told.problem) {
      this.body.replaceChildren(said(told.problem));
      return;
    }
    const summary = told.equal ? `The same as event ${told.before}.` : `${told.total} ${told.total === 1 ? "difference" : "differences"} to event ${told.before}`;
    this.body.replaceChildren(h("p", { class: "soft" }, summary), h("dl", { class: "changes" }, told.differences.flatMap(change)));
  }

  async state(found) {
    const { seq } = found;
    const known = this.known;
    if (!known || seq < known.from || seq > known.to) {
      this.body.setAttribute("aria-busy", "true");
      try {
        const told = await get(`${this.path}/state?at=${seq}&cut=true`);
        this.known = { from: told.set_by ?? 0, to: seq, told };
      } catch (problem) {
        this.known = { from: seq, to: seq, problem };
      }
      this.body.removeAttribute("aria-busy");
      if (this.seq !== seq || this.part !== "state") return;
    }
    const { told, problem } = this.known;
    if (problem) {
      this.body.replaceChildren(said(problem));
      return;
    }
    const by = told.set_by === null ? "as the run began" : `set by event ${told.set_by}`;
    this.body.replaceChildren(
      h("p", { class: "soft" }, `After event ${seq}, ${by}`),
      told.cut ? h("p", { class: "notice small" }, "Long parts are cut short. ", h("a", { href: `/api/v1${this.path}/state?at=${seq}`, download: `state-${seq}.json` }, "The whole state")) : "",
      told.state === null ? h("p", {}, "The agent has no state yet.") : tree(told.state),
      h("p", { class: "mono soft small" }, told.state_hash),
    );
  }
}

function change(one) {
  const words = one.words?.map((run) => h("span", { class: { added: "word-added", removed: "word-removed" }[run.kind] ?? "" }, inert(run.text)));
  const [before, after] = one.left_out ?? [0, 0];
  const text = words
    ? [before ? h("span", { class: "soft" }, `… ${before} characters … `) : null, ...words, after ? h("span", { class: "soft" }, ` … ${after} characters …`) : null, one.goes_on ? h("span", { class: "soft" }, " and more") : null]
    : [one.was === undefined ? null : h("del", { class: "word-removed" }, inert(one.was)), " ", one.is === undefined ? null : h("ins", { class: "word-added" }, inert(one.is))];
  return [h("dt", { class: "mono" }, inert(one.path || "/"), h("span", { class: "soft" }, ` ${one.kind}`)), h("dd", {}, text.filter(Boolean))];
}

export function said(problem) {
  const hint = problem instanceof Problem ? problem.hint : "";
  return h("p", { class: "notice bad" }, inert(problem.message), hint ? ` ${inert(hint)}` : "");
}
