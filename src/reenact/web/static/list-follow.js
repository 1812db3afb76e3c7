// What changes in the list of runs. After a break the browser comes back by itself, with its last place.

export function followList(query, { onChange, onAgain, onLive = () => {} }) {
  const source = new EventSource(`/api/v1/overview/follow?${query}`);
  source.addEventListener("open", () => onLive(true));
  source.addEventListener("error", () => onLive(false));
  source.addEventListener("message", (message) => onChange(JSON.parse(message.data)));
  source.addEventListener("again", () => onAgain());
  addEventListener("pagehide", () => source.close());
  return source;
}
