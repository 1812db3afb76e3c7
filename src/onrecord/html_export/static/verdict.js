// What came of the verification, with numbers; the head, to be compared with one that came another way.
import { at, h, inert, say } from "./dom.js";
import { count } from "./pretty.js";

const SHOWN = 8;
const OTHER = "another one: this is not the run that you were told of";

export function showProgress(share) {
  at("verdict").dataset.state = "checking";
  at("verdict-title").textContent = "Checking";
  at("verdict-text").textContent = `Hashing everything again in this browser: ${Math.round(share * 100)} %`;
}

/** `runs`: one run, or the two of a comparison. */
export function showVerdict(runs, { goTo, more = null }) {
  const valid = runs.every((run) => run.result.valid) && (more?.holds ?? true);
  at("verdict").dataset.state = valid ? "valid" : "broken";
  at("verdict-title").textContent = valid ? "Verified in this browser" : "Broken: this is not what was recorded";
  at("verdict-text").textContent = runs.map((run) => sentence(run, runs.length > 1)).join(" ");
  at("verdict-more").replaceChildren(
    ...runs.flatMap((run, index) => problems(run, (seq) => goTo(index, seq))),
    ...(more ? [h("p", { class: more.holds ? null : "notice bad" }, more.text)] : []),
    ...runs.map((run) => head(run, runs.length > 1)),
    proof(),
  );
  say(`${at("verdict-title").textContent}. ${at("verdict-text").textContent}`);
}

function sentence(run, named) {
  const { result } = run;
  const who = named ? `${run.name}: ` : "";
  const told = `${who}${count(result.verified)} of ${count(result.events)} events verified, ${count(result.hashes)} hashes recomputed`;
  if (!result.valid) return `${told}, ${count(result.problemCount)} ${result.problemCount === 1 ? "problem" : "problems"}.`;
  const left = result.events - result.meanings - result.erased;
  const which = left === 1 ? "one event means" : `${count(left)} events mean`;
  const believed = left > 0 ? ` What ${which} was too long to be hashed again here; what it is made of was.` : "";
  const open = run.status === "not ended" ? " The run has not ended: whether more followed, nothing in this file can tell." : "";
  return `${told}, nothing differs; the chain is whole.${believed}${open}`;
}

function problems(run, goTo) {
  const { result } = run;
  if (result.valid) return [];
  const shown = result.problems.slice(0, SHOWN).map(({ seq, line, message }) => {
    const where = seq === 0 ? "header" : seq !== null ? `event ${seq}` : "";
    const place = line === null ? where : `${where ? `${where}, ` : ""}line ${line} of the recording`;
    const known = seq !== null && seq > 0 && seq <= run.length;
    const link = known ? h("button", { type: "button", class: "link", onclick: () => goTo(seq) }, place) : place;
    return h("li", {}, link, `: ${inert(message)}`);
  });
  const left = result.problemCount - shown.length;
  return [h("ul", { class: "problems" }, ...shown, left > 0 ? h("li", {}, `and ${count(left)} more`) : null)];
}

function head(run, named) {
  const { result } = run;
  const text = result.head === null ? "none could be computed" : `${result.events}:${result.head}`;
  const answer = h("span", { class: "head-answer", role: "status" });
  const id = `given-${run.index}`;
  const given = h("input", { id, type: "text", spellcheck: "false", autocomplete: "off", placeholder: "paste the head that you were given" });
  given.addEventListener("input", () => {
    const wanted = given.value.trim().toLowerCase();
    const same = wanted === text || (result.head !== null && (wanted === result.head || `sha256:${wanted}` === result.head));
    answer.dataset.same = wanted === "" ? "" : String(same && result.valid);
    answer.textContent = wanted === "" ? "" : !same ? OTHER : result.valid ? "the same" : "the same head, but what is here does not belong to it";
  });
  return h(
    "div",
    { class: "head" },
    h("p", { class: "soft" }, named ? `Head of ${run.name}` : "Head"),
    h("code", { class: "head-hash" }, text),
    h("p", { class: "row" }, h("label", { for: id }, "Compare with"), given, answer),
  );
}

function proof() {
  return h(
    "details",
    { class: "proof" },
    h("summary", {}, "What this proves, and what it does not"),
    h(
      "p",
      {},
      "Every content, link and shared value in this file was hashed again and fits its neighbours: nothing was altered, ",
      "swapped, removed or added since somebody computed these hashes. The head sums all of it up. If it is the one that ",
      "you were given by another way (by the store, in a receipt, on the phone), this is that run.",
    ),
    h(
      "p",
      {},
      "It does not prove who recorded the run, nor that it happened: whoever makes up a run can hash it, too. And this page ",
      "came with the file: a forger could have altered its script. Trusted code checks the same recording with ",
      h("code", {}, "onrecord verify FILE.html"),
      ", and ",
      h("code", {}, "onrecord import FILE.html"),
      " brings it into a store.",
    ),
  );
}
