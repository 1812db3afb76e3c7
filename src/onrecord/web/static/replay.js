// The plots of a replay report: what both runs used and took, step by step.
import { given, inert } from "./dom.js";
import { walkLists } from "./list.js";
import { plotted } from "./plot.js";

const SAY = {
  tokens: (value) => Math.round(value).toLocaleString("en"),
  cost: (value) => (value === 0 ? "$0" : `$${value.toFixed(value >= 1 ? 2 : value >= 0.01 ? 4 : 6)}`),
  latency: (value) => (value < 1_000_000 ? `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} ms` : `${(value / 1_000_000).toFixed(1)} s`),
};

const { steps } = given("given");
const first = Number(document.querySelector("table.steps tbody tr")?.id.slice("step-".length) ?? 1);

for (const figure of document.querySelectorAll(".plot")) {
  const { measure } = figure.dataset;
  const pairs = (steps ?? []).map((step, index) => ({
    number: first + index, name: inert(step.name), was: step.expected[measure], came: step.actual[measure],
  }));
  if (pairs.length > 0) figure.querySelector(".plot-room").append(plotted(pairs, { title: measure, say: SAY[measure] }));
}
walkLists();
