// Receipts and the family of the run, each read when it is looked at.
import { get } from "./api.js";
import { at, h, inert } from "./dom.js";
import { said } from "./run-inspector.js";
import { amount } from "./run-words.js";

const RECEIPTS = 50;
const RELATIONS = { fork: "fork", replay: "live replay", child: "called agent", process: "process", continuation: "goes on" };

export class Receipts {
  constructor({ path, address, go }) {
    Object.assign(this, { path, address, go });
    this.box = at("view-receipts");
  }

  start() {
    if (this.body) return;
    this.body = h("tbody");
    this.foot = h("p", { class: "row" });
    const names = ["Effect", "Outcome", "Model", "Events", "Receipt"].map((name) => h("th", { scope: "col" }, name));
    this.box.replaceChildren(h("h2", { class: "unseen" }, "Receipts"), h("p", { class: "soft" }, "A receipt proves one effect to somebody who has nothing else of this run. ", h("code", {}, "onrecord receipt check"), " checks one."),
      h("table", { class: "list stacked" }, h("thead", {}, h("tr", {}, names)), this.body), this.foot);
    this.load(0);
  }

  async load(after) {
    this.foot.replaceChildren(h("span", { class: "soft" }, "Reading…"));
    try {
      const found = await get(`${this.path}/receipts?after=${after}&limit=${RECEIPTS}`);
      this.body.append(...found.receipts.map((one) => this.line(one)));
      const empty = this.body.childElementCount ? "" : "No effect of this run has an answer yet.";
      this.foot.replaceChildren(found.next === null ? h("span", { class: "soft" }, empty) : h("button", { type: "button", onclick: () => this.load(found.next) }, "More receipts"));
    } catch (problem) {
      this.foot.replaceChildren(said(problem));
    }
  }

  line(one) {
    const place = one.place ?? {};
    const link = (seq) => h("a", { href: `${this.address}?seq=${seq}`, onclick: (event) => { event.preventDefault(); this.go(seq); } }, String(seq));
    const file = h("a", { class: "mono", href: `/api/v1/receipts/${encodeURIComponent(one.token_hash)}`, download: `receipt-${place.request ?? ""}.json` }, `${one.token_hash.slice(7, 23)}…`);
    return h("tr", { "data-row": true }, h("td", {}, inert(one.effect_name)), h("td", {}, one.status), h("td", {}, inert(one.model_version ?? "")),
      h("td", { "data-label": "events" }, place.request ? [link(place.request), " → ", link(place.answer)] : ""), h("td", {}, file));
  }
}

export class Family {
  constructor({ run, path }) {
    Object.assign(this, { run, path });
    this.box = at("view-family");
  }

  async start() {
    if (this.started) return;
    this.started = true;
    this.box.replaceChildren(h("p", { class: "soft" }, "Reading…"));
    try {
      this.draw(await get(`${this.path}/family`));
    } catch (problem) {
      this.started = false;
      this.box.replaceChildren(said(problem));
    }
  }

  draw(found) {
    const alone = found.members.length <= 1 && !found.missing_parent;
    this.box.replaceChildren(...[
      h("h2", { class: "unseen" }, "Family"),
      found.missing_parent ? h("p", { class: "notice" }, `It comes from run ${inert(found.missing_parent)}, which is not in this store.`) : null,
      h("ul", { class: "family" }, found.members.map((one) => this.member(one))),
      alone ? h("p", { class: "soft" }, "No forks, replays, called agents or processes. ", h("code", {}, `onrecord fork ${this.run} --at N`), " goes another way from an event.") : null,
      found.more ? h("p", { class: "soft" }, "There may be more: only the newest runs were looked through.") : null,
    ].filter(Boolean));
  }

  member(one) {
    const own = one.run === this.run;
    const compare = !own && ["fork", "replay"].includes(one.relation) ? h("a", { href: `/runs/${encodeURIComponent(this.run)}/compare/${encodeURIComponent(one.run)}` }, "compare") : null;
    const replay = one.relation === "replay" && one.parent ? h("a", { href: `/runs/${encodeURIComponent(one.parent)}/replay/${encodeURIComponent(one.run)}` }, "report") : null;
    const at_ = one.relation ? h("span", { class: "soft" }, `${RELATIONS[one.relation] ?? one.relation} at ${amount(one.at)}`) : h("span", { class: "soft" }, "the first");
    const name = own ? h("b", { class: "mono", "aria-current": "page" }, one.run) : h("a", { class: "mono", href: `/runs/${encodeURIComponent(one.run)}` }, one.run);
    return h("li", { "data-row": true, style: { "--depth": Math.min(one.depth, 12) }, class: own ? "own" : null, title: one.parent ? `of ${one.parent}` : null },
      name, " ", h("span", { class: "badge", "data-status": one.status }, one.status.replaceAll("_", " ")), " ", at_, h("span", { class: "soft" }, ` · ${one.agent ? `${inert(one.agent)} · ` : ""}${amount(one.events)} events `), " ", compare, " ", replay);
  }
}
