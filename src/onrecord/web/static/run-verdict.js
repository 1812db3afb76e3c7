// The verification badge: by itself for runs that are verified in a moment, by a click for the others, with progress.
import { at, h, inert } from "./dom.js";
import { amount } from "./run-words.js";

const BY_ITSELF = 2_000;

export class Verdict {
  constructor(rows, { path, address, go }) {
    Object.assign(this, { rows, path, address, go, report: null });
    this.badge = at("verdict");
    this.box = at("verification");
    this.badge.addEventListener("click", () => this.pressed());
  }

  begin() {
    const grows = this.rows.standing.status === "running";
    if (this.rows.total && this.rows.total <= BY_ITSELF && !grows) this.verify();
    else this.say("", "verify");
  }

  pressed() {
    if (!this.report && !this.source) this.verify();
    this.box.hidden = !this.box.hidden;
    this.badge.setAttribute("aria-expanded", !this.box.hidden);
    this.draw();
  }

  verify(deep = false) {
    this.source?.close();
    this.report = null;
    this.say("", "verifying…");
    const source = new EventSource(`/api/v1${this.path}/verifying${deep ? "?deep=true" : ""}`);
    this.source = source;
    source.addEventListener("message", (message) => {
      const { done, total } = JSON.parse(message.data);
      this.say("", `verifying ${Math.floor((done / Math.max(1, total)) * 100)} %`);
    });
    source.addEventListener("end", (message) => this.ended(source, JSON.parse(message.data)));
    source.addEventListener("problem", (message) => this.failed(source, JSON.parse(message.data).error.message));
    source.addEventListener("error", () => this.failed(source, "the server does not answer"));
  }

  ended(source, report) {
    source.close();
    this.source = null;
    this.report = report;
    const counts = `${amount(report.verified)} of ${amount(report.events)}`;
    if (!report.events) this.say("", "nothing to verify");
    else if (report.valid) this.say("valid", `verified ${counts}`);
    else this.say("broken", `broken at ${report.first_bad_seq === 0 ? "the header" : report.first_bad_seq}`);
    this.draw();
  }

  failed(source, message) {
    source.close();
    if (this.source !== source) return;
    this.source = null;
    this.say("", "not verified");
    this.badge.title = inert(message);
  }

  say(status, text) {
    this.badge.dataset.status = status;
    this.badge.textContent = text;
  }

  /** The run has grown since. */
  outdated() {
    if (this.report?.valid && this.rows.total > this.report.events) this.say("valid", `verified to ${amount(this.report.events)}`);
  }

  draw() {
    const told = this.report;
    if (!told) {
      this.box.replaceChildren(h("p", { class: "soft" }, "Every link and every content is hashed again."));
      return;
    }
    const link = (seq) => h("a", { href: `${this.address}?seq=${seq}`, onclick: (event) => { event.preventDefault(); this.go(seq); } }, `event ${seq}`);
    const problems = told.problems.map((one) => h("li", {}, one.seq > 0 ? link(one.seq) : "the header", `: ${inert(one.message)} `, h("code", {}, inert(one.code))));
    const facts = [["Head", told.head], ["Shared values", amount(told.nodes)], ["Artifacts", amount(told.artifacts)], ["Snapshots", amount(told.snapshots)],
      ["Erased", amount(told.erased.length)], ["Match digests", told.deep ? "recomputed" : "taken as they are"]];
    this.box.replaceChildren(...[
      h("p", {}, h("strong", {}, inert(told.line))),
      problems.length ? h("ul", {}, problems) : null,
      h("dl", { class: "facts small" }, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, inert(value))])),
      told.notes.length ? h("ul", { class: "soft" }, told.notes.map((note) => h("li", {}, inert(note)))) : null,
      h("p", { class: "row tight" }, h("button", { type: "button", onclick: () => this.verify() }, "Again"), h("button", { type: "button", onclick: () => this.verify(true) }, "Recompute the match digests, too")),
    ].filter(Boolean));
  }
}
