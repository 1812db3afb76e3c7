// The waterfall: a list of all events of which only those in view exist. Rows are taken again when they scroll away.
import { at, h, inert, say } from "./dom.js";
import { Axis, isRequest } from "./run-axis.js";
import { shownLane } from "./lanes.js";
import { amount, duration, isAnswer, laneColour, titled } from "./run-words.js";

const BEYOND = 8;
const HIGHEST = 8_000_000; // no browser makes elements of any height: beyond this the list is scrolled in larger steps
const SVG = "http://www.w3.org/2000/svg";

export class Waterfall {
  constructor(rows, { onSelect, address }) {
    Object.assign(this, { rows, onSelect, address, selected: null, lane: null, axis: new Axis(), ticks: at("ticks") });
    this.box = at("fall");
    this.space = at("fall-space");
    this.height = parseFloat(getComputedStyle(this.box).getPropertyValue("--row")) || 30;
    this.drawn = new Map();
    this.spare = [];
    this.space.replaceChildren();
    this.space.classList.add("alive");
    this.box.addEventListener("scroll", () => this.soon(), { passive: true });
    this.box.addEventListener("click", (event) => this.clicked(event));
    new ResizeObserver(() => this.soon()).observe(this.box);
  }

  get atEnd() {
    return this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - this.height * 1.5;
  }

  get whole() {
    return this.rows.total * this.height;
  }

  /** How far down the whole list the view stands. */
  get top() {
    const room = Math.min(this.whole, HIGHEST) - this.box.clientHeight;
    return this.whole <= HIGHEST || room <= 0 ? this.box.scrollTop : (this.box.scrollTop / room) * (this.whole - this.box.clientHeight);
  }

  scrollTo(top) {
    const most = this.whole - this.box.clientHeight;
    const wanted = Math.max(0, Math.min(top, most));
    const room = Math.min(this.whole, HIGHEST) - this.box.clientHeight;
    this.box.scrollTop = this.whole <= HIGHEST ? wanted : (wanted / most) * room;
  }

