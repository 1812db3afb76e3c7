// The API of this server, which answers with what the command line prints.

export class Problem extends Error {
  constructor(status, { code, message, hint }) {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

export async function get(path, options = {}) {
  return asked(`/api/v1${path}`, options);
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return asked(`/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
}

async function asked(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { code: "away", message: "the server does not answer", hint: "Is `onrecord serve` running?" });
  }
  const document = await answer.json();
  if (!answer.ok) throw new Problem(answer.status, document.error);
  return document;
}

/** Follows a run from behind an event on. The browser comes back by itself after a break, with the last id. */
export function follow(run, after, { onEvent, onEnd, onStanding = () => {}, onLost = () => {}, brief = false }) {
  const source = new EventSource(`/api/v1/runs/${encodeURIComponent(run)}/follow?after=${after}${brief ? "&brief=true" : ""}`);
  source.addEventListener("message", (message) => onEvent(JSON.parse(message.data)));
  source.addEventListener("standing", (message) => onStanding(JSON.parse(message.data)));
  source.addEventListener("end", (message) => {
    source.close();
    onEnd(JSON.parse(message.data));
  });
  source.addEventListener("error", () => source.readyState === EventSource.CLOSED && onLost());
  return source;
}
