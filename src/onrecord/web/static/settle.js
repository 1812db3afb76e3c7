// Settles effects in doubt, wherever _settle.html stands. See there for how it is included.
import { post } from "./api.js";
import { say } from "./dom.js";
import { isSure, parsed, sendOnce } from "./sure.js";

const DONE = {
  done: "Settled as done. The run goes on when it is resumed.",
  retry: "It will be done again when the run is resumed.",
  fail: "Settled as failed. The run goes on when it is resumed.",
};

function settlement(card, form) {
  const body = { effect: Number(card.dataset.effect), decision: form.elements.decision.value };
  if (body.decision === "done") body.value = parsed(form.elements.value.value, "the value");
  if (body.decision === "fail") {
    body.message = form.elements.message.value.trim();
    if (!body.message) throw Object.assign(new Error("a failure needs a message"), { hint: "The agent sees it." });
  }
  return body;
}

function prepare(card) {
  const form = card.querySelector("[data-settling]");
  form.addEventListener("change", () => {
    const chosen = form.elements.decision.value;
    for (const field of form.querySelectorAll("[data-for]")) field.hidden = field.dataset.for !== chosen;
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sendOnce(form, async () => {
      const body = settlement(card, form);
      if (!(await isSure(`Event ${card.dataset.effect} of run ${card.dataset.run} is settled as:`, body))) return;
      await post(`/runs/${encodeURIComponent(card.dataset.run)}/settle`, body);
      form.hidden = true;
      card.classList.add("answered");
      card.querySelector("[data-outcome]").textContent = `${DONE[body.decision]} onrecord resume ${card.dataset.run}`;
      say(DONE[body.decision]);
      card.dispatchEvent(new CustomEvent("settled", { bubbles: true, detail: { run: card.dataset.run, effect: body.effect } }));
    });
  });
}

document.querySelectorAll("[data-settle]").forEach(prepare);
