// What the HTML report and the live page share: the map of nodes, tables with filter, sort and groups, and trends.
// All text gets into the page as text, never as markup. Nothing is fetched or kept here.
"use strict";

const parts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  // Characters that are not seen, and could make one name read as another.
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/g;
  const PAGE = 100;

  const clean = (text) => String(text).replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

  function set(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children) if (child !== null && child !== undefined) node.append(child.nodeType ? child : clean(child));
    return node;
  }
  const el = (tag, attributes, ...children) => set(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => set(document.createElementNS(SVG, tag), attributes, children);

  const count = (n) => Number(n || 0).toLocaleString("en-US");
  const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
  const percent = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)}%` : "-");
  const cpu = (milli) => (milli >= 10000 ? String(Math.round(milli / 1000)) : String(Math.round(milli / 10) / 100));
  function memory(bytes) {
    const units = ["B", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let at = 0;
    while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
    return `${bytes >= 100 ? Math.round(bytes) : Math.round(bytes * 10) / 10}${units[at]}`;
  }
  const share = (part, whole) => (whole > 0 ? part / whole : 0);

  // Nodes

  const SHOWS = {
    requested: (n) => Math.max(share(n.cpuRequestedMilli || 0, n.cpuAllocatableMilli), share(n.memoryRequestedBytes || 0, n.memoryAllocatableBytes)),
    reserved: (n) => Math.max(share(n.cpuReservedMilli || 0, n.cpuAllocatableMilli), share(n.memoryReservedBytes || 0, n.memoryAllocatableBytes)),
    used: (n) => Math.max(share(n.cpuUsedMilli || 0, n.cpuAllocatableMilli), share(n.memoryUsedBytes || 0, n.memoryAllocatableBytes)),
  };
  const MARK_WORDS = { NotReady: "not Ready", Cordoned: "cordoned", Tainted: "tainted", KeptEmpty: "kept empty", Deleting: "being deleted" };

  function markShape(mark, x, y, s) {
    const paths = {
      NotReady: `M${x} ${y}l${s} ${s}M${x + s} ${y}l${-s} ${s}`,
      Deleting: `M${x} ${y + s / 2}h${s}`,
      Cordoned: `M${x} ${y + s}l${s} ${-s}`,
      Tainted: `M${x} ${y}h${s / 2.2}l${-s / 2.2} ${s / 2.2}z`,
      KeptEmpty: `M${x + s / 2} ${y + s * 0.25}a${s / 4} ${s / 4} 0 1 0 .01 0z`,
    };
    return svg("path", { class: `mark ${mark}`, d: paths[mark] || "", "stroke-width": Math.max(1, s / 9) });
  }

  const describe = (n) =>
    `cpu ${cpu(n.cpuRequestedMilli || 0)} of ${cpu(n.cpuAllocatableMilli || 0)} requested` +
    (n.cpuReservedMilli ? ` (${cpu(n.cpuReservedMilli)} reserved)` : "") +
    (n.cpuUsedMilli !== undefined ? `, ${cpu(n.cpuUsedMilli)} used` : "") +
    `; memory ${memory(n.memoryRequestedBytes || 0)} of ${memory(n.memoryAllocatableBytes || 0)} requested` +
    (n.memoryReservedBytes ? ` (${memory(n.memoryReservedBytes)} reserved)` : "") +
    (n.memoryUsedBytes !== undefined ? `, ${memory(n.memoryUsedBytes)} used` : "") +
    `; ${plural(n.pods || 0, "pod")}`;

  // A bar of one resource: requested in full, the reserved part of it lighter, used as a line below.
  function bar(requested, reserved, used, whole) {
    const width = 120, at = (part) => Math.round(width * Math.min(1, share(part, whole)));
    const drawn = svg("svg", { class: "bar", width, height: 10, role: "img", "aria-label": `${percent(requested, whole)} requested` },
      svg("rect", { class: "whole", width, height: 10, rx: 2 }), svg("rect", { class: "requested", width: at(requested), height: 10, rx: 2 }),
      svg("rect", { class: "reserved", x: at(requested - reserved), width: at(requested) - at(requested - reserved), height: 10, rx: 2 }),
      used === undefined ? null : svg("rect", { class: "used", y: 7, width: at(used), height: 3 }));
    const told = percent(requested, whole) + (reserved ? ` (${percent(reserved, whole)} reserved)` : "") + (used === undefined ? "" : `, ${percent(used, whole)} used`);
    return el("span", { class: "amount" }, drawn, told);
  }

  const cellSize = (nodes, width) => (nodes <= 60 ? 26 : nodes <= 700 ? 14 : width < 500 ? 7 : 9);

  // Draws one cell for each node, by zone. `options`: shows, changed (a Set of names), filter, chosen, choose.
  function nodeMap(place, nodes, options) {
    const width = Math.max(200, place.clientWidth || 600);
    const s = cellSize(nodes.length, width), pitch = s + (s > 10 ? 3 : 1);
    const columns = Math.max(1, Math.floor(width / pitch));
    const level = SHOWS[options.shows || "requested"];
    const zones = new Map();
    for (const node of nodes) {
      const zone = node.zone || "";
      if (!zones.has(zone)) zones.set(zone, []);
      zones.get(zone).push(node);
    }
    const root = svg("svg", { class: "map", role: "img", width: columns * pitch + 2, "aria-label": `${plural(nodes.length, "node")} in ${plural(zones.size, "zone")}` });
    const cells = svg("g"), marks = svg("g");
    let y = 2;
    for (const zone of [...zones.keys()].sort()) {
      const members = zones.get(zone);
      root.append(svg("text", { x: 1, y: y + 11 }, `${zone || "no zone"} (${count(members.length)})`));
      y += 17;
      members.forEach((node, i) => {
        const x = 1 + (i % columns) * pitch, top = y + Math.floor(i / columns) * pitch;
        const faded = options.filter && !node.name.includes(options.filter);
        const classes = ["cell", `load-${Math.round(Math.min(1, level(node)) * 10)}`];
        if (options.changed && options.changed.has(node.name)) classes.push("changed");
        if (options.chosen === node.name) classes.push("chosen");
        if (faded) classes.push("faded");
        const cell = svg("rect", { class: classes.join(" "), x, y: top, width: s, height: s, rx: s > 10 ? 2 : 1 });
        cell.node = node;
        cells.append(cell);
        if (!faded) for (const mark of node.marks || []) marks.append(markShape(mark, x + 1, top + 1, s - 2));
      });
      y += Math.ceil(members.length / columns) * pitch + 8;
    }
    root.setAttribute("height", Math.max(y, 1));
    root.append(cells, marks);
    const told = (event) => event.target.node && options.choose && options.choose(event.target.node);
    root.addEventListener("click", told);
    root.addEventListener("mouseover", told);
    place.replaceChildren(root);
  }

  function mapLegend(nodes) {
    const scale = svg("svg", { width: 132, height: 12, role: "img", "aria-label": "from empty to full" });
    for (let i = 0; i <= 10; i += 1) scale.append(svg("rect", { class: `load-${i}`, x: i * 12, y: 0, width: 12, height: 12 }));
    const row = el("div", { class: "marks" }, el("span", {}, "empty", scale, "full"));
    for (const [mark, words] of Object.entries(MARK_WORDS)) {
      const there = nodes.filter((n) => (n.marks || []).includes(mark)).length;
      if (!there) continue;
      const box = svg("svg", { width: 16, height: 16 }, svg("rect", { class: "load-1", width: 16, height: 16, rx: 2 }));
      box.append(markShape(mark, 2, 2, 12));
      row.append(el("span", {}, box, `${words} (${count(there)})`));
    }
    return row;
  }

  function nodeDetail(place, node) {
    place.hidden = false;
    const words = (node.marks || []).map((mark) => MARK_WORDS[mark] || mark);
    place.replaceChildren(
      el("b", {}, node.name), ` ${[node.zone, ...words, ...(node.taints || [])].filter(Boolean).join(", ")}`,
      el("br"), clean(describe(node)), ...(node.hints || []).flatMap((hint) => [el("br"), clean(hint)]));
  }

  // Tables

  // `caption`: its name. `columns`: {title, of (row) => text or number, kind: name | number | long}; on phones each row is a block with the
  // titles before its cells. `groups`: {title: (row) => text}.
  // Returns a function that shows other rows with the same filter, order and group.
  function table(place, caption, columns, groups) {
    let rows = [], shown = PAGE, order = null, group = "", text = "";
    const input = el("input", { type: "search", placeholder: "filter", "aria-label": `filter ${caption}`, oninput: () => { text = input.value.toLowerCase(); shown = PAGE; draw(); } });
    const grouping = el("select", { "aria-label": `group ${caption}`, onchange: () => { group = grouping.value; shown = PAGE; draw(); } },
      el("option", { value: "" }, "not grouped"), ...Object.keys(groups || {}).map((name) => el("option", { value: name }, `by ${name}`)));
    const said = el("span", { class: "faint" });
    const more = el("button", { type: "button", onclick: () => { shown += 10 * PAGE; draw(); } }, "show more");
    const head = el("tr", { role: "row" }), body = el("tbody", { role: "rowgroup" });
    const tools = el("div", { class: "tools" }, input, Object.keys(groups || {}).length ? grouping : null, said);
    const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      el("table", { role: "table" }, el("caption", { class: "unseen" }, caption), el("thead", { role: "rowgroup" }, head), body));
    const none = el("p", { class: "faint" }, "None.");
    place.replaceChildren(tools, box, more, none);
    columns.forEach((column, at) => {
      const button = el("button", { type: "button", onclick: () => {
        order = order && order.at === at ? (order.down ? null : { at, down: true }) : { at, down: false };
        draw();
      } }, column.title);
      head.append(el("th", { class: column.kind === "number" ? "number" : undefined, scope: "col", role: "columnheader" }, button));
    });

    const cell = (column, row) => el("td", { class: column.kind, role: "cell", "data-title": column.title }, column.show ? column.show(row) : written(column.of(row)));
    const written = (value) => (typeof value === "number" ? count(value) : value ?? "");
    const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));

    function draw() {
      let found = rows;
      if (text) found = found.filter((row) => columns.some((c) => String(c.of(row) ?? "").toLowerCase().includes(text)));
      if (order) {
        const of = columns[order.at].of;
        found = [...found].sort((a, b) => (order.down ? -1 : 1) * compare(of(a), of(b)));
      }
      [...head.children].forEach((th, at) => th.setAttribute("aria-sort", order && order.at === at ? (order.down ? "descending" : "ascending") : "none"));
      const drawn = [];
      if (group) {
        const groupsFound = new Map();
        for (const row of found) {
          const name = groups[group](row) || "-";
          if (!groupsFound.has(name)) groupsFound.set(name, []);
          groupsFound.get(name).push(row);
        }
        let left = shown;
        for (const [name, members] of [...groupsFound].sort((a, b) => b[1].length - a[1].length || compare(a[0], b[0]))) {
          if (left <= 0) break;
          drawn.push(el("tr", { class: "group" }, el("td", { colspan: columns.length }, `${name}: ${count(members.length)}`)));
          for (const row of members.slice(0, Math.min(left, 20))) drawn.push(el("tr", { role: "row" }, ...columns.map((c) => cell(c, row))));
          left -= Math.min(members.length, 20);
          if (members.length > 20) drawn.push(el("tr", {}, el("td", { colspan: columns.length, class: "faint" }, `and ${count(members.length - 20)} more of this group`)));
        }
        more.hidden = left > 0;
      } else {
        for (const row of found.slice(0, shown)) drawn.push(el("tr", { role: "row" }, ...columns.map((c) => cell(c, row))));
        more.hidden = found.length <= shown;
      }
      body.replaceChildren(...drawn);
      said.textContent = found.length === rows.length ? plural(rows.length, "row") : `${count(found.length)} of ${plural(rows.length, "row")}`;
      tools.hidden = rows.length < 8;
      box.hidden = !rows.length;
      none.hidden = rows.length > 0;
    }
    return (newRows) => { rows = newRows; draw(); };
  }

  // Trends

  function trend(title, samples, of, show) {
    const width = 280, height = 56;
    const values = samples.map(of), most = Math.max(...values, 0) || 1;
    const points = values.map((v, i) => `${values.length > 1 ? (i * width) / (values.length - 1) : 0},${height - 4 - ((height - 10) * v) / most}`);
    if (points.length === 1) points.push(`${width},${points[0].split(",")[1]}`);
    return el("figure", {}, el("figcaption", {}, `${title}: ${show(values[values.length - 1])} (most ${show(Math.max(...values))})`),
      svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title },
        svg("line", { class: "axis", x1: 0, x2: width, y1: height - 3, y2: height - 3 }),
        svg("polyline", { class: "line", points: points.join(" ") })));
  }

  const card = (big, small) => el("div", { class: "card" }, el("b", {}, big), el("span", {}, small));

  return { el, clean, bar, count, plural, percent, cpu, memory, nodeMap, mapLegend, nodeDetail, table, trend, card, SHOWS, MARK_WORDS };
})();
