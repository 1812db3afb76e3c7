// Elements from data. Whatever is given as a child becomes text: nothing recorded is ever parsed as markup.

export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const at = (id) => document.getElementById(id);

/** What the page was rendered with. */
export function given(id) {
  return JSON.parse(at(id).textContent);
}

/** Says it to whoever listens to the page. */
export function say(text) {
  at("said").textContent = text;
}

// Characters that turn the direction of text, or that nobody sees, are shown as what they are.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function inert(text) {
  return String(text).replace(HIDDEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
