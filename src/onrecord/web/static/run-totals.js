// Tokens and cost of the whole run. To add them up the run has to be read: a long one only if somebody wants to know.
import { get } from "./api.js";
import { at, h } from "./dom.js";
import { amount, cost } from "./run-words.js";

const BY_ITSELF = 2_000;
const SECONDS = 5;

export class Totals {
  constructor(rows, path) {
    Object.assign(this, { rows, path, after: 0, tokens: 0, cost: null, effects: 0 });
  }

  begin() {
    if (this.rows.total - this.after <= BY_ITSELF) this.go();
    else this.offer();
  }

  offer() {
    at("tokens").replaceChildren(h("button", { type: "button", class: "quiet small", onclick: () => this.go() }, "add up"));
    at("cost").textContent = "–";
  }

  async go() {
    if (this.busy) return;
    this.busy = true;
    try {
      for (let next = this.after; next !== null && next < this.rows.total;) {
        const found = await get(`${this.path}/usage?after=${next}`);
        this.after = found.to;
        this.tokens += found.tokens;
        this.cost = found.cost === null ? this.cost : (this.cost ?? 0) + found.cost;
        this.draw(found.next === null ? 1 : found.to / found.events);
        next = found.next;
      }
      this.draw(1);
    } catch {
      this.offer();
    }
    this.busy = false;
  }

  draw(share) {
    const part = share < 1 ? ` (${Math.floor(share * 100)} % read)` : "";
    at("tokens").textContent = `${amount(this.tokens)}${part}`;
    at("cost").textContent = cost(this.cost) || "–";
  }

  /** Of a run that grows, what came: now and then. */
  more() {
    const now = performance.now();
    if (!this.after || this.after >= this.rows.total || now - (this.looked ?? 0) < SECONDS * 1000) return;
    this.looked = now;
    this.go();
  }
}
