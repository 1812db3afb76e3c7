// What a model saw, message by message, each labelled against the call before.
import { h, inert } from "./dom.js";
import { amount } from "./run-words.js";
import { tree } from "./tree.js";

export function context(told) {
  const counts = Object.entries(told.counts).map(([label, count]) => `${amount(count)} ${label}`).join(", ");
  const before = told.before ? `Against event ${told.before.seq}${told.before.run === told.run ? "" : ` of run ${told.before.run}`}: ${counts}` : "No model was asked before.";
  return [
    h("p", { class: "soft" }, inert(before)),
    told.goes_on_from ? h("p", { class: "notice small" }, `It goes on from ${inert(told.goes_on_from)}, which the provider keeps.`) : null,
    told.cut ? h("p", { class: "notice small" }, "Long parts are cut short.") : null,
    told.tools?.length ? h("p", { class: "small" }, "Tools: ", told.tools.map((name) => [h("span", { class: "chip" }, inert(name)), " "]).flat()) : null,
    h("ol", { class: "context" }, (Array.isArray(told.messages) ? told.messages : []).map(message)),
  ].filter(Boolean);
}

function message(one) {
  if (typeof one !== "object" || one === null) return h("li", { class: "soft" }, inert(one));
  const words = one.words?.runs?.map((run) => h("span", { class: { added: "word-added", removed: "word-removed" }[run.kind] ?? "" }, inert(run.text)));
  const label = one.label && one.label !== "SAME" ? h("span", { class: "chip label", "data-label": one.label }, one.label) : null;
  return h("li", { class: one.label === "SAME" ? "same" : null },
    h("p", { class: "role" }, inert(one.role ?? ""), " ", label),
    h("div", { class: "said" }, words ?? inert(one.text ?? "")),
    (one.calls ?? []).map((call) => h("div", { class: "asks" }, h("span", { class: "chip" }, "calls ", h("b", {}, inert(call.name ?? "?"))), tree(call.input ?? {}))),
    (one.results ?? []).map((result) => h("div", { class: "asks" }, h("span", { class: "chip" }, "result"), tree(result))));
}
