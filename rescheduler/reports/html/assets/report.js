// The HTML report: shows the plan that stands in the page as data. It asks nobody for anything.
"use strict";

(() => {
  const at = (id) => document.getElementById(id);
  const plan = JSON.parse(at("plan").textContent);
  const later = new Map(plan.after.map((node) => [node.name, node]));
  const changed = new Set(later.keys());
  const after = plan.before.map((node) => later.get(node.name) || node);
  let chosen = "";

  if (at("moves")) parts.table(at("moves"), "moves", [
    { title: "#", kind: "number", of: (m) => m.number },
    ...(plan.moves.some((m) => m.after) ? [{ title: "after", kind: "number", of: (m) => m.after }] : []),
    { title: "pod", kind: "name", of: (m) => m.pod },
    { title: "from", kind: "name node", of: (m) => m.from },
    { title: "to", kind: "name node", of: (m) => m.to },
    { title: "policy", of: (m) => m.policy },
    { title: "gain", kind: "number", of: (m) => m.gain, show: (m) => m.gain.toFixed(2) },
    { title: "cost", kind: "number", of: (m) => m.cost, show: (m) => m.cost.toFixed(2) },
    { title: "changes", kind: "long", of: (m) => m.changes },
    { title: "why", kind: "long", of: (m) => m.why },
  ], { workload: (m) => m.workload, policy: (m) => m.policy, namespace: (m) => m.pod.split("/")[0], "node that it leaves": (m) => m.from, "node that it goes to": (m) => m.to })(plan.moves);

  if (at("stays")) parts.table(at("stays"), "wanted, but not moved", [
    { title: "pod", kind: "name", of: (s) => s.pod },
    { title: "node", kind: "name node", of: (s) => s.node },
    { title: "policy", of: (s) => s.policy },
    { title: "reason", of: (s) => s.reason },
    { title: "by", of: (s) => s.by },
    { title: "why", kind: "long", of: (s) => s.why },
  ], { reason: (s) => [s.reason, s.by].filter(Boolean).join(" by "), policy: (s) => s.policy, namespace: (s) => s.pod.split("/")[0] })(plan.stays);

  const pairs = plan.before.filter((node) => changed.has(node.name)).map((node) => ({ old: node, now: later.get(node.name) }));
  const amounts = (title, part, whole) => ({
    title, kind: "number", of: (p) => (p.now[part] - p.old[part]) / (p.now[whole] || 1),
    show: (p) => `${parts.percent(p.old[part], p.old[whole])} → ${parts.percent(p.now[part], p.now[whole])}`,
  });
  parts.table(at("changed"), "nodes that change", [
    { title: "node", kind: "name node", of: (p) => p.old.name },
    { title: "zone", of: (p) => p.old.zone },
    { title: "marks", of: (p) => p.old.marks.map((m) => parts.MARK_WORDS[m] || m).join(", ") },
    amounts("cpu requested", "cpuRequestedMilli", "cpuAllocatableMilli"),
    amounts("memory requested", "memoryRequestedBytes", "memoryAllocatableBytes"),
    { title: "pods", kind: "number", of: (p) => p.now.pods - p.old.pods, show: (p) => `${p.old.pods} → ${p.now.pods}` },
  ], { zone: (p) => p.old.zone })(pairs);
  at("changed-section").hidden = !pairs.length;
  at("nodes-section").hidden = !plan.before.length;

  function draw() {
    const options = { changed, chosen, filter: at("node-filter").value.trim(), choose: (node) => {
      chosen = node.name;
      parts.nodeDetail(at("detail"), node);
    } };
    parts.nodeMap(at("map-before"), plan.before, options);
    parts.nodeMap(at("map-after"), after, options);
  }
  at("legend").replaceChildren(parts.mapLegend(plan.before));
  at("node-filter").addEventListener("input", draw);
  addEventListener("resize", draw);
  draw();
})();
