"""HighNodeUtilization: who leaves under-utilised nodes. descheduler evicts what it can of such a node; here a node is emptied as
a whole or not at all, and a cordoned one is left to its drain.
"""

from tests.conversion.tables import CRITICAL, GPU, Row, agent, gpus, mirror, small, with_gpu, workload

PLUGIN = "HighNodeUtilization"


def nodes(*cpu, cordoned=""):
    built = [small(f"n{i}", amount) for i, amount in enumerate(cpu, 1)]
    return [node.cordoned() if node.manifest()["metadata"]["name"] == cordoned else node for node in built]


def on(node, count, name="", make=lambda s: s, *, namespace="default", cpu=400):
    return workload(name or f"on-{node}", [node] * count, make, namespace, cpu)


def critical(node):
    return on(node, 1, "critical", lambda s: s.priority(CRITICAL), namespace="kube-system")


def row(says, on_nodes, pods, goes, *thresholds):
    return Row(says, on_nodes, pods, goes, f"{{thresholds: {''.join(thresholds)}}}")


BOTH = "{cpu: 30, pods: 30}"
TAINTED = small("n3", 1000).taint("key", "value")
ROWS = [
    row("no node is low", nodes(4000, 4000, 4000), [on(f"n{i}", 3) for i in (1, 2, 3)], 0, "{cpu: 20, pods: 20}"),
    row("nobody may be evicted", nodes(4000, 4000, 4000), [mirror("n1"), critical("n1"), agent("n2", 2, 400), on("n3", 5)], 0,
        "{cpu: 40, pods: 40}"),
    row("all nodes are low: they are packed, where descheduler does nothing", nodes(4000, 4000), [on("n1", 1), on("n2", 2)],
        {"on-n1-0"}, "{cpu: 40, pods: 40}"),
    row("no node to go to", nodes(4000, 4000, 4000, cordoned="n3"), [on("n3", 3)], 0, "{cpu: 20, pods: 20}"),
    row("a protected pod keeps its node", nodes(4000, 4000), [on("n1", 1), critical("n1"), on("n2", 4)], 0, BOTH),
    row("a cordoned node is left to its drain", nodes(4000, 4000, 4000, cordoned="n3"), [on("n2", 4), on("n3", 1)], 0, BOTH),
    row("the pod of a low node goes", nodes(4000, 4000, 4000, cordoned="n3"), [on("n1", 1), on("n2", 4)], {"on-n1-0"}, BOTH),
    row("the other node is filled up", nodes(2000, 2000, 2000, cordoned="n3"), [on("n1", 1), on("n2", 4), on("n3", 1)], {"on-n1-0"}, BOTH),
    row("a node exactly at the thresholds is low", nodes(2000, 2000), [on("n1", 1), on("n2", 4)], {"on-n1-0"}, "{cpu: 20}"),
    row("two do not fit where only one does", nodes(4000, 2000, 2000, cordoned="n3"),
        [on("n1", 1, "low"), on("n1", 1, "high", lambda s: s.priority(10000)), on("n2", 4), agent("n3", cpu=400)], 0, "{cpu: 30}"),
    row("by an extended resource", [gpus(node) for node in nodes(4000, 4000)],
        [on("n1", 2, make=with_gpu, cpu=100), on("n2", 4, make=with_gpu, cpu=500)], {"on-n1-0", "on-n1-1"}, f"{{cpu: 20, {GPU}: 40}}"),
    row("the other node has none of the extended resource", [gpus(small("n1", 4000)), small("n2", 4000)],
        [on("n1", 2, make=with_gpu, cpu=100), on("n2", 4, cpu=500)], 0, f"{{cpu: 40, {GPU}: 40}}"),
    row("the other node meets the selector", [small("n1", 4000, pods=9).label(dc="west"), small("n2", 4000)],
        [on("n1", 3), agent("n1", cpu=400), on("n2", 1, make=lambda s: s.node_selector({"dc": "west"}))], {"on-n2-0"}, BOTH),
    row("the other node does not meet the selector", [small("n1", 4000, pods=9), small("n2", 4000)],
        [on("n1", 3), agent("n1", cpu=400), on("n2", 1, make=lambda s: s.node_selector({"dc": "west"}))], 0, BOTH),
    row("the other node has too little memory", [small("n1", 4000, 200, 9), small("n2", 4000)],
        [on("n1", 3, make=lambda s: s.memory("50")), agent("n1", cpu=400), on("n2", 1, make=lambda s: s.memory("100"))], 0, BOTH),
    row("those that request nothing of the thresholds are to stay", [gpus(node, 10) for node in nodes(4000, 4000, 4000)],
        [on("n1", 2, make=lambda s: s.requests({GPU: "3"}), cpu=100), on("n2", 4, cpu=500)], 0, f"{{{GPU}: 40}}",
        ", evictionModes: [OnlyThresholdingResources]"),
    row("the lowest is emptied", nodes(1000, 1000, 1000), [on("n1", 3, cpu=200), on("n2", 1, cpu=200)], {"on-n2-0"}, "{cpu: 40}"),
    row("nobody tolerates the taint of the other node", [small("n1", 1000), TAINTED], [on("n1", 1, cpu=200), on("n3", 1, cpu=200)],
        {"on-n3-0"}, "{cpu: 40}"),
    row("one of a node tolerates the taint, the other does not", [small("n1", 1000), TAINTED],
        [on("n1", 1, cpu=100), on("n1", 1, "tolerant", lambda s: s.tolerate("key", "value"), cpu=200), on("n3", 1, cpu=500)], 0, "{cpu: 40}"),
    row("their namespace is excluded", nodes(4000, 4000), [on("n1", 1, namespace="shop"), on("n2", 4)], 0, BOTH,
        ", evictableNamespaces: {exclude: [shop]}"),
    row("one low node, and there must be more than one", nodes(4000, 4000), [on("n1", 1), on("n2", 4)], 0, BOTH, ", numberOfNodes: 1"),
]  # fmt: skip

TABLES = ((PLUGIN, ROWS),)
