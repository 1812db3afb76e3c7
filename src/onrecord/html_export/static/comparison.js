// The comparison of two runs: the rows that were computed when the file was made, checked against both recordings.
import { differenceView } from "./compare_details.js";
import { h, inert } from "./dom.js";
import { words } from "./event_list.js";
import { count, prettyBlock } from "./pretty.js";

const VERDICTS = { same: "the same", reordered: "another order", diverged: "they part", unknown: "unknown", empty: "empty" };

const SIDES = ["expected", "actual"];

/** Whether it is kept in the run itself, under the name that the store has for it, and not in one that it was forked from. */
function isOwn(comparison, side, place) {
  return place === null || place.run === comparison[side].run;
}

/** Whether match digests of both recordings say what the rows say. */
export function checkComparison({ comparison }, runs) {
  const rows = comparison.rows.filter((row) => row.row === "change");
  const elsewhere = SIDES.some((side) => comparison.rows.some((row) => [row[side]].flat().some((place) => !isOwn(comparison, side, place))));
  if (comparison.more_changes > 0) return { holds: true, text: "The comparison lists the first differences only; it was not checked." };
  if (elsewhere) {
    return { holds: true, text: "Part of these runs is kept in the runs that they were forked from; the comparison was not checked." };
  }
  const told = runs.map(() => new Set());
  for (const row of rows) {
    const matches = [row.expected, row.actual].map((place, side) => {
      if (!place) return undefined;
      told[side].add(place.seq);
      return runs[side].link(place.seq)?.match;
    });
    if (!rowHolds(row, matches)) return { holds: false, text: `The comparison says of row ${row.number} what the recordings do not.` };
  }
  const rest = runs.map((run, side) => digests(run, told[side]));
  if (rest[0].join() !== rest[1].join()) return { holds: false, text: "The comparison leaves out events that differ." };
  return {
    holds: true,
    text: `The comparison fits both recordings: ${count(rest[0].length)} events match by their digests, ${count(rows.length)} rows differ.`,
  };
}

function rowHolds({ status }, [one, other]) {
  if (status === "added") return one === undefined && other !== undefined;
  if (status === "removed") return other === undefined && one !== undefined;
  if (status === "unknown") return one === null || other === null;
  return status === "moved" ? one === other && one !== undefined : one !== other && one !== undefined && other !== undefined;
}

function digests(run, told) {
  const found = [];
  for (let seq = 1; seq <= run.length; seq += 1) {
    if (run.isBehaviour(seq) && !told.has(seq)) found.push(run.link(seq)?.match ?? `erased ${seq}`);
  }
  return found.sort();
}

export class ComparisonView {
  #rows = [];
  #current = -1;

  constructor(data, runs, { goTo, onStep }) {
    const { comparison } = data;
    Object.assign(this, { data, runs, goTo, onStep });
    this.element = h(
      "div",
      { class: "stack" },
      h("p", { class: "row" }, badge(comparison.verdict), h("span", {}, inert(comparison.message))),
      h("ul", { class: "counts" }, ...Object.entries(comparison.counts ?? {}).filter(([, number]) => number > 0)
        .map(([status, number]) => h("li", { class: "chip" }, `${count(number)} ${status}`))),
      h("p", { class: "row" },
        h("button", { type: "button", onclick: () => this.step(-1) }, "Difference before ", h("kbd", {}, "p")),
        h("button", { type: "button", onclick: () => this.step(1) }, "Next difference ", h("kbd", {}, "n"))),
      h("div", { class: "compare-rows" }, ...comparison.rows.map((row) => (row.row === "same" ? this.#same(row) : this.#change(row)))),
      comparison.more_changes > 0 ? h("p", { class: "soft" }, `${count(comparison.more_changes)} more differences are not in this file.`) : null,
    );
  }

  /** Opens a difference; the first one without scrolling, since the verdict stands above it. */
  open(number = null) {
    const wanted = String(number ?? this.data.comparison.first_number);
    const index = this.#rows.findIndex((row) => row.dataset.number === wanted);
    if (index >= 0) this.#to(index, { stay: number === null });
  }

  step(by) {
    if (this.#rows.length > 0) this.#to(Math.min(Math.max(this.#current + by, 0), this.#rows.length - 1));
  }

  #to(index, { stay = false } = {}) {
    this.#rows[this.#current]?.removeAttribute("data-current");
    this.#current = index;
    const row = this.#rows[index];
    row.setAttribute("data-current", "");
    row.open = true;
    if (stay) return;
    row.querySelector("summary").focus({ preventScroll: true });
    row.scrollIntoView({ block: "start" });
    this.onStep(row.dataset.number);
  }

  #same(row) {
    const told = row.count === 1 ? "one event the same" : `${count(row.count)} events the same`;
    return h("div", { class: "same-row" }, h("span", {}, told));
  }

  #change(row) {
    const first = row.number === this.data.comparison.first_number;
    const made = h(
      "details",
      { class: "change-row", "data-status": row.status, "data-number": row.number, "data-first": first },
      h("summary", {},
        h("span", { class: "change-title" },
          h("span", { class: "change-number" }, String(row.number)), h("strong", {}, row.status), h("span", { class: "soft" }, row.words),
          first ? h("span", { class: "first-mark" }, "here they part") : null),
        h("span", { class: "sides" }, half(row.expected), half(row.actual))),
    );
    made.addEventListener("toggle", () => this.#fill(made, row), { once: true });
    this.#rows.push(made);
    return made;
  }

  #fill(made, row) {
    const detail = this.data.details[row.number];
    const sides = [row.expected, row.actual];
    const links = sides.map((place, side) => place && isOwn(this.data.comparison, SIDES[side], place)
      ? h("button", { type: "button", class: "link", onclick: () => this.goTo(side, place.seq) }, `event ${place.seq} of ${inert(place.run)}`)
      : null);
    const alone = sides.findIndex(Boolean);
    const content = detail ? differenceView(detail) : this.#alone(alone, sides[alone]);
    made.append(h("div", { class: "change-body" }, h("p", { class: "change-links" }, ...links), content));
  }

  #alone(side, place) {
    const run = this.runs[side];
    if (!isOwn(this.data.comparison, SIDES[side], place) || place.seq > run.length) return h("p", { class: "soft" }, "It is kept in another run.");
    return prettyBlock(run.content(place.seq), `Event ${place.seq}`);
  }
}

function badge(verdict) {
  const status = { same: "valid", diverged: "failed" }[verdict] ?? "waiting";
  return h("span", { class: "badge", "data-status": status }, VERDICTS[verdict] ?? verdict);
}

function half(place) {
  if (!place) return h("span", { class: "soft" }, "nothing");
  const name = place.name ? `${inert(place.name)} ` : "";
  return h("span", {}, h("span", { class: "soft" }, `${place.seq} ${words(place.kind)} `), name, h("span", { class: "soft" }, inert(place.gist)));
}
