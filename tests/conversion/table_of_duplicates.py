"""RemoveDuplicates: how many copies of a pod leave the nodes that have several of them."""

from harness import builders as b
from tests.conversion.tables import CRITICAL, Row, agent, mirror, small, workload

PLUGIN = "RemoveDuplicates"
N1, N2, N3 = (small(name) for name in ("n1", "n2", "n3"))
FIT = "{nodeFit: true}"
TAKEN = [b.pod("taken").cpu("100m").on("n2")]
WORKER = "node-role.kubernetes.io/worker"
MASTERS = [small(f"master{i}").taint("node-role.kubernetes.io/control-plane") for i in (1, 2, 3)]
WORKERS = [small(f"n{i}").label({WORKER: "k"}) for i in (1, 2, 3)]
PLAIN = [small(f"master{i}") for i in (1, 2, 3)]


def copies(name="web", make=lambda s: s, namespace="dev", **on):
    """copies("web", n1=3, n2=1): pods of one ReplicaSet."""
    return workload(name, [node for node, count in on.items() for _ in range(count)], make, namespace)


def of_image(parts, number, image):
    """One pod of a ReplicaSet has another image."""
    return [*parts[: number + 1], parts[number + 1].image(image), *parts[number + 2 :]]


def on_workers(spec):
    return spec.node_selector({WORKER: "k"})


def affine(spec):
    return spec.requires_node(WORKER, operator="Exists")


def row(says, nodes, pods, goes, arguments="{}", *, evictor="{}"):
    return Row(
        says, list(nodes), [pods] if pods and not isinstance(pods[0], list) else pods, goes, arguments,
        evictor,
    )  # fmt: skip


def guarded():
    """Nobody evicts these: of a DaemonSet, a mirror pod, with local storage, of system priority."""
    critical = copies("critical", lambda s: s.priority(CRITICAL), "kube-system", n1=2)
    return [*agent(count=2), *mirror(), *copies("local", lambda s: s.empty_dir(), n1=2), *critical]


ROWS = [
    row("three on a node", [N1, N2], copies(n1=3), 1),
    row("three on a node, and their kind is excluded", [N1, N2], copies(n1=3), 0, "{excludeOwnerKinds: [ReplicaSet]}"),
    row("three each of one name in two namespaces", [N1, N2], [copies(n1=3), copies(namespace="test", n1=3)], 2),
    row("protected pods stay", [N1, N2], guarded(), 0),
    row("three on a node beside protected pods", [N1, N2], [copies(n1=3), guarded()], 1),
    row("of different images", [N1, N2], of_image(copies(n1=2), 1, "registry.example/other:1"), 0),
    row("nobody tolerates the taint of the other node", [N1, small("n2").taint("hardware", "gpu")], copies(n1=3), 0, evictor=FIT),
    row("the other node does not meet the selector", [N1.label(pool="x"), N2], copies(make=lambda s: s.node_selector({"pool": "x"}), n1=3), 0,
        evictor=FIT),
    row("the other node is cordoned", [N1, N2.cordoned()], copies(n1=3), 0, evictor=FIT),
    row("the other node has too little CPU", [N1, small("n2", 150)], [copies(n1=3), TAKEN], 0, evictor=FIT),
    row("the other node has enough CPU", [N1, small("n2", 200)], [copies(n1=3), TAKEN], 1, evictor=FIT),
    row("5, 3, 1", [N1, N2, N3], copies(n1=5, n2=3, n3=1), 2),
    row("5, 3, 1 and 1, 3, 5", [N1, N2, N3], [copies("a", n1=5, n2=3, n3=1), copies("b", n1=1, n2=3, n3=5)], 4),
    row("two, on three nodes", [N1, N2, N3], copies(n1=2), 1),
    row("two, and two of another image", [N1, N2, N3],
        of_image(of_image(copies(n1=4), 2, "registry.example/other:1"), 3, "registry.example/other:1"), 2),
    row("two of four with one image", [N1, N2, N3],
        of_image(of_image(copies(n1=4), 1, "registry.example/a:1"), 2, "registry.example/b:1"), 1),
    row("one, on three nodes", [N1, N2, N3], copies(n1=1), 0),
    row("5, 3, 1 on workers, masters are tainted", [*MASTERS, *WORKERS], copies(n1=5, n2=3, n3=1), 2),
    row("5, 3, 1 on workers, affinity asks for them", [*PLAIN, *WORKERS], copies(make=affine, n1=5, n2=3, n3=1), 2),
    row("5, 3, 1 on workers, a selector asks for them", [*PLAIN, *WORKERS], copies(make=on_workers, n1=5, n2=3, n3=1), 2),
    row("5, 3, 1, a selector that no node meets", [N1, N2, N3], copies(make=on_workers, n1=5, n2=3, n3=1), 0),
]  # fmt: skip

TABLES = ((PLUGIN, ROWS),)
