// Verifies a recording: everything is hashed again, and compared with what the recording says (docs/format.md, 8.1).
import { Broken, Recording } from "./recording.js";
import { bytesOf, unhex, utf8 } from "./sha256.js";
import { TooLarge, canonical, expand, readStrict } from "./values.js";

export const BEHAVIOURAL = new Set([
  "StateUpdated", "ActionRequested", "ActionSucceeded", "ActionFailed", "ActionDenied", "Interrupted", "Resumed",
  "WaitCreated", "WaitResolved", "SignalReceived", "Completed", "Failed", "Cancelled",
]);
export const TERMINAL = new Set(["Completed", "Failed", "Cancelled"]);
export const ANSWERS = new Map([
  ["ActionSucceeded", "ActionRequested"],
  ["ActionFailed", "ActionRequested"],
  ["ActionDenied", "ActionRequested"],
  ["Resumed", "Interrupted"],
  ["WaitResolved", "WaitCreated"],
]);
const OPENING = new Set(ANSWERS.values());
const OPERATIONS = new Set([
  "RunRetired", "ContentErased", "OperationNoted", "KeyRotated", "CheckpointPublished",
]);
const BOOKKEEPING = new Set([
  "AttemptRecorded", "ChunkReceived", "EffectSettled", "TurnTaken", "ProcessAttached", "ValuesDrawn", "SnapshotTaken",
  "InputSent", "OutputPrinted", "FilesObserved", "FilesWritten", "BudgetReserved", "RunReleased",
]);
const LEFT_OUT = new Set([
  "action_id", "attempt_id", "wait_id", "idempotency_key", "duration_us", "started", "ended", "deadline", "before",
  "after", "process", "nonce", "meta", "by", "why",
]);
const NAME = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
const EVENT_ID = /^[A-Za-z0-9_-]{1,64}$/;
const LANE = /^main(?:@[1-9][0-9]{0,8})?(?:>[^>/\u0000-\u001f\u007f\ud800-\udfff]*)*$/u;
const MOST_LANE_BYTES = 512;
const LINK_MEMBERS = ["content", "id", "key", "kind", "lane", "parent", "prev", "run", "seq", "time"];
const HEADER_MEMBERS = ["content", "created", "format", "kind", "namespace", "parent", "reducer", "rules", "run"];
const MOST_RECORD_BYTES = 16 * 1024;
const MOST_PROBLEMS = 100;
const MOST_MEANT = 64 * 1024 * 1024; // characters of meaning that are hashed again: conversations repeat themselves
const SLICE_MS = 25;

/** A line as it was before it was put into the page: `<` stands there as an escape. Escapes are taken from the left. */
export function unescaped(line) {
  if (!line.includes("\\u003c")) return line;
  return line.replace(/\\(u003c|[\s\S])/g, (all, one) => (one === "u003c" ? "<" : all));
}

function isLane(lane) {
  return typeof lane === "string" && LANE.test(lane) && utf8(lane).length <= MOST_LANE_BYTES;
}

function integer(value) {
  return value?.isInteger && Number.isSafeInteger(value.value) ? value.value : null;
}

/** Lets the page draw and answer from time to time. */
export function sliced(pause) {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < SLICE_MS) return;
    await pause();
    began = performance.now();
  };
}

export const nextTask = () => new Promise((go) => setTimeout(go, 0));

/**
 * `onProgress(done, of)` is told how far it is. What comes back:
 * { valid, problems: [{ seq, line, message }], events, verified, hashes, meanings, head, recording, links }
 */
export async function verify(text, { onProgress = () => {}, pause = nextTask } = {}) {
  const checking = new Checking(text, onProgress, sliced(pause));
  try {
    await checking.read();
    await checking.header();
    await checking.events();
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    checking.problem(error.seq, error.message, error.line);
    checking.stopped = true;
  }
  return checking.result();
}

