// What was said to models and what they said, as far as it can be seen: each message once, where it was first sent.
import { h, inert } from "./dom.js";
import { count, pretty } from "./pretty.js";
import { plain } from "./shared_run.js";
import { ANSWERS, nextTask, sliced } from "./verify.js";

const PAGE = 60;
const TEXT_ROOM = 6_000;
const HELD_IN = ["messages", "input", "contents"];

/** Messages in their order: { seq, role, text, from: "asked" or "answered" }. */
export async function messagesOf(run) {
  const found = [];
  const breathe = sliced(nextTask);
  const answers = await answersOf(run, breathe);
  let before = [];
  for (const seq of answers.keys()) {
    await breathe();
    const asked = askedIn(plain(run.content(seq)?.get?.("payload"))).map((message) => told(message, "user"));
    const written = asked.map(key);
    let same = 0;
    while (same < before.length && same < written.length && before[same] === written[same]) same += 1;
    for (const message of asked.slice(same)) found.push({ seq, from: "asked", ...message });
    before = written;
    const answer = answers.get(seq);
    if (!answer) continue;
    const output = answeredIn(plain(run.content(answer)?.get?.("output")));
    if (output !== null) {
      found.push({ seq: answer, from: "answered", ...told(output, "assistant") });
      before = [...written, key(found.at(-1))];
    }
  }
  return found;
}

/** An answer comes back as a message of the next call: the same role, the same text, without what else it said. */
const key = ({ role, text }) => `${role}\n${text}`;

/** Calls of models, each with its answer, or null. */
async function answersOf(run, breathe) {
  const found = new Map();
  for (let seq = 1; seq <= run.length; seq += 1) {
    if (run.asksModel(seq)) found.set(seq, null);
    const parent = found.size > 0 && ANSWERS.has(run.kind(seq)) ? run.link(seq)?.parent : null;
    if (found.has(parent)) found.set(parent, seq);
    if (seq % 500 === 0) await breathe();
  }
  return found;
}

const member = (value, name) => (value instanceof Map ? value.get(name) : undefined);

function askedIn(payload) {
  const body = member(member(payload, "body"), "json") ?? payload;
  const system = ["system", "instructions"].map((name) => member(body, name)).filter((text) => text);
  const list = [body, ...(body instanceof Map ? body.values() : [])]
    .flatMap((held) => [held, ...HELD_IN.map((name) => member(held, name))])
    .find((held) => Array.isArray(held) && held.some((one) => member(one, "role")));
  const texts = body instanceof Map ? [...body.values()].filter((value) => typeof value === "string") : [];
  const first = system.map((text) => new Map([["role", "system"], ["content", text]]));
  const asText = texts.map((text) => new Map([["role", "user"], ["content", text]]));
  return [...first, ...(list ?? asText)];
}

function answeredIn(output) {
  const told = member(member(output, "body"), "json") ?? output;
  for (const [list, name] of [["choices", "message"], ["candidates", "content"]]) {
    const inner = member(member(told, list)?.[0], name);
    if (inner) return inner;
  }
  return told === undefined || told === null ? null : told;
}

function told(message, usual) {
  const role = member(message, "role");
  const content = member(message, "content") ?? member(message, "parts") ?? message;
  return { role: typeof role === "string" ? role : usual, text: textOf(content) };
}

function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return pretty(content, TEXT_ROOM).text;
  return content.map((part) => (typeof member(part, "text") === "string" ? member(part, "text") : pretty(part, TEXT_ROOM).text)).join("\n");
}

/** Shown when it is found: looking through a long run takes a moment, in which the page goes on. */
export function conversationView(run, goTo) {
  const room = h("div", {}, h("p", { class: "empty soft" }, "Looking for what was said…"));
  messagesOf(run).then((messages) => room.replaceChildren(listed(messages, goTo)));
  return room;
}

/** So many messages at once: a conversation may be as long as it likes. */
function listed(messages, goTo) {
  if (messages.length === 0) {
    return h("p", { class: "empty soft" }, "No call of a model was found in this run. The events tell what it did.");
  }
  const list = h("ol", { class: "chat" });
  const place = h("p", { class: "row" });
  let from = 0;
  const draw = () => {
    const shown = messages.slice(from, from + PAGE);
    list.replaceChildren(...shown.map((message) => bubble(message, goTo)));
    list.start = from + 1;
    const where = `${count(from + 1)}–${count(from + shown.length)} of ${count(messages.length)} messages`;
    place.replaceChildren(h("span", { class: "soft" }, where), ...turns());
  };
  const turn = (by) => () => {
    from += by;
    draw();
    list.scrollIntoView({ block: "start" });
  };
  const turns = () => [
    from > 0 ? h("button", { type: "button", onclick: turn(-PAGE) }, "Earlier") : null,
    from + PAGE < messages.length ? h("button", { type: "button", onclick: turn(PAGE) }, "Later") : null,
  ].filter(Boolean);
  draw();
  return h("div", { class: "stack" }, place, list);
}

function bubble({ seq, role, text, from }, goTo) {
  const cut = text.length > TEXT_ROOM;
  return h(
    "li",
    { class: "said", "data-from": from },
    h(
      "p",
      { class: "said-head" },
      h("strong", {}, inert(role)),
      h("button", { type: "button", class: "link", onclick: () => goTo(seq) }, `event ${seq}`),
    ),
    h("p", { class: "said-text" }, inert(cut ? `${text.slice(0, TEXT_ROOM)}…` : text)),
  );
}
