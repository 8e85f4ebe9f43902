"""LowNodeUtilization: how many leave an overloaded node for an under-utilised one, by requests."""

from harness import builders as b
from tests.conversion.tables import CRITICAL, GPU, Row, agent, gpus, mirror, small, with_gpu, workload

PLUGIN = "LowNodeUtilization"
CPU_AND_PODS = "thresholds: {cpu: 30, pods: 30}, targetThresholds: {cpu: 50, pods: 50}"
N1, N2, N3 = small("n1", 4000, 3000, 9), small("n2", 4000), small("n3", 4000).cordoned()
EAST = N2.label(dc="east")


def guarded(cpu=400):
    """Three on n1 that nobody evicts: of a DaemonSet, a mirror pod, and one of system priority."""
    critical = workload("critical", ["n1"], lambda s: s.priority(CRITICAL), "kube-system", cpu)
    return [*agent(cpu=cpu), *mirror(cpu=cpu), *critical]


def many(count, name="web", make=lambda s: s, *, namespace="default", cpu=400, node="n1"):
    return workload(name, [node] * count, make, namespace, cpu)


def other(cpu=400):
    return many(1, "other", node="n2", cpu=cpu)


def selecting_west(spec):
    return spec.node_selector({"dc": "west"})


def affine_to_west(spec):
    return spec.requires_node("dc", "west")


def best_effort(name, count):
    owner = b.replicaset(name).replicas(count)
    return [owner, *(owner.pod(f"{name}-{i}").on("n1") for i in range(count))]


def row(says, nodes, pods, goes, arguments=CPU_AND_PODS, **more):
    return Row(says, nodes, pods, goes, f"{{{arguments}}}", **more)


