// What the file shows: the verdict first, then the run or the comparison. Everything is read from the recordings in it.
import { ComparisonView, checkComparison } from "./comparison.js";
import { conversationView } from "./conversation.js";
import { at, h, inert } from "./dom.js";
import { EventList } from "./event_list.js";
import { inspected } from "./inspector.js";
import { onKey } from "./keys.js";
import { count, duration, moment, prettyBlock } from "./pretty.js";
import { SharedRun } from "./shared_run.js";
import { showProgress, showVerdict } from "./verdict.js";
import { unescaped, verify } from "./verify.js";

const root = document.documentElement;
const blocks = () => ["recording-1", "recording-2"].map(at).filter(Boolean);

function otherTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

/** One view at a time, each made when it is first looked at. */
class Tabs {
  #tabs = [];

  constructor() {
    this.bar = h("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
    this.panel = h("div", { class: "panel", role: "tabpanel", id: "panel", tabindex: "-1" });
    this.bar.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const here = this.#tabs.findIndex((tab) => tab.name === this.chosen);
      if (by) this.show(this.#tabs[(here + by + this.#tabs.length) % this.#tabs.length].name, { focus: true });
    });
  }

  add(name, title, make) {
    const button = h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", onclick: () => this.show(name) }, title);
    this.#tabs.push({ name, button, make, view: null });
    this.bar.append(button);
  }

  show(name, { focus = false } = {}) {
    const tab = this.#tabs.find((one) => one.name === name) ?? this.#tabs[0];
    this.chosen = tab.name;
    for (const { name: other, button } of this.#tabs) {
      button.setAttribute("aria-selected", String(other === tab.name));
      button.tabIndex = other === tab.name ? 0 : -1;
    }
    tab.view ??= tab.make();
    this.panel.setAttribute("aria-labelledby", `tab-${tab.name}`);
    if (this.panel.firstChild !== tab.view) this.panel.replaceChildren(tab.view);
    if (focus) tab.button.focus();
    return tab;
  }
}

function eventsView(run, name, onChoice) {
  const details = h("div", { class: "detail" });
  const list = new EventList(run, {
    label: `Events of ${run.name}`,
    onChoice: (seq) => {
      details.replaceChildren(inspected(run, seq, (other) => list.choose(other)));
      onChoice(name, seq);
    },
  });
  const view = h("div", { class: "split" }, list.element, details);
  if (run.length === 0) view.replaceChildren(h("p", { class: "empty soft" }, "Nothing that could be read was recorded."));
  return { view, list };
}

function aboutView(run) {
  const facts = run.facts;
  return h(
    "div",
    { class: "stack" },
    h("dl", { class: "facts" },
      h("dt", {}, "run"), h("dd", {}, h("code", {}, inert(run.name))),
      h("dt", {}, "began"), h("dd", {}, `${moment(run.created)} UTC`),
      h("dt", {}, "status"), h("dd", {}, run.status),
      h("dt", {}, "events"), h("dd", {}, count(run.length)),
      h("dt", {}, "shared values"), h("dd", {}, count(run.recording.nodes.size)),
      h("dt", {}, "artifacts"), h("dd", {}, count(run.recording.artifacts.size))),
    facts === null ? h("p", { class: "soft" }, "What was known at its start was erased.") : prettyBlock(facts, "What was known at its start"),
  );
}

/** The address says what is looked at: #events, #events-12. */
function remember(view, number) {
  try {
    history.replaceState(null, "", `#${view}${number ? `-${number}` : ""}`);
  } catch {
    // some browsers do not let a file change its own address
  }
}

function wanted() {
  const [, view, number] = /^#([a-z]+)(?:-([0-9]{1,9}))?$/.exec(location.hash) ?? [];
  return { view, number: number ? Number(number) : null };
}

class Page {
  #lists = new Map();

