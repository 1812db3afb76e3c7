// The stretch of time that the bars are drawn in: that of the rows in view, of the whole run, or what was zoomed to.
import { duration } from "./run-words.js";

const STEPS = [1, 2, 5];

export class Axis {
  constructor() {
    this.mode = "rows";
    this.from = 0;
    this.to = 1;
  }

  /** Called before the bars are drawn. `rows` are those in view. */
  fit(rows, first, last) {
    if (this.mode === "run") [this.from, this.to] = [first, last];
    if (this.mode === "rows") {
      const times = rows.filter((row) => row && row.time !== null);
      if (times.length) {
        this.from = Math.min(...times.map((row) => row.time));
        this.to = Math.max(...times.map((row) => row.time + (isRequest(row) ? row.took_us ?? 0 : 0)));
      }
    }
    if (!(this.to > this.from)) this.to = this.from + 1000;
  }

  /** Around a moment; `by` below 1 shows less time. */
  zoom(by, around) {
    const middle = around === null ? (this.from + this.to) / 2 : Math.min(Math.max(around, this.from), this.to);
    this.mode = "zoomed";
    this.from = middle - (middle - this.from) * by;
    this.to = Math.max(middle + (this.to - middle) * by, this.from + 10);
  }

  /** Moves as little as is needed for a moment to be in view. */
  include(time) {
    if (this.mode !== "zoomed" || time === null || (time >= this.from && time <= this.to)) return;
    const length = this.to - this.from;
    this.from = time - length * 0.1;
    this.to = this.from + length;
  }

  /** In thousandths of the width, from 0 to 1000; null where nothing of it is in view. */
  place(from, to) {
    const scale = 1000 / (this.to - this.from);
    const [start, end] = [(from - this.from) * scale, (to - this.from) * scale];
    if (end < 0 || start > 1000) return null;
    const left = Math.min(Math.max(start, -2), 997); // what happened at the very end is seen, too
    return [left, Math.max(Math.min(end, 1002), left + 3)];
  }

  /** Round times since the beginning of the run, at most so many: where, and what they are called. */
  ticks(beginning, most) {
    const length = this.to - this.from;
    let step = 1;
    for (let power = 1; step * most < length; power *= 10) {
      for (const one of STEPS) if (step * most < length) step = one * power;
    }
    const found = [];
    for (let at = Math.ceil((this.from - beginning) / step) * step; at + beginning <= this.to && found.length <= most; at += step) {
      found.push([((at + beginning - this.from) / length) * 100, at === 0 ? "0" : duration(Math.round(at)).replace(".0 ", " ").replace(".00 ", " ")]);
    }
    return found;
  }
}

export const isRequest = (row) => row.kind === "ActionRequested" || row.kind === "WaitCreated" || row.kind === "Interrupted";
