// The rows of a run, fetched where they are looked at. Few of them are kept: a run may have millions.
import { get } from "./api.js";

const PAGE = 100;
const PAGES_KEPT = 40;

export class Rows {
  /** `given` is what the page was rendered with; `changed` is called when there is more to show. */
  constructor(given, changed) {
    this.run = given.run;
    this.path = `/runs/${encodeURIComponent(given.run)}`;
    this.total = given.events;
    this.firstTime = given.first_us;
    this.lastTime = given.last_us;
    this.standing = given;
    this.problem = null;
    this.changed = changed;
    this.pages = new Map();
    this.asked = new Set();
    this.seed = new Map(given.rows.map((row) => [row.seq, row]));
  }

  row(seq) {
    const page = this.pages.get(Math.floor((seq - 1) / PAGE));
    return page?.rows.get(seq) ?? this.seed.get(seq);
  }

  /** Sees to it that these rows come. What is there already is not asked for again. */
  want(first, last) {
    for (let number = Math.floor((first - 1) / PAGE); number <= Math.floor((last - 1) / PAGE); number += 1) {
      const page = this.pages.get(number);
      if (page) page.used = performance.now();
      if (number * PAGE < this.total && (!page || page.stale) && !this.asked.has(number)) this.fetch(number);
    }
  }

  async fetch(number) {
    this.asked.add(number);
    try {
      const found = await get(`${this.path}/spans?from=${number * PAGE + 1}&limit=${PAGE}`);
      this.pages.set(number, { rows: whole(found.rows, number * PAGE + 1), used: performance.now(), stale: false });
      this.problem = null;
      this.stands(found);
    } catch (problem) {
      this.problem = problem;
    }
    this.asked.delete(number);
    this.forget();
    this.changed();
  }

  stands(found) {
    this.standing = found;
    this.total = Math.max(this.total, found.events);
    this.firstTime = found.first_us;
    this.lastTime = found.last_us;
  }

  forget() {
    if (this.pages.size <= PAGES_KEPT) return;
    const oldest = [...this.pages].sort((one, other) => one[1].used - other[1].used);
    for (const [number] of oldest.slice(0, this.pages.size - PAGES_KEPT)) this.pages.delete(number);
  }

  /** The run has grown: pages with something open, or that were not full, are read again when they are looked at. */
  grow(total) {
    this.total = Math.max(this.total, total);
    for (const page of this.pages.values()) {
      const open = [...page.rows.values()].some((row) => row.effect && !row.outcome);
      page.stale = page.stale || open || page.rows.size < PAGE;
    }
    for (const [seq, row] of this.seed) if (row.effect && !row.outcome) this.seed.delete(seq);
  }
}

/** Rows by their numbers. One that should stand between others and does not is told as what it is: gone. */
function whole(rows, first) {
  const found = new Map(rows.map((row) => [row.seq, row]));
  for (let seq = first; seq < (rows.at(-1)?.seq ?? 0); seq += 1) {
    if (!found.has(seq)) found.set(seq, { seq, kind: "event", lane: "", time: null, damage: "missing in the store" });
  }
  return found;
}