  constructor(runs, data) {
    Object.assign(this, { runs, data, tabs: new Tabs() });
    if (data) this.#compared();
    else this.#alone();
    at("views").replaceChildren(this.tabs.bar, this.tabs.panel);
    at("views").hidden = false;
    onKey("j", "next event", () => this.#list()?.move(1));
    onKey("k", "event before", () => this.#list()?.move(-1));
    this.#start();
    addEventListener("hashchange", () => this.#start());
  }

  goTo(index, seq) {
    const name = index === 0 ? "events" : "second";
    this.tabs.show(name);
    this.#lists.get(name).choose(seq);
    this.tabs.panel.scrollIntoView({ block: "start" });
  }

  #list() {
    return this.#lists.get(this.tabs.chosen);
  }

  #events(name, title, run) {
    this.tabs.add(name, title, () => {
      const { view, list } = eventsView(run, name, remember);
      this.#lists.set(name, list);
      return view;
    });
  }

  #alone() {
    const [run] = this.runs;
    at("title").replaceChildren(inert(run.name), " ", statusBadge(run.status));
    at("summary").textContent = summaryOf(run);
    document.title = `${run.name} · Onrecord`;
    this.#events("events", `Events (${count(run.length)})`, run);
    this.tabs.add("conversation", "Conversation", () => conversationView(run, (seq) => this.goTo(0, seq)));
    this.tabs.add("about", "About", () => aboutView(run));
  }

  #compared() {
    const [one, other] = this.runs;
    at("title").textContent = `${inert(one.name)} and ${inert(other.name)}`;
    at("share-kind").textContent = "two recorded runs, compared";
    at("summary").textContent = this.runs.map((run) => `${inert(run.name)}: ${summaryOf(run)}`).join(" — ");
    document.title = `${one.name} and ${other.name} · Onrecord`;
    this.compared = new ComparisonView(this.data, this.runs, {
      goTo: (side, seq) => this.goTo(side, seq),
      onStep: (number) => remember("comparison", number),
    });
    this.tabs.add("comparison", "Comparison", () => this.compared.element);
    this.#events("events", `First run (${count(one.length)})`, one);
    this.#events("second", `Second run (${count(other.length)})`, other);
    onKey("n", "next difference", () => this.#step(1));
    onKey("p", "difference before", () => this.#step(-1));
  }

  #step(by) {
    this.tabs.show("comparison");
    this.compared.step(by);
  }

  #start() {
    const { view, number } = wanted();
    const shown = this.tabs.show(view).name;
    if (this.#lists.has(shown)) {
      const bad = [...this.runs[shown === "second" ? 1 : 0].bad.keys()].find((seq) => seq > 0);
      this.#lists.get(shown).choose(number ?? bad ?? 1);
    } else if (shown === "comparison") {
      this.compared.open(number);
    }
  }
}

function summaryOf(run) {
  const agent = run.facts?.get?.("agent");
  const [first, last] = run.span;
  const took = first === null || last === null ? "" : duration(Math.max(0, last - first));
  const parts = [typeof agent === "string" ? inert(agent) : "", `${count(run.length)} events`, `${moment(run.created).slice(0, 19)} UTC`, took];
  return parts.filter(Boolean).join(" · ");
}

function statusBadge(status) {
  return h("span", { class: "badge", "data-status": status === "not ended" ? "interrupted" : status }, status);
}

async function main() {
  at("theme").addEventListener("click", otherTheme);
  onKey("t", "light or dark", otherTheme);
  const found = blocks();
  const runs = [];
  showProgress(0);
  for (const [index, block] of found.entries()) {
    let last = 0;
    const result = await verify(block.textContent.slice(1), {
      onProgress: (share) => {
        if (performance.now() - last < 100) return;
        last = performance.now();
        showProgress((index + share) / found.length);
      },
    });
    runs.push(Object.assign(new SharedRun(result), { index }));
  }
  const written = at("comparison");
  const data = written ? JSON.parse(unescaped(written.textContent)) : null;
  const page = { goTo: () => {} };
  showVerdict(runs, { goTo: (index, seq) => page.goTo(index, seq), more: data ? checkComparison(data, runs) : null });
  const shown = new Page(runs, data);
  page.goTo = (index, seq) => shown.goTo(index, seq);
}

main().catch((error) => {
  at("verdict").dataset.state = "broken";
  at("verdict-title").textContent = "Broken: this cannot be read";
  at("verdict-text").textContent = inert(error.message);
});