class Checking {
  stopped = false;
  #problems = [];
  #bad = new Set();
  #count = 0;
  #links = [];
  #ids = new Set();
  #open = new Map(); // seq → kind, of what has no answer yet
  #ended = null;
  #head = null;
  #after = undefined; // the state link of the last update; null where it cannot be known
  #meanings = 0;
  #meant = 0;
  #volatile = null; // paths that rules of the run's own leave out; null where these are gone

  constructor(text, onProgress, breathe) {
    Object.assign(this, { text, onProgress, breathe, recording: new Recording() });
  }

  problem(seq, message, line = null) {
    this.#count += 1;
    if (seq !== null) this.#bad.add(seq);
    if (this.#problems.length < MOST_PROBLEMS) this.#problems.push({ seq, line, message });
  }

  async read() {
    const { text, recording } = this;
    let at = 0;
    while (at < text.length) {
      const stop = text.indexOf("\n", at);
      if (stop < 0) throw recording.fail("the recording is cut short");
      await recording.take(unescaped(text.slice(at, stop)));
      at = stop + 1;
      this.onProgress(at / text.length / 2);
      await this.breathe();
    }
    recording.finish();
  }

  async header() {
    const { header } = this.recording;
    const members = record(header.text, HEADER_MEMBERS, "header", { seq: 0, line: 1 });
    this.run = members.get("run");
    this.isOperations = members.get("kind") === "operations";
    this.builtIn = members.get("reducer") === "replace/1";
    if (members.get("format") !== "onrecord/1") throw new Broken("the header names a format that is not read here", { seq: 0, line: 1 });
    if (!NAME.test(this.run) || !NAME.test(members.get("namespace")) || integer(members.get("created")) === null) {
      throw new Broken("the header has an invalid run, namespace or time", { seq: 0, line: 1 });
    }
    if ((await this.recording.hash("onrecord.header/1", utf8(header.text))) !== header.hash) {
      this.problem(0, "the header does not match its hash", 1);
    }
    this.#head = header.hash;
    const facts = await this.#committed(0, "Header", header, members.get("content"), "the facts do not match the header");
    await this.#rules(facts, members.get("rules"), header.match);
  }

  /** The match rules: those of the format, and paths that the facts add. */
  async #rules(facts, named, match) {
    if (facts === null) {
      this.#volatile = named === "onrecord.rules/1" ? [] : null;
      return;
    }
    const given = facts instanceof Map ? facts.get("volatile") ?? [] : [];
    const paths = (Array.isArray(given) ? given : []).map(plainPair).sort(byCodePoints);
    const written = `[${paths.map(([kind, path]) => `[${JSON.stringify(kind)},${JSON.stringify(path)}]`).join(",")}]`;
    const digest = paths.length > 0 ? `+${await this.recording.hash("onrecord.value/1", utf8(written))}` : "";
    this.#volatile = paths;
    if (`onrecord.rules/1${digest}` !== named || (await this.#match("Header", facts)) !== match) {
      this.problem(0, "the match rules are not those the header names", 1);
      this.#volatile = null;
    }
  }

  async events() {
    const { recording } = this;
    for (let seq = 1; seq <= recording.links.length; seq += 1) {
      await this.#event(seq, recording.contents[seq - 1], recording.links[seq - 1]);
      this.onProgress(0.5 + seq / recording.links.length / 2);
      await this.breathe();
    }
    if (recording.end.head !== this.#head) this.problem(recording.end.events, "the end names another head", recording.line);
  }

  async #event(seq, content, link) {
    const { recording } = this;
    const members = record(link.text, LINK_MEMBERS, "link", { seq });
    const kind = members.get("kind");
    if (kind !== content.kind) throw new Broken(`it is a ${kind} in its link and a ${content.kind} in its content`, { seq });
    const place = this.#place(seq, members);
    if (place) this.problem(seq, `the link ${place}`);
    const hash = await recording.hash("onrecord.link/1", utf8(link.text));
    if (hash !== link.hash) this.problem(seq, "the link does not match its hash");
    this.#head = hash;
    this.#links.push(members);
    this.#answers(seq, kind, integer(members.get("parent")));
    const beside = { ...link, stored: content.stored };
    const tree = await this.#committed(seq, kind, beside, members.get("content"), "the content does not match the link");
    await this.#state(seq, kind, link.salt, tree);
    await this.#meaning(seq, kind, link.match, tree);
  }

  /** Why this link cannot stand here, or null. */
  #place(seq, members) {
    const id = members.get("id");
    const [parent, key] = [members.get("parent"), members.get("key")];
    const cause = parent === null ? null : integer(parent);
    if (members.get("run") !== this.run) return "belongs to another run";
    if (integer(members.get("seq")) !== seq) return "says that it stands elsewhere";
    if (members.get("prev") !== this.#head) return "does not follow the event before it";
    if (parent !== null && !(cause >= 1 && cause < seq)) return "names a causal parent that is not before it";
    if (!(integer(members.get("time")) >= 0) || !EVENT_ID.test(id) || !isLane(members.get("lane"))) {
      return "has an invalid id, lane or time";
    }
    if (id.startsWith("_") && !id.endsWith(`_${seq.toString(16)}`)) return "has an id that does not end with its seq";
    if (key !== null && (typeof key !== "string" || [...key].length > 1024)) return "has a key that is no text, or too long";
    if (this.#ids.has(id)) return "has an id that stands in the run already";
    this.#ids.add(id);
    if (this.#ended) return `follows ${this.#ended}, which ends a run`;
    return !this.isOperations && OPERATIONS.has(members.get("kind")) ? "is of a kind that has no place here" : null;
  }

  #answers(seq, kind, parent) {
    if (TERMINAL.has(kind)) this.#ended = kind;
    if (OPENING.has(kind)) this.#open.set(seq, kind);
    if (!ANSWERS.has(kind) || (parent === null && kind === "ActionDenied")) return;
    if (this.#open.get(parent) !== ANSWERS.get(kind)) this.problem(seq, `it is no answer to an open ${ANSWERS.get(kind)}`);
    this.#open.delete(parent);
  }

  /**
   * The content, with its shared values in place; null where it is erased, or not the one that is committed to;
   * undefined where it is too much for a browser. What it is made of was hashed all the same.
   */
  async #committed(seq, kind, { salt, match, stored }, committed, otherwise) {
    if (stored === null || salt === null || match === null) {
      if (stored !== null || salt !== null || match !== null) this.problem(seq, "the content is half erased");
      return null;
    }
    const found = await this.recording.hash("onrecord.commit/1", unhex(salt), bytesOf(match), utf8(stored));
    if (found !== committed) {
      this.problem(seq, otherwise);
      return null;
    }
    // Whoever repeats a conversation a thousand times is believed after a while: what it is made of was hashed.
    const wanted = this.#meant < MOST_MEANT || kind === "StateUpdated" || kind === "Header";
    return wanted ? this.#expanded(seq, stored) : undefined;
  }

  #expanded(seq, stored) {
    try {
      return expand(readStrict(stored), this.recording.nodes);
    } catch (error) {
      if (error instanceof TooLarge) return undefined;
      this.problem(seq, error.message);
      return null;
    }
  }

  /** States are chained: each update names the one before it (section 9). */
  async #state(seq, kind, salt, tree) {
    if (kind !== "StateUpdated") return;
    if (!(tree instanceof Map)) {
      this.#after = null;
      return;
    }
    const [before, after] = [tree.get("before") ?? null, tree.get("after") ?? null];
    const first = this.#after === undefined;
    if (first ? before !== null : this.#after !== null && before !== this.#after) {
      this.problem(seq, "the state before is not the one left by the update before");
    }
    this.#after = after;
    if (!this.builtIn || after === null) return;
    const state = utf8(canonical(tree.get("payload") ?? null));
    if ((await this.recording.hash("onrecord.statelink/1", unhex(salt), state)) !== after) {
      this.problem(seq, "the state after is not the one recorded");
    }
  }

