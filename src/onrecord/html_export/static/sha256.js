// SHA-256. The browser's own where there is one and the data is large; ours otherwise, which needs no waiting.

const K = new Uint32Array(64);
const START = new Uint32Array(8);
{
  // The first bits of the roots of the first primes, as FIPS 180-4 has them.
  const bits = (root) => Math.floor((root - Math.floor(root)) * 2 ** 32);
  let found = 0;
  for (let number = 2; found < 64; number += 1) {
    let prime = true;
    for (let by = 2; by * by <= number; by += 1) if (number % by === 0) prime = false;
    if (!prime) continue;
    if (found < 8) START[found] = bits(Math.sqrt(number));
    K[found] = bits(Math.cbrt(number));
    found += 1;
  }
}
const LARGE = 2048;

export function ownSha256(bytes) {
  const padded = new Uint8Array(((bytes.length + 8) >> 6 << 6) + 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, (bytes.length << 3) >>> 0);
  const state = START.slice();
  const words = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) takeBlock(state, words, view, at);
  const digest = new Uint8Array(32);
  const out = new DataView(digest.buffer);
  state.forEach((word, index) => out.setUint32(index * 4, word));
  return digest;
}

function takeBlock(state, words, view, at) {
  for (let i = 0; i < 16; i += 1) words[i] = view.getUint32(at + i * 4);
  for (let i = 16; i < 64; i += 1) {
    const x = words[i - 15];
    const y = words[i - 2];
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    words[i] = words[i - 16] + s0 + words[i - 7] + s1;
  }
  let a = state[0];
  let b = state[1];
  let c = state[2];
  let d = state[3];
  let e = state[4];
  let f = state[5];
  let g = state[6];
  let last = state[7];
  for (let i = 0; i < 64; i += 1) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const one = (last + s1 + ((e & f) ^ (~e & g)) + K[i] + words[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    last = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += last;
}

export async function sha256(bytes) {
  const quick = globalThis.crypto?.subtle;
  if (!quick || bytes.length < LARGE) return ownSha256(bytes);
  return new Uint8Array(await quick.digest("SHA-256", bytes));
}

const encoder = new TextEncoder();
export const utf8 = (text) => encoder.encode(text);

/** A hash of the format: over the tag, a zero byte and the parts (docs/format.md, section 2). */
export async function tagged(tag, ...parts) {
  const all = [utf8(`${tag}\0`), ...parts];
  const joined = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of all) {
    joined.set(part, at);
    at += part.length;
  }
  return written(await sha256(joined));
}

export function written(digest) {
  return `sha256:${[...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export function unhex(text) {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = Number.parseInt(text.slice(i * 2, i * 2 + 2), 16);
  return bytes;
}

/** The 32 bytes of a hash that is written out. */
export const bytesOf = (hash) => unhex(hash.slice("sha256:".length));
