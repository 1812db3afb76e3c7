// The list of runs: filters take effect when they are chosen, runs change and appear while somebody looks.
import { at, h, inert, say } from "./dom.js";
import { get } from "./api.js";
import { walkLists } from "./list.js";
import { followList } from "./list-follow.js";

const ROWS_MOST = 200;
const table = at("runs");
const body = table.tBodies[0];
const waiting = new Map(); // new runs that are not shown yet, since somebody is reading further down

const words = (status) => status.replace("_", " ");
const cut = (text, room) => (text.length > room ? `${text.slice(0, room - 3)}...` : text);

function dollars(cost) {
  if (cost === null || cost === undefined) return "";
  if (cost > 0 && cost < 0.0001) return "<$0.0001";
  return cost >= 1 ? `$${cost.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}` : `$${cost.toFixed(4)}`;
}

function marks({ imported, parent }) {
  const chip = (text, title) => [" ", h("span", { class: "chip", title }, text)];
  return [...(imported ? chip("imported") : []), ...(parent ? chip(parent.relation, `of ${parent.run}, at ${parent.seq}`) : [])];
}

function cells(run) {
  const usage = run.usage;
  const about = run.about.length ? [" ", h("span", { class: "about" }, cut(inert(run.about.join(", ")), 80))] : [];
  return [
    h("td", {}, h("a", { class: "mono", href: `/runs/${encodeURIComponent(run.run)}`, title: run.run }, run.short)),
    h("td", {}, h("span", { class: "badge", "data-status": run.status }, words(run.status)), ...about),
    h("td", {}, cut(inert(run.agent ?? ""), 80), ...marks(run)),
    h("td", { class: "right", "data-label": "events" }, run.events.toLocaleString("en")),
    h("td", { class: "right", "data-label": "tokens" }, usage?.tokens ? usage.tokens.toLocaleString("en") : ""),
    h("td", { class: "right", "data-label": "cost" }, usage ? dollars(usage.cost) : ""),
    h("td", { "data-label": "began" }, h("time", { datetime: run.created }, (run.created ?? "").slice(0, 19).replace("T", " "))),
  ];
}

const line = (run) => h("tr", { "data-row": true, "data-run": run.run }, cells(run));
const lineOf = (run) => [...body.rows].find((row) => row.dataset.run === run);

/** Only what is different is touched: whoever stands on a line stays there. */
function update(row, run) {
  const stood = row.querySelector(".badge").dataset.status;
  cells(run).forEach((cell, number) => {
    if (number > 0 && row.cells[number].textContent !== cell.textContent) row.replaceChild(cell, row.cells[number]);
  });
  if (stood === run.status) return;
  row.classList.add("changed");
  setTimeout(() => row.classList.remove("changed"), 900);
}

/** Nothing is moved under somebody's eyes: further down, new runs are offered instead. */
function mayGrow() {
  return scrollY < 80 && !body.contains(document.activeElement);
}

function put(run) {
  const after = [...body.rows].find((row) => row.querySelector("time").dateTime < run.created);
  body.insertBefore(line(run), after ?? null);
  while (body.rows.length > ROWS_MOST) body.deleteRow(-1);
}

function show() {
  for (const run of waiting.values()) put(run);
  waiting.clear();
  at("fresh").hidden = true;
  at("none").hidden = body.rows.length > 0;
}

function take(runs) {
  for (const run of runs) {
    const row = lineOf(run.run);
    if (row && run.wanted) update(row, run);
    else if (row) row.remove();
    else if (run.wanted) waiting.set(run.run, run);
    else waiting.delete(run.run);
  }
  if (waiting.size === 0) {
    at("none").hidden = body.rows.length > 0;
  } else if (mayGrow()) {
    say(waiting.size === 1 ? "a new run" : `${waiting.size} new runs`);
    show();
  } else {
    at("fresh").textContent = waiting.size === 1 ? "1 new run" : `${waiting.size} new runs`;
    at("fresh").hidden = false;
  }
}

async function readAgain(query) {
  const listed = await get(`/overview?${query}`);
  body.replaceChildren(...listed.runs.map(line));
  waiting.clear();
  take([]);
}

at("fresh").addEventListener("click", () => {
  show();
  scrollTo({ top: 0 });
});
at("filters").addEventListener("change", (event) => {
  if (event.target.matches("select, [type=checkbox]")) at("filters").requestSubmit();
});
at("filters").addEventListener("formdata", (event) => {
  // What nobody filled in has no place in the address.
  for (const [name, value] of [...event.formData]) if (!value.trim()) event.formData.delete(name);
});

walkLists();
if ("live" in table.dataset) {
  const query = new URLSearchParams(table.dataset.follow);
  query.delete("after");
  followList(table.dataset.follow, {
    onChange: (told) => take(told.runs),
    onAgain: () => readAgain(query),
    onLive: (live) => {
      at("live").hidden = !live;
    },
  });
}
