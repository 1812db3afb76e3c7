// Names of lanes (docs/format.md, 4.1).

/** The root lane, also after a checkpoint. */
export const isRootLane = (lane) => /^main(?:@[1-9][0-9]{0,8})?$/.test(lane);

/** For people: `visit#2 › fetch` for `main>visit#2>fetch`. Escapes of control characters stay escapes. */
export function shownLane(lane) {
  if (!lane) return "";
  const names = lane.split(">");
  if (names.length > 1 && names[0] === "main") names.shift();
  return names.map((name) => (name ? name.replace(/%([2-7][0-9A-F])/g, decoded) : '""')).join(" › ");
}

function decoded(escaped, digits) {
  return digits === "7F" ? escaped : String.fromCharCode(parseInt(digits, 16));
}
