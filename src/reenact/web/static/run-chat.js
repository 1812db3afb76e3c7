// The model calls of a run as a conversation. Pages are put behind each other; only so many stay.
import { get } from "./api.js";
import { at, h, inert } from "./dom.js";
import { said } from "./run-inspector.js";
import { amount, cost, duration } from "./run-words.js";
import { tree } from "./tree.js";

const CALLS = 20;
const PAGES_KEPT = 6;

export class Chat {
  constructor({ path, address, go }) {
    Object.assign(this, { path, address, go, pages: [], started: false });
    this.box = at("view-conversation");
  }

  /** Begins with the call at or behind `seq`. */
  start(seq) {
    if (this.started) return;
    this.started = true;
    this.list = h("div", { class: "chat" });
    this.foot = h("p", { class: "row" });
    this.box.replaceChildren(h("h2", { class: "unseen" }, "Conversation"), this.list, this.foot);
    this.load(seq ?? 1);
  }

  async load(from) {
    this.foot.replaceChildren(h("span", { class: "soft" }, "Reading…"));
    try {
      let found = await get(`${this.path}/conversation?from=${from}&limit=${CALLS}`);
      while (!found.calls.length && found.next) found = await get(`${this.path}/conversation?from=${found.next}&limit=${CALLS}`);
      this.put(found);
    } catch (problem) {
      this.foot.replaceChildren(said(problem));
    }
  }

  put(found) {
    const page = h("div", { class: "chat-page" }, found.calls.map((call) => this.call(call)));
    this.pages.push(page);
    this.list.append(page);
    if (this.pages.length > PAGES_KEPT) this.pages.shift().remove();
    this.next = found.next;
    const empty = !this.list.querySelector(".call");
    const more = h("button", { type: "button", onclick: () => this.load(found.next) }, "Later calls");
    const end = empty ? "No model was asked in this run." : found.next === null ? "That is all." : "";
    this.foot.replaceChildren(found.next === null ? h("span", { class: "soft" }, end) : more);
  }

  call(call) {
    const link = (seq, text) => h("a", { href: `${this.address}?seq=${seq}`, onclick: (event) => { event.preventDefault(); this.go(seq); } }, text);
    const used = call.used;
    const about = [call.model, call.lane === "0" ? null : `lane ${call.lane}`, duration(call.took_us), used ? `${amount(used.tokens)} tokens` : null, used ? cost(used.cost) : null];
    const repeated = call.repeated ? h("p", { class: "soft small" }, `${amount(call.repeated)} earlier messages, as in event ${call.before}${call.own_answer ? " with its answer" : ""}`) : null;
    const dropped = call.dropped ? h("p", { class: "notice small" }, `${amount(call.dropped)} messages of event ${call.before} are not there any more, or were changed`) : null;
    return h("article", { class: "call", "aria-label": `Model call, event ${call.seq}` },
      h("header", { class: "row tight small soft" }, link(call.seq, `event ${call.seq}`), h("b", {}, inert(call.name ?? "")), inert(about.filter(Boolean).join(" · "))),
      call.damage ? h("p", { class: "notice bad" }, inert(call.damage)) : null, call.erased ? h("p", { class: "notice" }, "erased") : null,
      dropped, repeated, call.messages.map((one) => message(one)), answer(call));
  }
}

function answer(call) {
  if (call.error !== null && call.error !== undefined) return h("div", { class: "message bad" }, h("p", { class: "role" }, call.outcome), h("div", { class: "said" }, typeof call.error === "string" ? inert(call.error) : tree(call.error)));
  if (call.message) return message(call.message, true);
  const text = call.answer === null ? "No answer yet." : `Answered in event ${call.answer}, in a form that is not known here.`;
  return h("p", { class: "soft small" }, text);
}

function message(one, fresh = false) {
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
  return h("div", { class: `message ${role}${fresh ? " fresh" : ""}` }, h("p", { class: "role" }, inert(one.role)), wrapped);
}