  soon() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = undefined;
      this.draw();
    });
  }

  draw() {
    if (this.drawnTotal !== this.rows.total) {
      this.drawnTotal = this.rows.total;
      this.space.style.height = `${Math.min(this.whole, HIGHEST)}px`;
      this.box.setAttribute("aria-rowcount", this.rows.total);
      this.box.parentElement.dataset.digits = String(this.rows.total).length;
    }
    // Everything is measured before anything is changed: otherwise the browser lays the page out again for each row.
    const [top, scrolled, height, width] = [this.top, this.box.scrollTop, this.box.clientHeight, this.ticks.clientWidth];
    const first = Math.max(1, Math.floor(top / this.height) + 1);
    const last = Math.min(this.rows.total, Math.ceil((top + height) / this.height));
    const [from, to] = [Math.max(1, first - BEYOND), Math.min(this.rows.total, last + BEYOND)];
    this.rows.want(from, to);
    const seen = [];
    for (let seq = first; seq <= last; seq += 1) seen.push(this.rows.row(seq));
    this.axis.fit(seen, this.rows.firstTime, this.rows.lastTime);
    for (const [seq, line] of this.drawn) {
      if (seq >= from && seq <= to) continue;
      this.drawn.delete(seq);
      this.spare.push(line);
    }
    for (let seq = from; seq <= to; seq += 1) this.line(seq, (seq - 1) * this.height - top + scrolled);
    for (const line of this.spare.splice(0)) line.remove();
    this.drawTicks(width);
    this.box.toggleAttribute("aria-busy", seen.some((row) => !row));
  }

  line(seq, top) {
    let line = this.drawn.get(seq);
    const row = this.rows.row(seq);
    if (!line) {
      line = this.spare.pop() ?? emptyLine();
      this.drawn.set(seq, line);
      if (!line.isConnected) this.space.append(line);
    }
    if (line.told !== row || line.seq !== seq) this.fill(line, seq, row);
    line.style.transform = `translateY(${top}px)`;
    line.classList.toggle("chosen", seq === this.selected);
    line.setAttribute("aria-selected", seq === this.selected);
    line.classList.toggle("aside", this.lane !== null && row?.lane !== this.lane);
    this.bar(line, row);
  }

  fill(line, seq, row) {
    Object.assign(line, { told: row, seq, id: `event-${seq}` });
    line.setAttribute("aria-rowindex", seq);
    const { number, lane, what, took, tokens } = line.parts;
    number.firstChild.textContent = seq;
    number.firstChild.href = `${this.address}?seq=${seq}`;
    line.className = "fall-row";
    if (!row) {
      for (const part of [what, took, tokens]) part.replaceChildren();
      return;
    }
    line.classList.toggle("answer", isAnswer(row));
    line.classList.toggle("bad", row.outcome === "failed" || row.outcome === "denied" || row.kind === "Failed" || !!row.damage);
    lane.className = `lane lane-${laneColour(row.lane)}`;
    const name = inert(shownLane(row.lane));
    lane.title = `Lane ${name}: click to see it alone`;
    lane.textContent = name;
    const [title, kind] = titled(row);
    what.replaceChildren(
      h("b", {}, inert(title)),
      kind ? h("span", { class: "kind" }, inert(kind)) : "",
      h("span", { class: "soft" }, inert(row.damage ?? (row.erased ? "erased" : row.gist ?? ""))),
    );
    took.textContent = isRequest(row) ? (row.outcome ? duration(row.took_us) : "open") : "";
    tokens.textContent = row.tokens && isRequest(row) ? amount(row.tokens) : "";
  }

  bar(line, row) {
    const { bar } = line.parts;
    const open = row && isRequest(row) && !row.outcome;
    const end = row && (open ? this.rows.lastTime : row.time + (isRequest(row) ? row.took_us ?? 0 : 0));
    const place = row && row.time !== null ? this.axis.place(row.time, end) : null;
    bar.setAttribute("class", row ? `lane-${laneColour(row.lane)}${isRequest(row) ? "" : " moment"}${open ? " open" : ""}` : "");
    bar.setAttribute("x", place ? place[0] : 0);
    bar.setAttribute("width", place ? place[1] - place[0] : 0);
  }

  drawTicks(width) {
    const many = Math.max(2, Math.floor(width / 70));
    const found = this.axis.ticks(this.rows.firstTime ?? 0, many);
    const side = (left) => (left < 10 ? "first" : left > 88 ? "last" : null);
    this.ticks.replaceChildren(...found.map(([left, text]) => h("span", { class: side(left), style: { left: `${left}%` } }, text)));
  }

  clicked(event) {
    const line = event.target.closest(".fall-row");
    if (!line || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (event.target.closest(".lane")) this.onlyLane(line.told?.lane ?? null);
    else this.onSelect(line.seq);
  }

  /** The events of other lanes step back; the same lane again brings them all forward. */
  onlyLane(lane) {
    this.lane = lane === this.lane ? null : lane;
    say(this.lane === null ? "All lanes" : `Lane ${inert(shownLane(this.lane))}`);
    this.draw();
  }

  select(seq) {
    this.selected = seq;
    if (seq !== null) {
      const [top, view] = [(seq - 1) * this.height, this.top];
      if (top < view) this.scrollTo(top - this.height * 2);
      else if (top + this.height > view + this.box.clientHeight) this.scrollTo(top - this.box.clientHeight + this.height * 3);
      this.axis.include(this.rows.row(seq)?.time ?? null);
    }
    this.draw();
    if (seq === null) this.box.removeAttribute("aria-activedescendant");
    else this.box.setAttribute("aria-activedescendant", `event-${seq}`);
  }

  toEnd() {
    this.scrollTo(this.whole);
    this.soon();
  }
}

function emptyLine() {
  const cell = (name) => h("span", { role: "gridcell", class: name });
  const parts = { number: cell("number"), lane: cell("lane"), what: cell("what"), took: cell("right"), tokens: cell("right") };
  parts.number.append(h("a", { tabindex: "-1" }));
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 1000 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  parts.bar = document.createElementNS(SVG, "rect");
  parts.bar.setAttribute("height", "10");
  svg.append(parts.bar);
  const line = h("div", { class: "fall-row", role: "row" }, Object.values(parts).slice(0, 5), h("span", { role: "gridcell", class: "bar" }, svg));
  line.parts = parts;
  return line;
}
