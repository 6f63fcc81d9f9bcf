// An event says that something changed: the page is asked for again, and what differs in it is replaced, in place.
"use strict";
(() => {
  const status = document.getElementById("live");
  const root = document.documentElement;
  let asking = false, again = false;

  // What is equal stays, with its focus; an element of the same kind keeps its own node, and its inside is compared.
  function become(old, made, marks) {
    if (old.isEqualNode(made)) return;
    const alike = old.nodeType === 1 && made.nodeType === 1 && old.tagName === made.tagName && old.id === made.id
      && (old.tagName !== "A" || old.getAttribute("href") === made.getAttribute("href"));
    if (!alike) { old.replaceWith(made); return; }
    for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of made.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (old.tagName === "INPUT") return; // what somebody types stays
    const were = [...old.childNodes], are = [...made.childNodes];
    are.forEach((each, i) => (were[i] ? become(were[i], each, marks) : old.append(each)));
    for (const rest of were.slice(are.length)) rest.remove();
    if (marks && old.tagName === "LI") { old.classList.remove("fresh"); void old.offsetWidth; old.classList.add("fresh"); }
  }

  async function renew() {
    if (asking) { again = true; return; }
    asking = true;
    try {
      do {
        again = false;
        const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error", headers: { accept: "text/html" } });
        if (answer.status >= 500) break;
        const made = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of ["main", "footer"]) {
          const old = document.querySelector(part), found = made.querySelector(part);
          if (old && found) become(old, document.adoptNode(found), part === "main");
        }
        document.title = made.title;
        root.dataset.number = made.documentElement.dataset.number;
      } while (again);
    } catch { status.textContent = "not live"; } finally { asking = false; }
  }

  // A browser has six connections to a server: a tab that nobody sees holds none, and asks what changed when it is seen.
  let events = null;
  function listen() {
    if (events) events.close();
    events = null;
    if (document.hidden) return;
    events = new EventSource("/events");
    events.addEventListener("changed", (event) => {
      status.textContent = "live";
      if (event.data !== root.dataset.number) renew();
    });
    events.addEventListener("error", () => { status.textContent = "not live"; });
  }
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => { if (events) events.close(); });
  addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
  listen();
})();