BY_GPU = f"thresholds: {{pods: 30, {GPU}: 30}}, targetThresholds: {{pods: 50, {GPU}: 50}}"
DAEMONS = b.daemonset("more").cpu("400m")
BIG = small("n1", 2000)
LITTLE = small("n2", 1000)
TAINTED = small("n3", 1000).taint("key", "value")
PODS = "thresholds: {pods: 20}, targetThresholds: {pods: 70}"
AT = "thresholds: {cpu: 20}, targetThresholds: {cpu: 70}"
ROWS = [
    row("nobody may be evicted", [N1, N2, N3],
        [guarded(), [DAEMONS, *(DAEMONS.pod(f"more-{i}").on("n1") for i in range(3))], other()], 0),
    row("five of eight may", [N1, N2, N3], [many(5), guarded(), other()], 4, aggressiveness=1),
    row("the fourth of them relieves more than it disrupts", [N1, N2, N3], [many(5), guarded(), other()], 4),
    row("one that relieves less than it disrupts stays", [N1, N2, N3], [many(5), guarded(), other()], 3, aggressiveness=0),
    row("their namespace is excluded", [N1, N2, N3], [many(5, namespace="namespace1"), guarded(), other()], 0,
        CPU_AND_PODS + ", evictableNamespaces: {exclude: [namespace1]}"),
    row("the same, as the documentation once had it", [N1, N2, N3], [many(5, namespace="namespace1"), guarded(), other()], 0,
        CPU_AND_PODS + ", evictableNamespaces: {namespaces: {exclude: [namespace1]}}"),
    row("only the default namespace is included", [N1, N2, N3],
        [many(2), *(many(1, f"w{i}", namespace=f"namespace{i}") for i in (3, 4, 5)), guarded(), other()], 2,
        CPU_AND_PODS + ", evictableNamespaces: {include: [default]}"),
    row("those of lower priority are among them", [N1, N2, N3],
        [many(4, "high", lambda s: s.priority(10000)), many(1, "low", lambda s: s.priority(0)), guarded(), other()],
        {"low-0", "high-0", "high-1", "high-2"}, aggressiveness=1),
    row("four of five go where only the number of pods is too high", [N1, N2, N3],
        [best_effort("idle", 4), many(1, "busy"), guarded(), other()], 4, aggressiveness=1),
    row("a node exactly at the thresholds is under-utilised", [BIG, LITTLE], [many(8, cpu=200), other(200)], 1, AT),
    row("a node exactly at the target thresholds gives nothing", [BIG, LITTLE], [many(7, cpu=200), other(200)], 0, AT),
    row("by an extended resource", [gpus(N1, 8), gpus(N2, 8), N3],
        [many(6, make=with_gpu, cpu=0), guarded(0), many(1, "other", with_gpu, cpu=0, node="n2")], 3, BY_GPU),
    row("the other node has none of an extended resource", [gpus(N1, 8), N2, N3],
        [many(1, make=with_gpu, cpu=0), other(0)], 0, BY_GPU),
    row("the other node is cordoned", [N1, N2.cordoned()], [many(5), guarded()], 0),
    row("the other node does not meet the selector of two", [N1, EAST], [many(3), many(2, "west", selecting_west), guarded()], 3),
    row("the other node does not meet the affinity of two", [N1, EAST],
        [many(3), many(2, "west", affine_to_west), guarded(), other(0)], 3),
    row("by deviation from the mean", [N1, N2, N3], [many(5), guarded(), other()], 2,
        "thresholds: {cpu: 5, pods: 5}, targetThresholds: {cpu: 5, pods: 5}, useDeviationThresholds: true"),
    row("by deviation, and a threshold above its target", [N1, N2, N3], [many(5), guarded(), other()], 2,
        "thresholds: {cpu: 10, pods: 10}, targetThresholds: {cpu: 5, pods: 5}, useDeviationThresholds: true"),
    row("by deviation, and the other node has no memory left", [small("n1", 4000), N2, N3],
        [many(5, make=lambda s: s.memory("375")), guarded(), many(1, "other", lambda s: s.memory("3000"), node="n2")], 0,
        "thresholds: {cpu: 5, pods: 5}, targetThresholds: {cpu: 5, pods: 5}, useDeviationThresholds: true"),
    row("by deviation: a pod of most GPUs stays, as the other node would be as full", [gpus(small("n1", 4000), 8), gpus(N2, 8), N3],
        [many(1, "one", with_gpu, cpu=0), many(1, "seven", lambda s: s.requests({GPU: "7"}), cpu=0, node="n2"),
         many(1, "idle", cpu=0, node="n2")], 0,
        f"thresholds: {{pods: 5, {GPU}: 10}}, targetThresholds: {{pods: 5, {GPU}: 10}}, useDeviationThresholds: true"),
    row("none of a node", [N1, N2, N3], [many(5), guarded(), other()], 0, CPU_AND_PODS + ", evictionLimits: {node: 0}"),
    row("an empty node takes the excess", [BIG, LITTLE, small("n3", 1000)], [many(8, cpu=200), other(200)], 1, PODS),
    row("nobody tolerates the taint of the other node", [BIG, TAINTED],
        [many(8, cpu=200), many(1, "other", cpu=200, node="n3")], 0, PODS),
    row("one tolerates it", [BIG, TAINTED],
        [many(7, cpu=200), many(1, "tolerant", lambda s: s.tolerate("key", "value"), cpu=200),
         many(1, "other", cpu=200, node="n3")], {"tolerant-0"}, PODS),
    row("one tolerates it, and nothing may be evicted", [BIG, TAINTED],
        [many(7, cpu=200), many(1, "tolerant", lambda s: s.tolerate("key", "value"), cpu=200)], 0, PODS,
        top="maxNoOfPodsToEvictTotal: 0", limited=True),
    row("one under-utilised node, and there must be more than one", [N1, N2, N3], [many(5), guarded(), other()], 0,
        CPU_AND_PODS + ", numberOfNodes: 1"),
    row("nodes outside of the selector take no part", [N1.label(pool="x"), N2], [many(5), other()], 0, top="nodeSelector: pool=x"),
]  # fmt: skip

TABLES = ((PLUGIN, ROWS),)
