// Answers what runs wait for, and shows how they go on.
import { post } from "./api.js";
import { at, say } from "./dom.js";
import { followList } from "./list-follow.js";
import { walkLists } from "./list.js";
import { isSure, parsed, sendOnce } from "./sure.js";

const needs = at("needs");

function resolution(form) {
  const way = form.elements.way.value;
  if (way === "cancel") return { cancel: true };
  if (way === "error") {
    const error = form.elements.error.value.trim();
    if (!error) throw Object.assign(new Error("an error needs a word on what is wrong"), { hint: "The agent sees it." });
    return { error };
  }
  const text = form.elements.value.value;
  return { value: form.elements.text.checked ? text : parsed(text, "the value") };
}

function prepare(card) {
  const form = card.querySelector("[data-resolving]");
  if (!form) return; // it cannot be answered from here
  const fields = form.querySelectorAll("[data-for]");
  form.addEventListener("change", () => {
    for (const field of fields) field.hidden = field.dataset.for !== form.elements.way.value;
  });
  form.addEventListener("click", (event) => {
    const fill = event.target.closest("[data-fill]");
    if (!fill) return;
    form.elements.value.value = fill.dataset.fill;
    form.elements.text.checked = false;
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sendOnce(form, async () => {
      const body = resolution(form);
      if (!(await isSure(`${card.dataset.name} of run ${card.dataset.run} is answered with:`, body))) return;
      const told = await post(`/runs/${encodeURIComponent(card.dataset.run)}/waits/${card.dataset.wait}`, body);
      form.hidden = true;
      card.classList.add("answered");
      card.querySelector("[data-outcome]").textContent = told.first ? "Answered." : "Answered before, in the same way.";
      say("answered");
    });
  });
}

/** How each run stands is kept up to date; a wait that came up, or was answered elsewhere, is offered to be looked at. */
function take(told) {
  for (const run of told.runs) {
    const section = [...needs.children].find((one) => one.dataset.run === run.run);
    const waits = run.status === "waiting" || run.status === "in_doubt" || run.status === "blocked";
    if (section) stand(section, run, waits);
    else if (waits) at("fresh").hidden = false;
  }
}

function stand(section, run, waits) {
  const badge = section.querySelector("[data-standing]");
  badge.dataset.status = run.status;
  badge.textContent = run.status.replace("_", " ");
  const open = [...section.querySelectorAll(".need")].filter((card) => !card.classList.contains("answered"));
  if ((open.length === 0 && waits) || (open.length > 0 && !waits)) at("fresh").hidden = false;
  for (const card of section.querySelectorAll(".need.answered [data-outcome]")) {
    card.textContent = `${card.textContent.split(" The run")[0]} The run ${ON[run.status] ?? `is ${run.status.replace("_", " ")}`}.`;
  }
}

const ON = {
  running: "goes on",
  interrupted: "goes on when it is resumed: nobody holds it at the moment",
  waiting: "has gone on, and waits for something else",
  completed: "has completed",
  failed: "has gone on and failed",
};

needs.querySelectorAll("[data-wait]").forEach(prepare);
for (const time of needs.querySelectorAll("[data-until]")) {
  if (Date.parse(time.dateTime) < Date.now()) time.after(" · time is over");
}
at("fresh").addEventListener("click", () => location.reload());
walkLists();
followList(new URLSearchParams({ all_kinds: "true", after: needs.dataset.place }), {
  onChange: take,
  onAgain: () => {
    at("fresh").hidden = false;
  },
});
