// Differences are opened one by one; what they are is asked for when somebody opens them.
import { get } from "./api.js";
import { differenceView } from "./compare_details.js";
import { at, given, h, inert, say } from "./dom.js";
import { onKey } from "./keys.js";

const EVENTS_AT_ONCE = 50;
const page = given("given");
const rows = [...document.querySelectorAll(".change-row")];
let current = rows.findIndex((row) => Number(row.dataset.number) === page.at);

const address = (run) => `/runs/${encodeURIComponent(run)}`;

async function fill(row) {
  const body = row.querySelector(".change-body");
  if (row.dataset.filled || body.querySelector(".differences")) return;
  row.dataset.filled = "true";
  const waiting = h("p", { class: "soft" }, "…");
  body.append(waiting);
  try {
    waiting.replaceWith(await detailOf(row));
  } catch (error) {
    delete row.dataset.filled;
    waiting.replaceWith(h("p", { class: "notice bad" }, inert(`${error.message}. ${error.hint ?? ""}`)));
  }
}

async function detailOf(row) {
  const { run, seq, other, otherSeq } = row.dataset;
  if (seq && otherSeq) return differenceView(await get(`${address(run)}/events/${seq}/diff/${encodeURIComponent(other)}/${otherSeq}`));
  const [name, place] = seq ? [run, seq] : [other, otherSeq];
  const event = await get(`${address(name)}/events/${place}`);
  const text = JSON.stringify(event.content, null, 2) ?? "erased";
  const more = text.length > 60_000 ? "\n… (the page of the run shows all of it)" : "";
  return h("div", { class: "half" }, h("pre", { tabindex: "0", "aria-label": `Event ${place}` }, inert(text.slice(0, 60_000) + more)));
}

/** What is in view already stays where it is: the page does not jump when it opens. */
function show(row, first) {
  const { top, bottom } = row.getBoundingClientRect();
  if (!first) row.scrollIntoView({ block: "start" });
  else if (bottom > innerHeight || top < 0) row.scrollIntoView({ block: bottom - top < innerHeight * 0.8 ? "center" : "start" });
}

function go(index, { first = false } = {}) {
  if (rows.length === 0) return;
  rows[current]?.removeAttribute("data-current");
  current = Math.min(Math.max(index, 0), rows.length - 1);
  const row = rows[current];
  row.setAttribute("data-current", "");
  row.open = true;
  fill(row);
  show(row, first);
  if (!first) row.querySelector("summary").focus({ preventScroll: true });
  tell(row);
}

function tell(row) {
  const place = `difference ${row.dataset.number} of ${rows.length}`;
  at("where").textContent = row.hasAttribute("data-first") ? `${place}, where they part first` : place;
  const query = new URLSearchParams(location.search);
  query.delete("seq");
  query.set("at", row.dataset.number);
  history.replaceState(null, "", `?${query}`);
}

/** The events of a stretch that is the same, of each run in its own order. */
async function unfold(row) {
  const button = row.querySelector("button");
  const open = row.nextElementSibling?.classList.contains("same-events") ? row.nextElementSibling : null;
  if (open) {
    open.remove();
    button.setAttribute("aria-expanded", "false");
    return;
  }
  const sides = [JSON.parse(row.dataset.expected), JSON.parse(row.dataset.actual)];
  const lists = h("div", { class: "same-events" });
  row.after(lists);
  button.setAttribute("aria-expanded", "true");
  try {
    lists.append(...(await Promise.all(sides.map(eventsOf))));
  } catch (error) {
    lists.append(h("p", { class: "notice bad" }, inert(error.message)));
  }
}

async function eventsOf(ends) {
  if (!ends) return h("p", { class: "soft" }, "nothing");
  const [first, last] = ends;
  // A stretch may begin in the run that a fork comes from: then what the fork itself has is shown there.
  const to = first.run === last.run ? last.seq : Infinity;
  const found = await get(`${address(first.run)}/spans?from=${first.seq}&limit=${EVENTS_AT_ONCE}`);
  const shown = found.rows.filter((event) => event.seq <= to);
  const items = shown.map((event) =>
    h("li", {}, h("a", { href: `${address(first.run)}?seq=${event.seq}` }, String(event.seq)), ` ${words(event.kind)} `,
      event.name ? h("strong", {}, inert(event.name)) : null, " ", h("span", { class: "soft" }, inert(event.gist ?? ""))));
  const more = shown.length > 0 && shown.at(-1).seq < to && found.next !== null;
  const link = h("a", { href: `${address(first.run)}?seq=${shown.at(-1)?.seq ?? first.seq}` }, "the rest on the page of the run");
  return h("ol", {}, ...items, more ? h("li", {}, link) : null);
}

const words = (kind) => kind.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();

for (const row of rows) row.addEventListener("toggle", () => row.open && fill(row));
for (const row of document.querySelectorAll(".same-row")) row.querySelector("button").addEventListener("click", () => unfold(row));
at("next")?.addEventListener("click", () => go(current + 1));
at("before")?.addEventListener("click", () => go(current - 1));
onKey("n", "next difference", () => go(current + 1));
onKey("p", "difference before", () => go(current - 1));
if (current >= 0) go(current, { first: true });
else if (rows.length > 0) say(`${rows.length} differences`);
