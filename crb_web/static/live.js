// Keeps the page of a sweep current. The server sends fragments that it has escaped; they are parsed without running
// anything, and put where the page has the same fragments. Without this file the page can be reloaded.
const state = document.getElementById("live-state");
const held = new Map();
const AGAIN_MS = 10000;
let isExtended = false;

function say(text) {
  if (isExtended) text = "The sweep was extended: reload to see all of it.";
  if (state.textContent !== text) state.textContent = text;
}

function show(name, fragment) {
  const place = document.getElementById(`live-${name}`);
  if (!place) {
    isExtended = true;
    say("");
    return;
  }
  // What somebody has the focus in stays until they leave it.
  if (place.contains(document.activeElement)) {
    held.set(name, fragment);
    return;
  }
  held.delete(name);
  const parsed = new DOMParser().parseFromString(fragment, "text/html");
  place.replaceChildren(...parsed.body.childNodes);
}

function follow() {
  const events = new EventSource(state.dataset.events);
  events.addEventListener("parts", (event) => {
    say("Live.");
    for (const [name, fragment] of Object.entries(JSON.parse(event.data))) {
      if (name === "notice") document.getElementById("live-notice").textContent = fragment;
      else show(name, fragment);
    }
  });
  events.addEventListener("open", () => say("Live."));
  events.addEventListener("error", () => {
    if (events.readyState !== EventSource.CLOSED) return;
    // The server refused: too many watch, or the session has ended.
    say("Not live; it is tried again.");
    window.setTimeout(follow, AGAIN_MS);
  });
  window.addEventListener("pagehide", () => events.close(), { once: true });
}

document.addEventListener("focusout", () => {
  window.setTimeout(() => {
    for (const [name, fragment] of [...held]) show(name, fragment);
  });
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted) follow();
});
follow();
