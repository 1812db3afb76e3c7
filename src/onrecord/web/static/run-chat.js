// The model calls of a run as a conversation. Pages are put behind each other; only so many stay.
import { get } from "./api.js";
import { at, h, inert } from "./dom.js";
import { said } from "./run-inspector.js";
import { shownLane } from "./lanes.js";
import { amount, cost, duration } from "./run-words.js";
import { tree } from "./tree.js";

const CALLS = 20;
const PAGES_KEPT = 6;

export class Chat {
  constructor({ path, address, go }) {
    Object.assign(this, { path, address, go, pages: [], started: false });
    this.box = at("view-conversation");
  }

  /** Begins with the last call up to `seq`. */
  start(seq) {
    if (this.started) return;
    this.started = true;
    this.list = h("div", { class: "chat" });
    this.earlier = h("p", { class: "row" });
    this.later = h("p", { class: "row" });
    this.box.replaceChildren(h("h2", { class: "unseen" }, "Conversation"), this.earlier, this.list, this.later);
    this.load(seq ? { at: seq } : { from: 1 }, this.later);
  }

  async load(where, place) {
    place.replaceChildren(h("span", { class: "soft" }, "Reading…"));
    try {
      let found = await this.page(where);
      // Where few events are model calls, a page may be empty although others follow.
      while (!found.calls.length && !where.before && found.next) found = await this.page({ from: found.next });
      while (!found.calls.length && where.before && found.from > 1) found = await this.page({ before: found.from });
      this.put(found, Boolean(where.before));
    } catch (problem) {
      place.replaceChildren(said(problem));
    }
  }

  page(where) {
    return get(`${this.path}/conversation?${new URLSearchParams({ ...where, limit: CALLS })}`);
  }

  put(found, above) {
    const calls = found.calls.filter((call) => !this.list.querySelector(`[data-seq="${call.seq}"]`));
    const page = h("div", { class: "chat-page" }, calls.map((call) => this.call(call)));
    Object.assign(page, { first: found.from, next: found.next });
    this.pages[above ? "unshift" : "push"](page);
    this.list[above ? "prepend" : "append"](page);
    if (this.pages.length > PAGES_KEPT) this.pages[above ? "pop" : "shift"]().remove();
    const { first } = this.pages[0];
    const { next } = this.pages.at(-1);
    this.earlier.replaceChildren(first > 1 ? h("button", { type: "button", onclick: () => this.load({ before: first }, this.earlier) }, "Earlier calls") : "");
    const end = this.list.querySelector(".call") ? "That is all." : "No model was asked in this run.";
    this.later.replaceChildren(next === null ? h("span", { class: "soft" }, end) : h("button", { type: "button", onclick: () => this.load({ from: next }, this.later) }, "Later calls"));
  }

  call(call) {
    const link = (seq, text) => h("a", { href: `${this.address}?seq=${seq}`, onclick: (event) => { event.preventDefault(); this.go(seq); } }, text);
    const used = call.used;
    const about = [call.model, call.lane === "main" ? null : `lane ${shownLane(call.lane)}`, duration(call.took_us), used ? `${amount(used.tokens)} tokens` : null, used ? cost(used.cost) : null];
    const same = call.messages.length || call.own_answer ? `${amount(call.repeated)} earlier messages, as in event ${call.before}${call.own_answer ? ", and its answer" : ""}` : `Asked the same as in event ${call.before}`;
    const repeated = call.repeated ? h("p", { class: "soft small" }, same) : null;
    const dropped = call.dropped ? h("p", { class: "notice small" }, `${amount(call.dropped)} messages of event ${call.before} are not there any more, or were changed`) : null;
    return h("article", { class: "call", "data-row": true, "data-seq": call.seq, "aria-label": `Model call, event ${call.seq}` },
      h("header", { class: "row tight small soft" }, link(call.seq, `event ${call.seq}`), h("b", {}, inert(call.name ?? "")), inert(about.filter(Boolean).join(" · "))),
      call.damage ? h("p", { class: "notice bad" }, inert(call.damage)) : null, call.erased ? h("p", { class: "notice" }, "erased") : null,
      dropped, repeated, call.messages.map((one) => message(one)), answer(call));
  }
}

function answer(call) {
  if (call.error !== null && call.error !== undefined) return h("div", { class: "message bad" }, h("p", { class: "role" }, call.outcome), h("div", { class: "said" }, typeof call.error === "string" ? inert(call.error) : tree(call.error)));
  if (call.message) return message(call.message, true);
  const text = call.answer_erased ? `The answer, event ${call.answer}, was erased.` : call.answer === null ? "No answer yet." : `Answered in event ${call.answer}, in a form that is not known here.`;
  return h("p", { class: "soft small" }, text);
}

function message(one, isAnswer = false) {
  const role = ["system", "developer", "user", "assistant", "tool"].includes(one.role) ? one.role : "other";
  const body = [
    one.text ? h("div", { class: "said" }, inert(one.text)) : null,
    ...(one.calls ?? []).map((call) => h("div", { class: "asks" }, h("span", { class: "chip" }, "calls ", h("b", {}, inert(call.name ?? "?"))), tree(call.input ?? {}))),
    ...(one.results ?? []).map((result) => h("div", { class: "asks" }, h("span", { class: "chip" }, "result"), tree(result))),
    one.rest ? h("details", { class: "branch" }, h("summary", {}, h("span", { class: "soft" }, "more")), tree({ more: one.rest })) : null,
  ];
  const long = role === "system" || role === "developer";
  const inner = h("div", { class: "stack tight" }, body.filter(Boolean));
  const wrapped = long && one.text.length > 400 ? h("details", { class: "branch" }, h("summary", {}, inert(one.text.slice(0, 120)), "…"), inner) : inner;
  return h("div", { class: `message ${role}${isAnswer ? " its-answer" : ""}` }, h("p", { class: "role" }, inert(one.role)), wrapped);
}
