// What the page can do beyond being read: filter, sort, follow a move, walk the map by keys. It reads the document and nothing
// else, and writes text only as text.
"use strict";
(() => {
  const all = (what, from = document) => [...from.querySelectorAll(what)];
  const byId = (id) => document.getElementById(id);
  const KINDS = ["start", "move", "restart", "stop", "change", "later"];
  const SAID = { start: "starts", move: "moves", restart: "restarts", stop: "stops", change: "changes in place", later: "is deferred" };
  const map = byId("map"), form = byId("filters"), about = byId("about");
  const kindOf = (block) => KINDS.find((kind) => block.classList.contains(kind)) || "";
  const teamOf = (block) => (/\bt(\d+)\b/.exec(block.className) || [])[1];
  const racks = all("div.rack", map).map((table) => ({
    table,
    nodes: all("tbody tr", table).map((row) => ({
      row,
      name: row.querySelector("th").firstChild.data.trim(),
      same: row.classList.contains("same"),
      settings: Boolean(row.querySelector("small.settings")),
      blocks: all("b", row).map((block) => ({ block, kind: kindOf(block), team: teamOf(block), name: block.textContent })),
    })),
  }));
  const blocks = new Map();
  for (const rack of racks) for (const node of rack.nodes) for (const one of node.blocks) blocks.set(one.block, { ...one, node });
  const count = racks.reduce((sum, rack) => sum + rack.nodes.length, 0);

  // ---- filters: a node stays if anything on it fits, and what does not fit is dimmed
  function filter() {
    const teams = new Set(byId("team").value.split(" ").filter(Boolean));
    const kinds = new Set(all("input[name=kind]:checked", form).map((box) => box.value));
    const words = byId("find").value.trim().toLowerCase();
    const changed = byId("changed").checked;
    let shown = 0;
    for (const rack of racks) {
      let some = false;
      for (const node of rack.nodes) {
        const named = !words || node.name.toLowerCase().includes(words);
        let fits = false;
        for (const one of node.blocks) {
          const mine = (!teams.size || teams.has(one.team)) && (!kinds.size || kinds.has(one.kind))
            && (named || one.name.toLowerCase().includes(words));
          one.block.classList.toggle("dim", !mine);
          fits ||= mine;
        }
        fits ||= named && !teams.size && (!kinds.size || (kinds.has("settings") && node.settings));
        fits &&= !(changed && node.same);
        node.row.classList.toggle("off", !fits);
        some ||= fits;
        shown += fits;
      }
      rack.table.classList.toggle("off", !some);
    }
    for (const row of all("table.sorts tr[data-t]")) row.classList.toggle("off", teams.size > 0 && !teams.has(row.dataset.t));
    byId("shown").value = `${shown.toLocaleString("en")} of ${count.toLocaleString("en")} ${count === 1 ? "node" : "nodes"}`;
    draw();
  }
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("button[type=reset]").addEventListener("click", (event) => { event.preventDefault(); form.reset(); filter(); });

  // ---- moves: an arrow from where it runs to where it will
  const SVG = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "moves");
  svg.setAttribute("aria-hidden", "true");
  map.append(svg);
  const part = (name, attributes, to) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    to.append(made);
    return made;
  };
  const pairs = new Map();
  for (const one of blocks.values()) {
    if (one.kind !== "move") continue;
    const pair = pairs.get(one.name) || {};
    const side = one.block.closest("td").classList.contains("was") ? "from" : "to";
    pair[side] ||= one.block;
    pairs.set(one.name, pair);
  }
  const FEW = 60;
  let chosen = null;
  function draw() {
    svg.replaceChildren();
    if (!pairs.size || (pairs.size > FEW && !chosen)) return;
    const marker = part("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" }, part("defs", {}, svg));
    part("path", { d: "M0 0 8 4 0 8z" }, marker);
    const zero = map.getBoundingClientRect();
    for (const [name, { from, to }] of pairs) {
      const mine = chosen && blocks.get(chosen).name === name;
      if (!from || !to || (pairs.size > FEW && !mine) || !from.offsetParent || !to.offsetParent) continue;
      if (from.classList.contains("dim") && to.classList.contains("dim")) continue;
      const a = from.getBoundingClientRect(), b = to.getBoundingClientRect();
      const x = a.right - zero.left, y = a.top + a.height / 2 - zero.top, u = b.left - zero.left, v = b.top + b.height / 2 - zero.top;
      const bow = Math.max(30, Math.abs(u - x) / 2);
      part("path", { d: `M${x} ${y}C${x + bow} ${y} ${u - bow} ${v} ${u} ${v}`, "marker-end": "url(#tip)", ...(mine && { class: "on" }) }, svg);
    }
  }
  new ResizeObserver(draw).observe(map); // also when a rack that was out of sight is laid out

  // ---- one block: what it is, and why; the whole map is one stop of the tab key, and arrow keys walk it
  const why = new Map();
  for (const table of all("table.sorts")) {
    const heads = all("thead th", table).map((head) => head.textContent.trim());
    if (heads[0] !== "allocation" || heads.at(-1) !== "why") continue;
    for (const row of all("tbody tr", table)) why.set(row.cells[0].textContent.trim(), row.cells[row.cells.length - 1].textContent.trim());
  }
  const teams = all("#team option").slice(1).reverse();
  function choose(block) {
    if (chosen) chosen.classList.remove("on");
    chosen = block;
    about.hidden = !block;
    if (block) {
      block.classList.add("on");
      const one = blocks.get(block), side = block.closest("td").classList.contains("was") ? "before" : "after";
      const team = teams.find((option) => option.value.split(" ").includes(one.team));
      const other = block.dataset.to ? ` ${side === "before" ? "to" : "from"} ${block.dataset.to}` : "";
      const parts = [`${one.name} on ${one.node.name}, ${side}`, `team ${team ? team.textContent.trim() : "unknown"}`, (SAID[one.kind] || "stays") + other];
      about.textContent = parts.join(" · ") + (why.has(one.name) ? `: ${why.get(one.name)}` : "");
    }
    draw();
  }
  map.tabIndex = 0;
  map.setAttribute("role", "group");
  map.setAttribute("aria-label", "Map of the fleet. Arrow keys walk from allocation to allocation.");
  map.addEventListener("mouseover", (event) => { const block = event.target.closest("b"); if (block) choose(block); });
  map.addEventListener("mouseleave", () => choose(null));
  map.addEventListener("click", (event) => { const block = event.target.closest("b"); if (block) choose(block); });
  map.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: "row", ArrowUp: "-row", Home: "first", End: "last" }[event.key];
    if (event.key === "Escape") choose(null);
    if (!step) return;
    event.preventDefault();
    const seen = [...blocks.keys()].filter((block) => !block.classList.contains("dim") && !block.closest("tr").classList.contains("off"));
    if (!seen.length) return;
    let at = seen.indexOf(chosen);
    if (step === "first" || at < 0) at = 0;
    else if (step === "last") at = seen.length - 1;
    else if (typeof step === "number") at += step;
    else {
      const row = seen[at].closest("tr"), way = step === "row" ? 1 : -1;
      do at += way; while (seen[at] && seen[at].closest("tr") === row);
    }
    at = Math.min(Math.max(at, 0), seen.length - 1);
    choose(seen[at]);
    seen[at].scrollIntoView({ block: "nearest" });
  });

  // ---- tables sort by any column
  const order = new Intl.Collator("en", { numeric: true });
  for (const table of all("table.sorts")) {
    all("thead th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent.trim();
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = all("tbody tr", table).map((row) => [row.cells[column].textContent, row]);
        rows.sort((one, two) => (down ? -1 : 1) * order.compare(one[0], two[0]));
        table.tBodies[0].append(...rows.map((pair) => pair[1]));
      });
    });
  }

  // ---- on paper nothing is folded
  addEventListener("beforeprint", () => all("details").forEach((one) => { one.open = true; }));
  draw();
})();
