// Two series of numbers beside each other, as a small picture with a table behind it.
import { h } from "./dom.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 400;
const HEIGHT = 150;
const ROOM = { left: 56, right: 6, top: 8, bottom: 20 };
const MOST_DOTS = 60;
const MOST_POINTS = 400;

function s(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** `pairs`: [{ number, name, was, came }], null where there is nothing. `say` writes a number for people. */
export function plotted(pairs, { title, say }) {
  const told = pairs.filter(({ was, came }) => was !== null || came !== null);
  if (told.length === 0) return h("p", { class: "soft" }, `No step says anything about ${title}.`);
  const top = Math.max(...told.flatMap(({ was, came }) => [was ?? 0, came ?? 0]), 1e-9);
  const scale = { x: place(pairs), y: (value) => HEIGHT - ROOM.bottom - (value / top) * (HEIGHT - ROOM.top - ROOM.bottom) };
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  picture.setAttribute("aria-label", summary(told, title, say));
  picture.append(...axes(pairs, top, scale, say), ...(told.length <= MOST_DOTS ? dots(told, scale, say) : lines(told, scale)));
  // For a mouse. Whoever has none finds the same links in the table.
  picture.addEventListener("click", (event) => {
    const step = event.target.closest("[data-step]");
    if (step) location.hash = `step-${step.dataset.step}`;
  });
  return h("div", {}, picture, tableBehind(told, title, say));
}

function place(pairs) {
  const [first, last] = [pairs[0].number, pairs.at(-1).number];
  const wide = WIDTH - ROOM.left - ROOM.right;
  return (number) => ROOM.left + (last === first ? wide / 2 : ((number - first) / (last - first)) * wide);
}

function summary(told, title, say) {
  const both = told.filter(({ was, came }) => was !== null && came !== null);
  const changed = both.filter(({ was, came }) => was !== came).length;
  const most = both.reduce((far, one) => (Math.abs(one.came - one.was) > Math.abs(far.came - far.was) ? one : far), both[0]);
  const where = most && changed ? `; most at step ${most.number}: ${say(most.was)} to ${say(most.came)}` : "";
  return `${title} of ${told.length} steps, ${changed} differ${where}`;
}

function axes(pairs, top, { y }, say) {
  const ticks = [0, top / 2, top].map((value) => [
    s("line", { class: "axis", x1: ROOM.left, x2: WIDTH - ROOM.right, y1: y(value), y2: y(value) }),
    s("text", { x: ROOM.left - 6, y: y(value) + 4, "text-anchor": "end" }, say(value)),
  ]);
  const ends = [
    s("text", { x: ROOM.left, y: HEIGHT - 4 }, `step ${pairs[0].number}`),
    s("text", { x: WIDTH - ROOM.right, y: HEIGHT - 4, "text-anchor": "end" }, String(pairs.at(-1).number)),
  ];
  return [...ticks.flat(), ...(pairs.length > 1 ? ends : ends.slice(0, 1))];
}

/** Each step as two dots with a line between them: how far it drifted. */
function dots(told, { x, y }, say) {
  return told.map(({ number, name, was, came }) => {
    const at = x(number);
    const said = `${number} ${name}: ${was === null ? "–" : say(was)} → ${came === null ? "–" : say(came)}`;
    return s(
      "g",
      { "data-step": number },
      s("title", {}, said),
      was !== null && came !== null ? s("line", { class: "bond", x1: at, x2: at, y1: y(was), y2: y(came) }) : null,
      was === null ? null : s("circle", { class: "was", cx: at, cy: y(was), r: 5 }),
      came === null ? null : s("circle", { class: "came", cx: at, cy: y(came), r: 3.5 }),
    );
  });
}

function lines(told, { x, y }) {
  const every = Math.ceil(told.length / MOST_POINTS);
  return [["was", "was"], ["came", "came"]].map(([member, mark]) => {
    const points = told.filter((one, index) => index % every === 0 && one[member] !== null);
    const path = points.map((one, index) => `${index ? "L" : "M"}${x(one.number).toFixed(1)} ${y(one[member]).toFixed(1)}`);
    return s("path", { class: mark, d: path.join("") });
  });
}

function tableBehind(told, title, say) {
  const room = h("div", { class: "plot-table", tabindex: "0", role: "region", "aria-label": `${title} as a table` });
  const behind = h("details", {}, h("summary", {}, "As a table"), room);
  const cell = (value) => h("td", { class: "right" }, value === null ? "–" : say(value));
  behind.addEventListener("toggle", () => {
    const rows = told.map(({ number, name, was, came }) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: `#step-${number}` }, `${number} ${name}`)), cell(was), cell(came)));
    const heads = ["Step", "Run", "Replay"].map((text) => h("th", { scope: "col" }, text));
    room.replaceChildren(h("table", { class: "list" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows)));
  }, { once: true });
  return behind;
}
