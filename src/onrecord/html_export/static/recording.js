// An exported recording, line by line (docs/format.md, section 8). Lines are cut up and never written anew:
// what is hashed are the bytes as they stand.
import { tagged, utf8 } from "./sha256.js";
import { partsIn, readStrict } from "./values.js";

const HASH = "sha256:[0-9a-f]{64}";
const BESIDE = `,"salt":(null|"[0-9a-f]{32}"),"match":(null|"${HASH}"),"hash":"(${HASH})"`;
const FIRST = new RegExp(
  `^\\{"onrecord":"recording","format":1,"header":(\\{.*?\\})${BESIDE},(?:"erased":true|"stored":(\\{.*\\}))\\}$`,
  "s",
);
const NODE = new RegExp(`^\\{"node":"(${HASH})","stored":(.*)\\}$`, "s");
const ARTIFACT = new RegExp(
  `^\\{"artifact":"(${HASH})","parts":([1-9][0-9]{0,3}),"part":(0|[1-9][0-9]{0,3}),"base64":"([A-Za-z0-9+/=]*)"\\}$`,
);
const CONTENT = /^\{"seq":([1-9][0-9]{0,15}),"kind":"([A-Za-z]{1,64})",(?:"erased":true|"stored":(\{.*\}))\}$/s;
const LINK = new RegExp(`^\\{"link":(\\{.*\\})${BESIDE}\\}$`, "s");
const END = new RegExp(`^\\{"end":\\{"events":(0|[1-9][0-9]{0,15}),"head":"(${HASH})"\\}\\}$`);
const REFERENCE = /^\{"\$(?:node|list|string)":/;
const PART_BYTES = 4 * 1024 * 1024;
const MOST_NOTES = 1000;

/** What is wrong, and where: the line of the recording, and the event where there is one. */
export class Broken extends Error {
  constructor(message, { line = null, seq = null } = {}) {
    super(message);
    Object.assign(this, { line, seq });
  }
}

const unquoted = (text) => (text === "null" ? null : text.slice(1, -1));

export class Recording {
  header = null; // { text, salt, match, hash, stored }
  nodes = new Map(); // address → stored text
  artifacts = new Map(); // address → size in bytes
  contents = []; // { kind, stored }, stored being null once erased
  links = []; // { text, salt, match, hash }
  end = null;
  notes = 0;
  line = 0;
  hashes = 0; // how many were recomputed
  #unused = new Set(); // parts that stand there and whose user has not come yet
  #wait = new Set(); // parts that the header needs
  #pieces = null; // of an artifact that is not complete yet

  fail(message, seq = null) {
    return new Broken(message, { line: this.line, seq });
  }

  async hash(tag, ...parts) {
    this.hashes += 1;
    return tagged(tag, ...parts);
  }

  /** Takes the next line. */
  async take(line) {
    this.line += 1;
    if (this.header === null) this.#first(line);
    else if (this.end !== null) this.#note(line);
    else if (line.startsWith('{"link":') || line.startsWith('{"end":')) this.#behindContents(line);
    else if (this.links.length > 0) throw this.fail("it stands between the links");
    else await this.#part(line);
  }

  finish() {
    if (this.end === null) throw this.fail("the recording is cut short");
  }

  #first(line) {
    const found = FIRST.exec(line);
    if (!found) throw this.fail("this is no recording: its first line is no header");
    const [, text, salt, match, hash, stored] = found;
    this.header = { text, salt: unquoted(salt), match: unquoted(match), hash, stored: stored ?? null };
    for (const [, address] of stored === undefined ? [] : this.#read(stored)) this.#wait.add(address);
  }

  async #part(line) {
    let found = NODE.exec(line);
    if (found) return this.#node(found[1], found[2]);
    found = ARTIFACT.exec(line);
    if (found) return this.#artifact(found[1], Number(found[2]), Number(found[3]), found[4]);
    found = CONTENT.exec(line);
    if (found) return this.#content(Number(found[1]), found[2], found[3] ?? null);
    throw this.fail("the line is none of a recording", this.contents.length + 1);
  }

  async #node(address, stored) {
    this.#offer(address);
    if ((await this.hash("onrecord.node/1", utf8(stored))) !== address) {
      throw this.fail("a shared value does not match its address", this.contents.length + 1);
    }
    this.#use(this.#read(stored));
    this.nodes.set(address, stored);
  }

  async #artifact(address, parts, part, base64) {
    if (part === 0) {
      this.#offer(address);
      this.#pieces = { address, parts, data: [] };
    }
    const open = this.#pieces;
    if (!open || open.address !== address || open.parts !== parts || open.data.length !== part) {
      throw this.fail("parts of an artifact are out of order", this.contents.length + 1);
    }
    const data = fromBase64(base64);
    const last = part === parts - 1;
    if (data === null || (last ? data.length === 0 || data.length > PART_BYTES : data.length !== PART_BYTES)) {
      throw this.fail("a part of an artifact is not what the format says", this.contents.length + 1);
    }
    open.data.push(data);
    if (!last) return;
    this.#pieces = null;
    if ((await this.hash("onrecord.artifact/1", ...open.data)) !== address) {
      throw this.fail("an artifact does not match its address", this.contents.length + 1);
    }
    this.artifacts.set(address, open.data.reduce((sum, piece) => sum + piece.length, 0));
  }

  #content(seq, kind, stored) {
    if (seq !== this.contents.length + 1) {
      throw this.fail(`the content of event ${this.contents.length + 1} is missing or out of order`, seq);
    }
    this.contents.push({ kind, stored });
    if (stored !== null) {
      if (REFERENCE.test(stored)) throw this.fail("a content is an object, not a reference to one", seq);
      this.#use(this.#read(stored));
    }
    this.#allUsed();
  }

  #read(stored) {
    try {
      return partsIn(readStrict(stored));
    } catch (error) {
      throw this.fail(error.message, this.contents.length || null);
    }
  }

  #offer(address) {
    if (this.#pieces) throw this.fail("an artifact is incomplete");
    if (this.nodes.has(address) || this.artifacts.has(address)) throw this.fail(`${address} stands here a second time`);
    if (!this.#wait.delete(address)) this.#unused.add(address);
  }

  #use(parts) {
    for (const [, address, size] of parts) {
      if (!this.nodes.has(address) && !this.artifacts.has(address)) {
        throw this.fail(`${address} is needed here and does not stand before`, this.contents.length || null);
      }
      if (size !== null && size?.spelling !== String(this.artifacts.get(address))) {
        throw this.fail(`artifact ${address} does not have the size that is named here`, this.contents.length || null);
      }
      this.#unused.delete(address);
    }
  }

  #allUsed() {
    if (this.#pieces) throw this.fail("an artifact is incomplete");
    for (const address of this.#unused) throw this.fail(`${address} is not needed here`);
    for (const address of this.#wait) throw this.fail(`${address} is needed by the header and missing`);
  }

  #behindContents(line) {
    if (this.links.length === 0) this.#allUsed();
    if (line.startsWith('{"end":')) {
      this.#end(line);
      return;
    }
    const seq = this.links.length + 1;
    const found = LINK.exec(line);
    if (!found || seq > this.contents.length) throw this.fail("the link is not well formed, or one too many", seq);
    this.links.push({ text: found[1], salt: unquoted(found[2]), match: unquoted(found[3]), hash: found[4] });
  }

  #end(line) {
    const found = END.exec(line);
    const events = this.contents.length;
    if (!found) throw this.fail("the end line is not well formed");
    if (this.links.length !== events) throw this.fail(`the link of event ${this.links.length + 1} is missing`);
    if (Number(found[1]) !== events) throw this.fail(`the end line speaks of ${found[1]} events, there are ${events}`);
    this.end = { events, head: found[2] };
  }

  #note(line) {
    this.notes += 1;
    if (!line.startsWith('{"note":') || !line.endsWith("}") || this.notes > MOST_NOTES) {
      throw this.fail("only notes may follow the end line");
    }
  }
}

/** The bytes, or null where the text is not the one spelling that they have. */
function fromBase64(text) {
  try {
    const binary = atob(text);
    return btoa(binary) === text ? Uint8Array.from(binary, (one) => one.charCodeAt(0)) : null;
  } catch {
    return null;
  }
}
