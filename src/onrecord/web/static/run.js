// The page of a run: one event is looked at, and the slider, the rows, the state and the address follow it.
import { follow, get } from "./api.js";
import { at, given, h, inert, say } from "./dom.js";
import { onKey } from "./keys.js";
import { move } from "./list.js";
import { Chat } from "./run-chat.js";
import { Rows } from "./run-data.js";
import { Waterfall } from "./run-fall.js";
import { Inspector } from "./run-inspector.js";
import { Family, Receipts } from "./run-lists.js";
import { Scrubber } from "./run-scrub.js";
import { Totals } from "./run-totals.js";
import { Verdict } from "./run-verdict.js";
import { amount, duration } from "./run-words.js";
import { tree } from "./tree.js";

const VIEWS = ["timeline", "conversation", "receipts", "family", "about"];
const ENDED = ["completed", "failed", "cancelled"];
const FEW_ROWS = 60;

const asked = new URLSearchParams(location.search);
const start = given("given");
const address = `/runs/${encodeURIComponent(start.run)}`;
const place = { seq: start.seq, view: VIEWS.find((name) => !at(`view-${name}`).hidden) ?? "timeline", show: asked.get("show") ?? "value" };
const rows = new Rows(start, () => { fall.soon(); stands(); });
const shared = { path: address, address, run: start.run, go };
const fall = new Waterfall(rows, { onSelect: go, address });
const inspector = new Inspector(rows, { ...shared, onPart: (name) => { place.show = name; keep(); } });
const scrubber = new Scrubber(rows, shared);
const verdict = new Verdict(rows, shared);
const totals = new Totals(rows, address);
const chat = new Chat(shared);
const receipts = new Receipts(shared);
const family = new Family(shared);

/** Goes to an event, wherever one comes from. */
function go(seq) {
  if (!rows.total) return;
  const from = place.view;
  if (from !== "timeline") show("timeline");
  look(seq);
  keep(from === "timeline");
}

/** The event that is looked at. */
function look(seq) {
  place.seq = Math.max(1, Math.min(seq, rows.total));
  fall.select(place.seq);
  scrubber.show(place.seq);
  inspector.show(place.seq, place.show);
}

function show(view) {
  place.view = view;
  for (const name of VIEWS) {
    at(`view-${name}`).hidden = name !== view;
    at(`tab-${name}`).setAttribute("aria-selected", name === view);
    at(`tab-${name}`).tabIndex = name === view ? 0 : -1;
  }
  if (view === "timeline") fall.soon();
  if (view === "conversation") chat.start(place.seq);
  if (view === "receipts") receipts.start();
  if (view === "family") family.start();
}

