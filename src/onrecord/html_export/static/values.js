// JSON as recordings have it, read strictly, and its canonical form (RFC 8785).
//
// Objects become Maps: they keep the order of their keys, and a key called __proto__ is one like any other.
// Numbers keep their spelling, since 1 and 1.0 are two values to an agent.

const DEEPEST = 1000;
const MOST_DIGITS = 4300;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES = { '"': '"', "\\": "\\", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
// Short escapes where JSON has them, else \u00xx, and only for what cannot stand as itself.
const NEEDED = /u00(?:0[0-7bef]|1[0-9a-f])/y;

export class Numeral {
  constructor(spelling) {
    this.spelling = spelling;
  }

  get value() {
    return Number(this.spelling);
  }

  get isInteger() {
    return /^-?[0-9]+$/.test(this.spelling);
  }
}

/** The value of stored text. Throws for whatever the format refuses. */
export function readStrict(text) {
  const reading = { text, at: 0 };
  const value = readValue(reading, 1);
  if (reading.at !== text.length) throw new Error("something follows the value");
  return value;
}

function readValue(reading, depth) {
  if (depth > DEEPEST + 1) throw new Error(`nested deeper than ${DEEPEST}`);
  const { text, at } = reading;
  switch (text[at]) {
    case "{":
      return readObject(reading, depth);
    case "[":
      return readList(reading, depth);
    case '"':
      return readText(reading);
    default:
      for (const [word, value] of [["true", true], ["false", false], ["null", null]]) {
        if (text.startsWith(word, at)) {
          reading.at += word.length;
          return value;
        }
      }
      return readNumber(reading);
  }
}

function readNumber(reading) {
  NUMBER.lastIndex = reading.at;
  const found = NUMBER.exec(reading.text);
  if (!found) throw new Error("not JSON as the format has it");
  if (!Number.isFinite(Number(found[0])) || found[0].length > MOST_DIGITS) throw new Error("a number is too large");
  reading.at += found[0].length;
  return new Numeral(found[0]);
}

function readText(reading) {
  const { text } = reading;
  let made = "";
  reading.at += 1;
  for (;;) {
    PLAIN.lastIndex = reading.at;
    const plain = PLAIN.exec(text)[0];
    made += plain;
    reading.at += plain.length;
    const next = text[reading.at];
    if (next === '"') {
      reading.at += 1;
      return made;
    }
    if (next !== "\\") throw new Error("a text does not end, or holds a control character");
    const short = ESCAPES[text[reading.at + 1]];
    NEEDED.lastIndex = reading.at + 1;
    const long = NEEDED.exec(text);
    if (short === undefined && !long) throw new Error("stored text escapes characters that need no escape");
    made += short ?? String.fromCharCode(Number.parseInt(long[0].slice(1), 16));
    reading.at += short === undefined ? 6 : 2;
  }
}

function readList(reading, depth) {
  const items = [];
  reading.at += 1;
  if (ends(reading, "]")) return items;
  for (;;) {
    items.push(readValue(reading, depth + 1));
    if (ends(reading, "]")) return items;
    expect(reading, ",");
  }
}

function readObject(reading, depth) {
  const members = new Map();
  reading.at += 1;
  if (ends(reading, "}")) return members;
  for (;;) {
    if (reading.text[reading.at] !== '"') throw new Error("a key is not a text");
    const name = readText(reading);
    if (members.has(name)) throw new Error("a key stands twice in one object");
    expect(reading, ":");
    members.set(name, readValue(reading, depth + 1));
    if (ends(reading, "}")) return members;
    expect(reading, ",");
  }
}

function ends(reading, sign) {
  if (reading.text[reading.at] !== sign) return false;
  reading.at += 1;
  return true;
}

function expect(reading, sign) {
  if (!ends(reading, sign)) throw new Error("not JSON as the format has it");
}

/**
 * RFC 8785: sorted by UTF-16 code units, which is how JavaScript sorts; its numbers are those of ECMAScript.
 * The pairs of a `$dict` tag are sorted by their canonical bytes: key first, then value.
 */
export function canonical(value) {
  if (value instanceof Numeral) return JSON.stringify(value.value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Map) {
    const pairs = value.size === 1 ? value.get("$dict") : null;
    if (Array.isArray(pairs) && pairs.every((pair) => Array.isArray(pair) && pair.length === 2)) {
      const written = pairs.map((pair) => pair.map(canonical)).sort(byPair);
      return `{"$dict":[${written.map((pair) => `[${pair.join(",")}]`).join(",")}]}`;
    }
    const members = [...value.keys()].sort().map((name) => `${JSON.stringify(name)}:${canonical(value.get(name))}`);
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(value);
}

function byPair([key, value], [otherKey, otherValue]) {
  return byBytes(key, otherKey) || byBytes(value, otherValue);
}

/** The order of the UTF-8 bytes of two texts, which is the order of their code points. */
function byBytes(one, other) {
  const [left, right] = [[...one], [...other]];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    const difference = left[at].codePointAt(0) - right[at].codePointAt(0);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** The one tag of an object that is one, else null. */
export function tagOf(value) {
  if (!(value instanceof Map) || value.size !== 1) return null;
  const [name] = value.keys();
  return name.startsWith("$") ? name : null;
}

const SHARED = ["$node", "$list", "$string"];
const ADDRESS = /^sha256:[0-9a-f]{64}$/;

/** What a value refers to directly, nodes and artifacts, in order: [tag, address, named size]. */
export function partsIn(value, found = []) {
  const tag = tagOf(value);
  if (SHARED.includes(tag)) {
    const target = value.get(tag);
    if (tag !== "$node" && !Array.isArray(target)) throw new Error(`a ${tag} is not a list of addresses`);
    const [addresses, tail] = tag === "$node" ? [[target], []] : withoutTail(tag, target);
    for (const address of addresses) found.push([tag, checked(address), null]);
    partsIn(tail, found);
  } else if (tag === "$artifact") {
    const target = value.get(tag);
    const named = target instanceof Map ? target : new Map();
    found.push([tag, checked(named.get("digest")), named.get("size")]);
  } else if (value instanceof Map) {
    for (const inner of value.values()) partsIn(inner, found);
  } else if (Array.isArray(value)) {
    for (const inner of value) partsIn(inner, found);
  }
  return found;
}

/** The addresses of a reference, and the items of a list's open run, which stand in place. */
function withoutTail(tag, target) {
  const last = target.at(-1);
  return tag === "$list" && Array.isArray(last) ? [target.slice(0, -1), last] : [target, []];
}

function checked(address) {
  if (typeof address !== "string" || !ADDRESS.test(address)) throw new Error("a reference holds no address");
  return address;
}

const MOST_EXPANDED = 32 * 1024 * 1024; // the format allows more, a browser bears less
const DEEPEST_REFERENCE = 200;

/** A value that shares so much that it is not put together here. Nothing is wrong with it. */
export class TooLarge extends Error {}

/** The value with what it refers to in place. `nodes`: address → stored text. */
export function expand(value, nodes, left = { characters: MOST_EXPANDED }, depth = 0) {
  if (depth > DEEPEST_REFERENCE + DEEPEST) throw new Error("references are nested too deep");
  const tag = tagOf(value);
  if (tag === "$node") return expand(node(value.get(tag), nodes, left), nodes, left, depth + 1);
  if (tag === "$list") {
    const [addresses, tail] = withoutTail(tag, value.get(tag));
    const found = addresses.flatMap((one) => pieces(one, nodes, left, depth, Array.isArray));
    return found.concat(expand(tail, nodes, left, depth + 1));
  }
  if (tag === "$string") {
    const isText = (piece) => typeof piece === "string";
    return value.get(tag).flatMap((one) => pieces(one, nodes, left, depth, isText)).join("");
  }
  if (value instanceof Map) {
    return new Map([...value].map(([name, inner]) => [name, expand(inner, nodes, left, depth + 1)]));
  }
  return Array.isArray(value) ? value.map((inner) => expand(inner, nodes, left, depth + 1)) : value;
}

function node(address, nodes, left) {
  const stored = nodes.get(address);
  if (stored === undefined) throw new Error(`a shared value is missing: ${address}`);
  left.characters -= stored.length;
  if (left.characters < 0) throw new TooLarge("it is too large to be put together in a browser");
  return readStrict(stored);
}

function pieces(address, nodes, left, depth, isOne) {
  const found = expand(node(address, nodes, left), nodes, left, depth + 1);
  if (!isOne(found)) throw new Error("a shared value is of another type than its user says");
  return found;
}