  async #meaning(seq, kind, match, tree) {
    const known = BEHAVIOURAL.has(kind) || BOOKKEEPING.has(kind) || OPERATIONS.has(kind);
    if (!(tree instanceof Map) || this.#volatile === null || !known) return;
    this.#meanings += 1;
    if ((await this.#match(kind, tree)) !== match) this.problem(seq, "the match digest is not that of the content");
  }

  /** The match digest: what an event means, without what differs between two equal runs (section 6). */
  async #match(kind, tree) {
    let masked = tree;
    if (tree instanceof Map) masked = new Map([...tree].filter(([name]) => !LEFT_OUT.has(name)));
    for (const [which, path] of this.#volatile) {
      if (which === "*" || which === kind) masked = without(masked, path.split("/").slice(1));
    }
    const text = `{"content":${canonical(masked)},"kind":${JSON.stringify(kind)}}`;
    this.#meant += text.length;
    return this.recording.hash("onrecord.match/1", utf8(text));
  }

  result() {
    const { recording } = this;
    const events = recording.contents.length;
    return {
      valid: this.#count === 0,
      problems: this.#problems,
      problemCount: this.#count,
      events,
      verified: this.stopped ? Math.max(0, this.#links.length - this.#bad.size) : events - [...this.#bad].filter(Boolean).length,
      hashes: recording.hashes,
      meanings: this.#meanings,
      erased: recording.contents.filter((content) => content.stored === null).length,
      head: this.#head,
      ended: this.#ended,
      run: this.run ?? null,
      links: this.#links,
      recording,
    };
  }
}

/** A header or link: exactly these members, in canonical form. */
function record(text, names, what, where) {
  if (utf8(text).length > MOST_RECORD_BYTES) throw new Broken(`the ${what} is too large`, where);
  let members;
  try {
    members = readStrict(text);
  } catch {
    throw new Broken(`the ${what} is not well formed`, where);
  }
  if (canonical(members) !== text) throw new Broken(`the ${what} is not in canonical form`, where);
  if ([...members.keys()].join() !== names.join()) throw new Broken(`the ${what} has other members than it must`, where);
  const texts = names.filter((name) => !["key", "parent", "seq", "time", "created"].includes(name));
  if (texts.some((name) => typeof members.get(name) !== "string")) throw new Broken(`the ${what} is not well formed`, where);
  return members;
}

function plainPair(pair) {
  return Array.isArray(pair) ? pair.map(String) : ["", ""];
}

function byCodePoints([kindA, pathA], [kindB, pathB]) {
  return compareText(kindA, kindB) || compareText(pathA, pathB);
}

function compareText(a, b) {
  const [left, right] = [[...a], [...b]];
  for (let i = 0; i < Math.min(left.length, right.length); i += 1) {
    if (left[i] !== right[i]) return left[i].codePointAt(0) - right[i].codePointAt(0);
  }
  return left.length - right.length;
}

/** The value without what a volatile path names: a member is removed, an item becomes null. */
function without(value, steps) {
  if (steps.length === 0) return value;
  const [step, ...rest] = steps;
  const name = step.replaceAll("~1", "/").replaceAll("~2", "*").replaceAll("~0", "~");
  if (value instanceof Map) {
    const hit = (key) => step === "*" || key === name;
    const kept = [...value].filter(([key]) => rest.length > 0 || !hit(key));
    return new Map(kept.map(([key, inner]) => [key, hit(key) ? without(inner, rest) : inner]));
  }
  if (!Array.isArray(value)) return value;
  const hit = (index) => step === "*" || String(index) === name;
  return value.map((inner, index) => (!hit(index) ? inner : rest.length === 0 ? null : without(inner, rest)));
}