/** The address leads to what is seen. */
function keep(replace = true) {
  const query = new URLSearchParams();
  if (place.seq) query.set("seq", place.seq);
  if (place.view !== "timeline") query.set("view", place.view);
  if (place.show !== "value") query.set("show", place.show);
  const wanted = query.size ? `${address}?${query}` : address;
  if (wanted !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", wanted);
}

function stands() {
  const { status, head } = rows.standing;
  const badge = at("status");
  if (badge.dataset.status !== status) {
    badge.dataset.status = status;
    badge.textContent = status.replaceAll("_", " ");
    say(`The run is ${badge.textContent}`);
  }
  at("events").textContent = amount(rows.total);
  if (rows.firstTime !== null && rows.lastTime !== null) at("took").textContent = duration(Math.max(0, rows.lastTime - rows.firstTime));
  const hash = at("head").firstElementChild;
  hash.textContent = head.slice(7, 19);
  hash.title = head;
  at("whole-head").textContent = head;
}

// A run that has not ended grows in front of whoever looks. Who does not look is not told: a browser has few connections.

const growing = { newest: rows.total, timer: null, source: null, drawn: -2000 };

function live() {
  if (document.hidden || growing.source || ended()) return;
  growing.source = follow(start.run, growing.newest, {
    brief: true,
    onEvent: (event) => {
      growing.newest = Math.max(growing.newest, event.seq);
      // At once after a pause; while much happens about once a second, and not all pages at the same moment.
      const quiet = performance.now() - growing.drawn > 2000;
      growing.timer ??= setTimeout(grown, quiet ? 50 : 800 + Math.random() * 400);
    },
    onStanding: (found) => {
      rows.stands(found);
      stands();
    },
    onEnd: over,
    onLost: over, // it has ended meanwhile, or the server has
  });
}

function rest() {
  growing.source?.close();
  growing.source = null;
}

const ended = () => ENDED.includes(rows.standing.status);

function grown() {
  clearTimeout(growing.timer);
  growing.timer = null;
  growing.drawn = performance.now();
  const stay = fall.atEnd && place.seq === null;
  rows.grow(growing.newest);
  scrubber.show(place.seq);
  fall.draw();
  if (stay) fall.toEnd();
  verdict.outdated();
  totals.more();
  stands();
}

async function over() {
  rest();
  try {
    rows.stands(await get(`${address}/standing`));
  } catch (problem) {
    at("lost").hidden = false;
    at("lost").textContent = inert(`This page is not told any more what happens: ${problem.message}. Load it again.`);
    return;
  }
  growing.newest = rows.total;
  grown();
  if (ended()) {
    totals.begin();
    verdict.begin();
    scrubber.load();
  } else setTimeout(live, 2000);
}

function keys() {
  const here = (act) => () => (place.view === "timeline" ? act() : false);
  const walk = (by) => () => (place.view === "timeline" ? go((place.seq ?? (by > 0 ? 0 : 2)) + by) : move(by));
  onKey("j", "next event", walk(1));
  onKey("k", "event before", walk(-1));
  onKey("J", "ten events on", walk(10));
  onKey("K", "ten events back", walk(-10));
  onKey("Home", "first event", here(() => go(1)));
  onKey("End", "last event", here(() => go(rows.total)));
  onKey("[", "to the request, or the call before", () => partner("request", "before"));
  onKey("]", "to the answer", () => partner("answer"));
  onKey("Enter", "into the event", () => {
    if (document.activeElement !== document.body && document.activeElement !== fall.box) return false; // a link, a button
    return at("side").querySelector("[role=tabpanel]")?.focus();
  });
  onKey("+", "shorter time", () => zoom(0.5));
  onKey("-", "longer time", () => zoom(2));
  onKey("0", "time of the whole run", () => mode("run"));
  onKey("f", "time of the rows in view", () => mode("rows"));
  onKey("l", "only the lane of this event, or all", () => fall.onlyLane((place.seq && rows.row(place.seq)?.lane) ?? null));
  onKey("v", "verify", () => at("verdict").click());
  onKey("c", "compare with another run", () => at("other").focus());
  VIEWS.forEach((name, index) => onKey(String(index + 1), name, () => { show(name); keep(false); }));
}

function partner(...names) {
  const found = names.map((name) => inspector.details?.[name]).find(Boolean);
  if (found) go(found);
}

function zoom(by) {
  fall.axis.zoom(by, (place.seq && rows.row(place.seq)?.time) ?? null);
  drawZoom();
}

function mode(name) {
  fall.axis.mode = name;
  drawZoom();
}

function drawZoom() {
  at("zoom-rows").setAttribute("aria-pressed", fall.axis.mode === "rows");
  at("zoom-run").setAttribute("aria-pressed", fall.axis.mode === "run");
  fall.draw();
}

function wire() {
  at("to-before").addEventListener("click", () => go((place.seq ?? 2) - 1));
  at("to-next").addEventListener("click", () => go((place.seq ?? 0) + 1));
  at("zoom-in").addEventListener("click", () => zoom(0.5));
  at("zoom-out").addEventListener("click", () => zoom(2));
  at("zoom-rows").addEventListener("click", () => mode("rows"));
  at("zoom-run").addEventListener("click", () => mode("run"));
  for (const name of VIEWS) at(`tab-${name}`).addEventListener("click", () => { show(name); keep(false); });
  document.querySelector(".tabs").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    show(VIEWS[(VIEWS.indexOf(place.view) + by + VIEWS.length) % VIEWS.length]);
    at(`tab-${place.view}`).focus();
    keep();
  });
  fall.box.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go((place.seq ?? (by > 0 ? 0 : 2)) + by);
  });
  addEventListener("popstate", () => {
    const query = new URLSearchParams(location.search);
    const view = VIEWS.includes(query.get("view")) ? query.get("view") : "timeline";
    place.show = query.get("show") ?? "value";
    if (query.has("seq") && view === "timeline") go(Number(query.get("seq")) || 1);
    show(view);
  });
  at("other").addEventListener("focus", offer, { once: true });
}

/** The newest runs, for whoever wants to compare. */
async function offer() {
  try {
    const found = await get("/runs?limit=50");
    const others = found.runs.filter((run) => run.run !== start.run);
    at("others").replaceChildren(...others.map((run) => h("option", { value: run.run }, inert(`${run.agent ?? ""} ${run.status}`))));
  } catch {
    // an id can be written by hand
  }
}

const facts = given("given-facts");
if (facts !== null) at("facts").replaceChildren(tree(facts));
if (rows.total <= FEW_ROWS) fall.axis.mode = "run";
wire();
keys();
drawZoom();
if (start.seq) {
  fall.scrollTo((start.first - 1) * fall.height);
  look(start.seq);
} else scrubber.show(null);
show(place.view);
scrubber.load();
verdict.begin();
totals.begin();
document.addEventListener("visibilitychange", () => (document.hidden ? rest() : live()));
live();
document.documentElement.dataset.ready = "true";
