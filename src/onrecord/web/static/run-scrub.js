// The slider over all events, and behind it where the time went: one bar for each of a few stretches of the run.
import { get } from "./api.js";
import { at } from "./dom.js";
import { amount } from "./run-words.js";

const BUCKETS = 120;

export class Scrubber {
  constructor(rows, { path, go }) {
    Object.assign(this, { rows, path, samples: [] });
    this.range = at("scrubber");
    this.number = at("at");
    this.canvas = at("strip");
    this.range.addEventListener("input", () => go(Number(this.range.value)));
    this.number.addEventListener("change", () => {
      const wanted = Math.round(Number(this.number.value));
      if (wanted >= 1) go(Math.min(wanted, rows.total));
    });
    at("to-first").addEventListener("click", () => go(1));
    at("to-last").addEventListener("click", () => go(rows.total));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new MutationObserver(() => this.draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  show(seq) {
    for (const input of [this.range, this.number]) input.max = this.rows.total;
    this.range.min = this.rows.total ? 1 : 0;
    at("of").textContent = amount(this.rows.total);
    if (seq === null) return;
    this.range.value = seq;
    this.number.value = seq;
    this.range.setAttribute("aria-valuetext", `event ${seq} of ${this.rows.total}`);
    this.seq = seq;
    this.draw();
  }

  async load() {
    try {
      this.samples = (await get(`${this.path}/overview?buckets=${BUCKETS}`)).samples;
      this.draw();
    } catch {
      // the slider works without it
    }
  }

  draw() {
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
    if (!width) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, width, height);
    const known = this.samples.filter((one) => one.time !== null);
    const total = Math.max(1, this.rows.total - 1);
    const lengths = known.slice(1).map((one, index) => Math.max(0, one.time - known[index].time));
    const most = Math.max(1, ...lengths);
    pen.fillStyle = getComputedStyle(canvas).color; // the accent, light or dark
    pen.globalAlpha = 0.45;
    lengths.forEach((length, index) => {
      const from = ((known[index].seq - 1) / total) * width;
      const to = ((known[index + 1].seq - 1) / total) * width;
      const tall = Math.max(ratio, Math.sqrt(length / most) * height);
      pen.fillRect(from, height - tall, Math.max(ratio, to - from - ratio), tall);
    });
    pen.globalAlpha = 1;
    if (this.seq) pen.fillRect(((this.seq - 1) / total) * (width - 2 * ratio), 0, 2 * ratio, height);
  }
}
