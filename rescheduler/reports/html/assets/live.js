// The live page: asks for state.json every few seconds and shows it. It changes nothing in the cluster.
"use strict";

(() => {
  const EVERY_MS = 3000, OLD_S = 10, VERY_OLD_S = 150;
  const { el, count, plural, percent } = parts;
  const at = (id) => document.getElementById(id);
  let state = null, tag = "", chosen = "", stale = 0;
  const clock = (at) => (at ? `${at.slice(11, 19)} UTC` : "");

  const moveColumns = [
    { title: "pod", kind: "name", of: (m) => `${m.namespace}/${m.pod}` },
    { title: "from", kind: "name node", of: (m) => m.from },
    { title: "to", kind: "name node", of: (m) => m.to },
    { title: "step", of: (m) => (m.waits ? `${m.phase}, waits` : m.phase) },
    { title: "by", kind: "by", of: (m) => m.by },
    { title: "why, or what it waits for", kind: "long", of: (m) => m.message || m.reason },
  ];
  const since = (m, at) => span((Date.parse(at) - Date.parse(m.beganAt)) / 1000);
  const span = (s) => (s < 120 ? `${Math.max(0, Math.round(s))}\u00a0s` : s < 7200 ? `${Math.round(s / 60)}\u00a0min` : `${Math.round(s / 3600)}\u00a0h`);
  // When each step of a move was done, counted from its begin.
  const steps = (m) => [["reserved", m.reservedAt], ["evicted", m.evictedAt], ["landed", m.landedAt]]
    .filter(([, at]) => at).map(([word, at]) => `${word} ${since(m, at)}`).join(", ");
  const took = { title: "took", of: (m) => (m.beganAt ? Date.parse(m.endedAt || state.at) - Date.parse(m.beganAt) : 0),
    show: (m) => (m.beganAt ? since(m, m.endedAt || state.at) : "") };
  const done = { title: "done after", of: steps };
  const groups = { policy: (m) => m.by, namespace: (m) => m.namespace, step: (m) => m.phase };
  const showMoves = parts.table(at("moves"), "moves under way", [...moveColumns.slice(0, 4), took, done, ...moveColumns.slice(4)], groups);
  const showPlanned = parts.table(at("planned"), "planned moves", [...moveColumns.slice(0, 3), ...moveColumns.slice(4)], groups);
  const showGated = parts.table(at("gated"), "pods at the gate", [
    { title: "pod", kind: "name", of: (p) => `${p.namespace}/${p.pod}` },
    { title: "waits", of: (p) => -Date.parse(p.since), show: (p) => span((Date.parse(state.at) - Date.parse(p.since)) / 1000) },
    { title: "for", kind: "long", of: (p) => p.message }], { namespace: (p) => p.namespace });
  const showFinished = parts.table(at("finished"), "ended moves",
    [{ title: "ended", kind: "when", of: (m) => m.endedAt, show: (m) => clock(m.endedAt) }, ...moveColumns.slice(0, 3), { title: "became", of: (m) => m.phase, show: (m) => el("span", { class: m.phase === "Failed" ? "warning" : undefined }, m.phase) },
      took, done, moveColumns[4], { title: "how", kind: "long", of: (m) => m.message || m.reason }], groups);
  const KINDS = { ReservationWindow: "window", HeadRoom: "head-room" };
  const showHeld = parts.table(at("held"), "reservations, windows and head-rooms", [
    { title: "name", kind: "name", of: (h) => `${KINDS[h.kind] || h.kind.toLowerCase()}/${h.name}` },
    { title: "phase", of: (h) => (h.held < h.wanted || h.kind !== "Reservation" ? `${h.phase}, ${h.held || 0} of ${h.wanted === undefined ? 1 : h.wanted} held` : h.phase) },
    { title: "for", of: (h) => h.owners },
    { title: "asked for by", of: (h) => h.askedBy },
    { title: "node", kind: "name node", of: (h) => (h.nodes || []).join(", ") },
    { title: "cpu, memory", of: (h) => h.cpuMilli || 0, show: (h) => (h.cpuMilli || h.memoryBytes ? `${parts.cpu(h.cpuMilli || 0)}, ${parts.memory(h.memoryBytes || 0)}` : "") },
    { title: "since", kind: "when", of: (h) => h.since || "", show: (h) => (h.since ? when(h.since) : "") },
    { title: "until", kind: "when", of: (h) => h.until || "", show: (h) => (h.until ? when(h.until) : "no end") },
    { title: "why it is not held", kind: "by", of: (h) => h.message || "" },
  ], { kind: (h) => h.kind, node: (h) => (h.nodes || [])[0] });
  // A moment as seen from the state: "4 min ago", "in 2 h".
  const when = (moment) => {
    const s = (Date.parse(state.at) - Date.parse(moment)) / 1000;
    return s >= 0 ? `${span(s)} ago` : `in ${span(-s)}`;
  };
  const showPolicies = parts.table(at("policies"), "badly placed pods by policy",
    [{ title: "policy", of: (p) => p.name }, { title: "pods", kind: "number", of: (p) => p.badlyPlaced }]);
  const showBlocked = parts.table(at("blocked"), "what cannot go on",
    [{ title: "reason", of: (b) => b.reason }, { title: "pods", kind: "number", of: (b) => b.pods },
      { title: "by", kind: "long", of: (b) => b.blockedBy }], { reason: (b) => b.reason });
  const ratio = (part, whole) => (whole > 0 ? part / whole : 0);
  const showNodes = parts.table(at("nodes"), "nodes", [
    { title: "node", kind: "name node", of: (n) => n.name },
    { title: "zone", of: (n) => n.zone },
    { title: "marks", of: (n) => [...(n.marks || []).map((m) => parts.MARK_WORDS[m] || m), ...(n.taints || []), ...(n.hints ? [plural(n.hints.length, "hint")] : [])].join(", ") },
    { title: "pods", kind: "number", of: (n) => n.pods || 0 },
    { title: "badly placed", kind: "number", of: (n) => n.badlyPlaced || 0 },
    { title: "cpu: requested, reserved, used", of: (n) => ratio(n.cpuRequestedMilli || 0, n.cpuAllocatableMilli),
      show: (n) => parts.bar(n.cpuRequestedMilli || 0, n.cpuReservedMilli || 0, n.cpuUsedMilli, n.cpuAllocatableMilli) },
    { title: "memory: requested, reserved, used", of: (n) => ratio(n.memoryRequestedBytes || 0, n.memoryAllocatableBytes),
      show: (n) => parts.bar(n.memoryRequestedBytes || 0, n.memoryReservedBytes || 0, n.memoryUsedBytes, n.memoryAllocatableBytes) },
  ], { zone: (n) => n.zone });

  function detail(node) {
    parts.nodeDetail(at("detail"), node);
    if (age()) at("detail").append(el("span", { class: "faint" }, ` (pods and requested: as counted ${age()})`));
  }

  function drawMap() {
    parts.nodeMap(at("map"), state.nodes, {
      shows: at("shows").value, filter: at("node-filter").value.trim(), chosen,
      choose: (node) => { chosen = node.name; detail(node); },
    });
  }

  // What was counted by the decision is as old as that; moves, marks and reserved rooms are those of the state.
  function age() {
    const s = Math.round((Date.parse(state.at) - Date.parse(state.plannedAt)) / 1000);
    if (!(s >= 5)) return "";
    return `${span(s)} ago`;
  }

  function drawBadges() {
    const found = [];
    if (state.gatedInAll) found.push(el("span", { class: "badge alert" }, `${plural(state.gatedInAll, "pod")} at the gate`));
    if (state.dryRun) found.push(el("span", { class: "badge alert" }, "dry run: nothing is changed"));
    if (state.evictedNow) found.push(el("span", { class: "badge alert" }, `${plural(state.evictedNow, "pod")} evicted and not bound yet`));
    if (!state.leads) found.push(el("span", { class: "badge alert" }, state.controller.holder ? `led by ${state.controller.holder}` : "nobody leads yet"));
    at("badges").replaceChildren(...found);
  }

  // A dump and a dry run have no gate: what is not known of it is left out there.
  function drawHealth() {
    at("health-section").hidden = !state.leads || !state.health.length;
    const told = state.health.filter((h) => h.ok !== null || state.controller.message);
    at("health").replaceChildren(...told.flatMap((h) => [el("dt", {}, h.part),
      el("dd", { class: h.ok === false ? "warning" : undefined }, h.says)]));
  }

  // `stale`: how long ago the process saw this state, by its own clock.
  function drawAge() {
    const known = state.plannedAt !== "";
    const ago = known ? age() : "";
    const then = ago ? `${clock(state.plannedAt)}, ${ago}: pods and what they request were counted then` : clock(state.plannedAt);
    const decided = known ? `decided at ${then}` : "there was no decision yet";
    const old = stale >= OLD_S ? ` (${span(stale)} ago)` : "";
    at("about").textContent = state.at !== ""
      ? parts.clean(`State of ${state.at.slice(0, 10)} ${clock(state.at)}${old}; ${decided}${state.source ? `; ${state.source}` : ""}.`)
      : state.leads ? "There was no decision yet." : "This process does not lead: the page of the leader has the state.";
    at("about").classList.toggle("warning", stale >= VERY_OLD_S);
  }

  function draw() {
    drawBadges();
    drawHealth();
    const known = state.plannedAt !== "";
    const ago = known ? age() : "";
    const counted = ago && `, ${ago}`;
    const seen = state.at !== "";
    at("content").hidden = !seen;
    for (const place of document.querySelectorAll(".decided")) place.textContent = known ? ago && ` as counted ${ago}` : ", not decided yet";
    at("headline").textContent = parts.clean(state.headline || "");
    at("warnings").replaceChildren(...state.warnings.map((text) => el("p", { class: "warning" }, text)));
    at("cards").replaceChildren();
    if (!seen) return;
    const bad = state.policies.reduce((sum, p) => sum + p.badlyPlaced, 0);
    const blocked = state.blocked.reduce((sum, b) => sum + b.pods, 0);
    const planned = state.moves.filter((m) => m.phase === "Planned");
    const moving = state.moves.filter((m) => m.phase !== "Planned");
    const waiting = state.waiting.reduce((sum, b) => sum + b.pods, 0);
    const moves = state.movesUnderWay === 1 ? "move" : "moves";
    at("cards").replaceChildren(
      parts.card(count(state.gatedInAll), `${state.gatedInAll === 1 ? "pod" : "pods"} at the gate`),
      parts.card(count(state.evictedNow), `${state.evictedNow === 1 ? "pod" : "pods"} evicted and not bound yet`),
      parts.card(count(state.movesUnderWay), `${moves} under way${waiting ? `, ${count(waiting)} of them waiting` : ""}`),
      ...(known ? [
        parts.card(count(state.pendingPods), `${state.pendingPods === 1 ? "pod" : "pods"} pending${counted}`),
        ...(planned.length ? [parts.card(count(state.movesInAll - state.movesUnderWay), `planned${counted}`)] : []),
        parts.card(count(blocked), `wanted, but not moved${counted}`), parts.card(count(bad), `found badly placed${counted}`)] : []),
      parts.card(count(state.heldInAll), "Reservations, windows, head-rooms"),
      parts.card(`${count(state.nodes.length)} / ${known ? count(state.pods) : "?"}`, `nodes / pods${counted}`));
    at("gated-section").hidden = !state.gatedInAll;
    at("more-gated").textContent = state.gatedInAll > state.gated.length ? `The oldest ${count(state.gated.length)} of ${count(state.gatedInAll)}.` : "";
    showGated(state.gated);
    at("no-moves").textContent = state.movesUnderWay > moving.length ? `The first ${count(moving.length)} of ${count(state.movesUnderWay)}.` : "";
    showMoves(moving);
    at("planned-section").hidden = !planned.length;
    showPlanned(planned);
    showPolicies(state.policies.filter((p) => p.badlyPlaced));
    showBlocked([...state.waiting, ...state.blocked]);
    showFinished(state.finished);
    at("finished-section").hidden = !state.finished.length;
    showNodes(state.nodes);
    at("held-section").hidden = !state.heldInAll;
    at("more-held").textContent = state.heldInAll > state.held.length ? `The first ${count(state.held.length)} of ${count(state.heldInAll)}.` : "";
    showHeld(state.held);
    at("legend").replaceChildren(parts.mapLegend(state.nodes));
    const measured = state.nodes.some((n) => n.cpuUsedMilli !== undefined);
    at("shows").querySelector("[value=used]").disabled = !measured;
    const node = state.nodes.find((n) => n.name === chosen);
    if (node) detail(node);
    drawMap();
    at("trends-section").hidden = state.samples.length < 2;
    at("trends").replaceChildren(...(state.samples.length < 2 ? [] : [
      parts.trend("badly placed", state.samples, (s) => s.badlyPlaced, count),
      parts.trend("moves under way", state.samples, (s) => s.movesUnderWay, count),
      parts.trend("moves ended", state.samples, (s) => s.movesEnded, count),
      parts.trend("pods pending", state.samples, (s) => s.pendingPods, count),
      parts.trend("nodes in use", state.samples, (s) => s.nodesInUse, count),
      parts.trend("cpu requested", state.samples, (s) => s.cpuRequested, (v) => `${Math.round(100 * v)}%`),
      parts.trend("memory requested", state.samples, (s) => s.memoryRequested, (v) => `${Math.round(100 * v)}%`),
    ]));
    document.body.dataset.drawn = state.at;
  }

  async function ask() {
    try {
      const answer = await fetch("state.json", { cache: "no-cache" });
      const seen = answer.headers.get("ETag") || "";
      if (!answer.ok) throw new Error(plural(answer.status, "status"));
      stale = Number(answer.headers.get("Age") || 0);
      if (!state || seen !== tag) { state = await answer.json(); tag = seen; draw(); }
      drawAge();
    } catch {
      at("about").classList.add("warning");
      at("about").textContent = `No answer since ${state ? parts.clean(state.at) : "the page was opened"}; it is asked again.`;
      tag = "";
    }
    setTimeout(ask, document.hidden ? 10 * EVERY_MS : EVERY_MS);
  }

  at("shows").addEventListener("change", () => state && drawMap());
  at("node-filter").addEventListener("input", () => state && drawMap());
  addEventListener("resize", () => state && state.at && drawMap());
  ask();
})();
