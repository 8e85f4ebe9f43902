"""RemovePodsViolatingNodeAffinity: who goes from a node that does not meet its affinity."""

from tests.conversion.tables import Row, small, workload

PLUGIN = "RemovePodsViolatingNodeAffinity"
KEY = "kubernetes.io/desiredNode"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
BARE = small("bare")
LABELLED = small("labelled").label({KEY: "yes"})
CORDONED = small("cordoned").label({KEY: "yes"}).cordoned()


def wants(kind, on, *, deleting=False):
    def make(spec):
        return (
            spec.requires_node(KEY, "yes") if kind == REQUIRED else spec.prefers_node(KEY, "yes", weight=10)
        )

    owner, pod = workload("picky", [on], make)
    return [owner, pod.deleting() if deleting else pod, *workload("a", [on]), *workload("b", [on])]


def rows(kind):
    def row(says, nodes, pods, goes, top=""):
        return Row(
            f"{kind[:9]}: {says}", nodes, [pods], goes, f"{{nodeAffinityType: [{kind}]}}", top=top,
            limited=bool(top),
        )  # fmt: skip

    here = wants(kind, "bare")
    going = wants(kind, "bare", deleting=True)
    return [
        row("the node meets it", [LABELLED], wants(kind, "labelled"), 0),
        row("another node meets it", [BARE, LABELLED], here, {"picky-0"}),
        row("another meets it, one of a node", [BARE, LABELLED], here, {"picky-0"}, "maxNoOfPodsToEvictPerNode: 1"),
        row("another meets it, none of a node", [BARE, LABELLED], here, 0, "maxNoOfPodsToEvictPerNode: 0"),
        row("it is terminating, one of a node", [BARE, LABELLED], going, 0, "maxNoOfPodsToEvictPerNode: 1"),
        row("another meets it, one of a namespace", [BARE, LABELLED], here, 1, "maxNoOfPodsToEvictPerNamespace: 1"),
        row("another meets it, none of a namespace", [BARE, LABELLED], here, 0, "maxNoOfPodsToEvictPerNamespace: 0"),
        row("it is terminating, one of a namespace", [BARE, LABELLED], going, 0, "maxNoOfPodsToEvictPerNamespace: 1"),
        row("another meets it, none in all", [BARE, LABELLED], here, 0, "maxNoOfPodsToEvictTotal: 0"),
        row("the other node is cordoned", [BARE, CORDONED], here, 0),
        row("both meet it, and the other is cordoned", [LABELLED, CORDONED], wants(kind, "labelled"), 0),
        row("the other node is too small", [BARE, small("tiny", 1, 1, 1).label({KEY: "yes"})], here, 0),
    ]  # fmt: skip


ROWS = [
    *rows(REQUIRED),
    *rows(PREFERRED),
    Row("a required affinity is left alone if only preferred ones are asked for", [BARE, LABELLED],
        [wants(REQUIRED, "bare")], 0, f"{{nodeAffinityType: [{PREFERRED}]}}"),
    Row("a preferred affinity is left alone if only required ones are asked for", [BARE, LABELLED],
        [wants(PREFERRED, "bare")], 0, f"{{nodeAffinityType: [{REQUIRED}]}}"),
    Row("no such type", [BARE, LABELLED], [wants(REQUIRED, "bare")], 0,
        "{nodeAffinityType: [requiredDuringSchedulingRequiredDuringExecution]}"),
]  # fmt: skip

TABLES = ((PLUGIN, ROWS),)
