// The run in a recording, as far as it can be read. Nothing is kept twice: a content is read when it is looked at.
import { TooLarge, expand, readStrict, tagOf } from "./values.js";
import { ANSWERS, BEHAVIOURAL } from "./verify.js";

const ENDS = { Completed: "completed", Failed: "failed", Cancelled: "cancelled" };

export class SharedRun {
  #outlines = new Map();
  #span = null;

  constructor(result) {
    this.result = result;
    this.recording = result.recording;
    this.name = result.run ?? "an unreadable run";
    this.length = this.recording.contents.length;
    this.bad = new Map(result.problems.filter((one) => one.seq !== null).map((one) => [one.seq, one.message]));
    this.status = ENDS[result.ended] ?? "not ended";
  }

  get facts() {
    const stored = this.recording.header?.stored ?? null;
    return stored === null ? null : this.#whole(stored);
  }

  /** When the run began, in microseconds. */
  get created() {
    const found = /"created":([0-9]{1,16}),/.exec(this.recording.header?.text ?? "");
    return found ? Number(found[1]) : null;
  }

  /** When its first and its last event were recorded. */
  get span() {
    this.#span ??= [this.link(1)?.time ?? null, this.link(this.length)?.time ?? null];
    return this.#span;
  }

  kind(seq) {
    return this.recording.contents[seq - 1].kind;
  }

  isBehaviour(seq) {
    return BEHAVIOURAL.has(this.kind(seq));
  }

  /** What the link says, where it could be read: lane, time, key, parent, id. */
  link(seq) {
    const members = this.result.links[seq - 1];
    if (!members) return null;
    const number = (name) => members.get(name)?.value ?? null;
    return {
      id: members.get("id"), lane: members.get("lane"), key: members.get("key"),
      time: number("time"), parent: number("parent"), hash: this.recording.links[seq - 1].hash,
      match: this.recording.links[seq - 1].match,
    };
  }

  /** The top of a content, without what it shares. */
  outline(seq) {
    if (!this.#outlines.has(seq)) {
      if (this.#outlines.size > 2000) this.#outlines.clear();
      const { stored } = this.recording.contents[seq - 1];
      this.#outlines.set(seq, stored === null ? null : quietly(() => readStrict(stored)));
    }
    return this.#outlines.get(seq);
  }

  /** The whole content; null once it is erased. */
  content(seq) {
    const { stored } = this.recording.contents[seq - 1];
    return stored === null ? null : this.#whole(stored);
  }

  /** What an event is called: an answer is called as its request is. */
  label(seq) {
    const name = this.outline(seq)?.get?.("name");
    if (typeof name === "string") return name;
    const parent = ANSWERS.has(this.kind(seq)) ? this.link(seq)?.parent : null;
    return parent && parent < seq ? this.label(parent) : "";
  }

  effect(seq) {
    const effect = this.outline(seq)?.get?.("effect");
    return typeof effect === "string" ? effect : "";
  }

  /** Most contents are not read for it. */
  asksModel(seq) {
    const { kind, stored } = this.recording.contents[seq - 1];
    return kind === "ActionRequested" && stored !== null && stored.includes("model_call") && this.effect(seq) === "model_call";
  }

  /** How long an answer took, in microseconds. */
  took(seq) {
    const link = ANSWERS.has(this.kind(seq)) ? this.link(seq) : null;
    const asked = link?.parent ? this.link(link.parent) : null;
    return asked?.time != null && link.time != null ? Math.max(0, link.time - asked.time) : null;
  }

  #whole(stored) {
    try {
      return expand(readStrict(stored), this.recording.nodes);
    } catch (error) {
      // The verdict says what is wrong with it, if something is.
      return error instanceof TooLarge ? new Map([["too large to be shown here", "`onrecord import` reads it"]]) : new Map();
    }
  }
}

function quietly(read) {
  try {
    return read();
  } catch {
    return null; // the verdict says what is wrong with it
  }
}

/** An encoded value as JSON would say it: what an object holds, without what it was. */
export function plain(value, depth = 64) {
  if (depth === 0) return value;
  const tag = tagOf(value);
  const inner = tag && value.get(tag);
  if (tag === "$object" && inner instanceof Map && inner.get("fields") instanceof Map) return plain(inner.get("fields"), depth - 1);
  if (["$tuple", "$set", "$frozenset"].includes(tag) && Array.isArray(inner)) return plain(inner, depth - 1);
  if (tag === "$json" && inner instanceof Map) return plain(inner.get("value"), depth - 1);
  if (value instanceof Map) return new Map([...value].map(([name, one]) => [name, plain(one, depth - 1)]));
  return Array.isArray(value) ? value.map((one) => plain(one, depth - 1)) : value;
}
