// How times, amounts and kinds of events are said.
import { isRootLane } from "./lanes.js";

export function duration(us) {
  if (us === null || us === undefined) return "";
  if (us < 1e3) return `${us} µs`;
  if (us < 1e6) return `${(us / 1e3).toFixed(1)} ms`;
  const seconds = us / 1e6;
  if (seconds < 60) return `${seconds.toFixed(2)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60).toLocaleString("en")} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export const amount = (number) => Number(number).toLocaleString("en");

export function cost(dollars) {
  if (dollars === null || dollars === undefined) return "";
  if (dollars > 0 && dollars < 0.0001) return "<$0.0001";
  return dollars >= 1 ? `$${dollars.toFixed(2)}` : `$${dollars.toFixed(4)}`;
}

export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

export function clock(us) {
  const date = new Date(us / 1e3);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().slice(11, 23);
}

const KINDS = {
  StateUpdated: "state", AttemptRecorded: "attempt", ChunkReceived: "chunk", EffectSettled: "settled", TurnTaken: "turns",
  ProcessAttached: "process", ValuesDrawn: "values drawn", SnapshotTaken: "snapshot", SignalReceived: "signal",
  Completed: "completed", Failed: "failed", Cancelled: "cancelled", Interrupted: "interrupted", Resumed: "resumed",
};

const ANSWERED = { ActionSucceeded: "answered", ActionFailed: "failed", ActionDenied: "denied", WaitResolved: "resolved" };

/** What a row says of its event: a title, and what it is. */
export function titled(row) {
  if (row.damage) return [row.name ?? KINDS[row.kind] ?? row.kind, "damaged"];
  if (row.kind in ANSWERED) return [row.name ?? "effect", ANSWERED[row.kind]];
  if (row.kind === "ActionRequested" || row.kind === "WaitCreated") return [row.name ?? "effect", said(row.effect ?? "")];
  return [KINDS[row.kind] ?? row.kind, row.name ?? ""];
}

export const isAnswer = (row) => row.kind in ANSWERED || row.kind === "Resumed";

const said = (effect) => effect.replaceAll("_", " ");

/** One of eight colours, the same for the same lane wherever it is met; the first is that of the root lane. */
export function laneColour(lane) {
  let number = 0;
  for (const one of lane) number = (number * 31 + one.charCodeAt(0)) % 9973;
  return isRootLane(lane) ? 0 : 1 + (number % 7);
}
