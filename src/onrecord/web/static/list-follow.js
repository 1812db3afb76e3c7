// What changes in the list of runs. After a break the browser comes back by itself, with its last place.

/** A page that nobody looks at follows nothing: browsers have few connections for all tabs of a server together. */
export function followList(query, { onChange, onAgain, onLive = () => {} }) {
  const asked = new URLSearchParams(query);
  let source = null;

  function open() {
    if (source) return;
    source = new EventSource(`/api/v1/overview/follow?${asked}`);
    source.addEventListener("open", () => onLive(true));
    source.addEventListener("error", () => onLive(false));
    source.addEventListener("message", (message) => {
      asked.set("after", message.lastEventId);
      onChange(JSON.parse(message.data));
    });
    source.addEventListener("again", (message) => {
      asked.set("after", message.lastEventId);
      onAgain();
    });
  }

  function close() {
    source?.close();
    source = null;
  }

  function comeBack() {
    if (!asked.has("after")) onAgain(); // nobody knows what was missed
    open();
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : comeBack()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && comeBack());
  open();
}
