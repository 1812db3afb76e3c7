// What is about to be sent is shown before, as it will be sent.
import { at, h, inert } from "./dom.js";

/** Resolves to true when somebody has said so. */
export function isSure(what, body) {
  const dialog = at("sure") ?? document.body.appendChild(made()); // one for all forms of the page
  at("sure-what").textContent = inert(what);
  at("sure-body").textContent = inert(JSON.stringify(body, null, 2));
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

function made() {
  return h("dialog", { id: "sure", "aria-labelledby": "sure-title" },
    h("h2", { id: "sure-title" }, "Is that right?"),
    h("p", { id: "sure-what" }),
    h("pre", { id: "sure-body", tabindex: "0" }),
    h("p", { class: "soft" }, "The first word on it stands. It cannot be taken back."),
    h("form", { method: "dialog", class: "row" },
      h("button", { value: "yes", class: "main", id: "sure-yes" }, "Send it"),
      h("button", { value: "no" }, "Not yet")));
}

/** One at a time: a second click while the first is on its way does nothing. */
export async function sendOnce(form, work) {
  const buttons = [...form.querySelectorAll("button")];
  const problem = form.querySelector("[data-problem]");
  if (form.dataset.sending) return;
  form.dataset.sending = "yes";
  problem.hidden = true;
  buttons.forEach((button) => (button.disabled = true));
  try {
    await work();
  } catch (error) {
    problem.textContent = inert(`${error.message}. ${error.hint ?? ""}`);
    problem.hidden = false;
  } finally {
    delete form.dataset.sending;
    buttons.forEach((button) => (button.disabled = false));
  }
}

export function parsed(text, what) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw Object.assign(new Error(`${what} is not JSON`), { hint: 'Text needs quotes of its own: "yes".' });
  }
  if (!isExact(value)) {
    const hint = "A browser would round it: send it with the command line, or as text.";
    throw Object.assign(new Error(`${what} holds a number that is too large`), { hint });
  }
  return value;
}

/** What is sent is what was typed: no number that this language cannot hold. */
function isExact(value) {
  if (typeof value === "number") return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
  return typeof value !== "object" || value === null || Object.values(value).every(isExact);
}
