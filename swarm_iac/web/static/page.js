// An event says that something changed: the page is asked for again, and what differs in it is replaced, in place.
"use strict";
(() => {
  const status = document.getElementById("live");
  const root = document.documentElement;
  let asking = false, again = false;

  // By what a node is found again: a list's item by the first address in it, a text by being one.
  function key(node) {
    if (node.nodeType !== 1) return "#" + node.nodeType;
    const link = node.tagName === "A" ? node : node.tagName === "LI" ? node.querySelector("a") : null;
    return [node.tagName, node.id, link && link.getAttribute("href"), node.getAttribute("aria-labelledby")].join("\n");
  }

  // What is equal stays, with its focus; an element with the same key keeps its own node, and its inside is compared.
  function become(old, made, marks) {
    if (old.isEqualNode(made)) return;
    if (key(old) !== key(made)) { old.replaceWith(made); return; }
    if (old.nodeType !== 1) { old.nodeValue = made.nodeValue; return; }
    for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of made.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (old.tagName === "INPUT") return; // what somebody types stays
    inside(old, made, marks);
    if (marks && old.tagName === "LI") { old.classList.remove("fresh"); void old.offsetWidth; old.classList.add("fresh"); }
  }

  // An element that came or went among its siblings leaves theirs as they are: none of them is made a second time.
  function inside(old, made, marks) {
    const kept = new Map();
    const are = [...made.childNodes];
    for (const each of made.children) kept.set(key(each), []);
    for (const was of [...old.children]) if (kept.has(key(was))) kept.get(key(was)).push(was); else was.remove();
    let at = old.firstChild;
    for (const each of are) {
      const same = each.nodeType === 1 ? kept.get(key(each)).shift() : at && at.nodeType === each.nodeType ? at : null;
      while (same && at && at !== same && at.nodeType !== 1) { const text = at; at = at.nextSibling; text.remove(); }
      if (!same) { old.insertBefore(each, at); continue; }
      if (same === at) at = at.nextSibling; else old.insertBefore(same, at);
      become(same, each, marks);
    }
    while (at) { const rest = at; at = at.nextSibling; rest.remove(); }
  }

  async function renew() {
    if (asking) { again = true; return; }
    asking = true;
    try {
      do {
        again = false;
        const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error", headers: { accept: "text/html" } });
        if (answer.status >= 500) break;
        const focused = document.activeElement;
        const made = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of ["main", "footer"]) {
          const old = document.querySelector(part), found = made.querySelector(part);
          if (old && found) become(old, document.adoptNode(found), part === "main");
        }
        if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }); // it was moved
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
