// Lists that are walked with j and k, and opened with Enter. Any element with data-row is a line of one.
import { onKey } from "./keys.js";

const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);

export function move(by) {
  const all = rows();
  if (all.length === 0) return;
  const from = all.indexOf(document.activeElement.closest?.("[data-row]"));
  const next = from < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(from + by, 0), all.length - 1);
  const target = all[next].matches("a, button, [tabindex]") ? all[next] : all[next].querySelector("a, button");
  target?.focus();
  all[next].scrollIntoView({ block: "nearest" });
}

export function walkLists() {
  onKey("j", "next line", () => move(1));
  onKey("k", "line before", () => move(-1));
}
