"""RemovePodsViolatingNodeTaints: who goes from a tainted node."""

from tests.conversion.tables import CRITICAL, Row, agent, mirror, small, workload

PLUGIN = "RemovePodsViolatingNodeTaints"
SPARE = small("spare")


def one():
    return small("n1").taint("t1", "v1")


def two():
    return one().taint("t2", "v2")


def soft():
    return small("n1").taint("t1", "v1", "PreferNoSchedule")


def tolerant(name="tolerant", key="t1", value="v1", effect="NoSchedule"):
    return workload(name, ["n1"], lambda spec: spec.tolerate(key, value, effect))


def plain(*names):
    return [part for name in names for part in workload(name, ["n1"])]


def local():
    return workload("local", ["n1"], lambda spec: spec.empty_dir())


def critical():
    return workload("critical", ["n1"], lambda spec: spec.priority(CRITICAL), "kube-system")


ROWS = [
    Row("who does not tolerate it goes", [one(), SPARE], [tolerant(), plain("a"), tolerant("b")], {"a-0"}),
    Row("another taint is tolerated, not this one", [one(), SPARE], [tolerant(), tolerant("x", "t9", "v9")], {"x-0"}),
    Row("at most one in all", [one(), SPARE], [tolerant(), plain("a", "b")], 1, top="maxNoOfPodsToEvictTotal: 1", limited=True),
    Row("at most one of a node", [one(), SPARE], [tolerant(), plain("a", "b")], 1, top="maxNoOfPodsToEvictPerNode: 1", limited=True),
    Row("at most one of a namespace", [one(), SPARE], [plain("a", "b")], 1, top="maxNoOfPodsToEvictPerNamespace: 1", limited=True),
    Row("none, if a limit is 0", [one(), SPARE], [plain("a", "b")], 0, top="maxNoOfPodsToEvictTotal: 0", limited=True),
    Row("protected pods stay", [one(), SPARE], [critical(), agent(), local(), mirror()], 0),
    Row("local storage by choice", [one(), SPARE], [critical(), agent(), local(), mirror()], {"local-0"},
        evictor="{evictLocalStoragePods: true}"),
    Row("local storage by choice, new name", [one(), SPARE], [critical(), agent(), local(), mirror()], {"local-0"},
        evictor="{podProtections: {defaultDisabled: [PodsWithLocalStorage]}}"),
    Row("the others go beside protected ones", [one(), SPARE], [critical(), agent(), mirror(), plain("a")], {"a-0"}),
    Row("system priority stays even if descheduler would evict it", [one(), SPARE], [critical(), plain("a")], {"a-0"},
        evictor="{evictSystemCriticalPods: true}"),
    Row("other nodes are tainted", [one(), small("n2").taint("t2", "v2")], [tolerant(), plain("a")], 0),
    Row("other nodes do not meet the selector", [one(), small("n2").label(dc="east")],
        [workload("a", ["n1"], lambda spec: spec.node_selector({"dc": "west"}))], 0),
    Row("other nodes are cordoned", [one(), small("n2").cordoned()], [plain("a")], 0),
    Row("other nodes are too small", [one(), small("n2", 1, 1, 1)], [plain("a")], 0),
    Row("soft taints do not count", [soft(), SPARE], [tolerant("x", "t0", "v0", "PreferNoSchedule")], 0),
    Row("soft taints by choice", [soft(), SPARE], [tolerant("x", "t0", "v0", "PreferNoSchedule")], {"x-0"},
        "{includePreferNoSchedule: true}"),
    Row("a taint is excluded by key", [one(), SPARE], [plain("a")], 0, "{excludedTaints: [t5, t1]}"),
    Row("a taint is excluded by key and value", [one(), SPARE], [plain("a")], 0, '{excludedTaints: ["t1=v1"]}'),
    Row("another value is excluded", [one(), SPARE], [plain("a")], {"a-0"}, '{excludedTaints: ["t1=v2"]}'),
    Row("only the included taint counts", [two(), SPARE], [tolerant()], 0, '{includedTaints: ["t1=v1"]}'),
    Row("a taint that is not included does not count", [one(), SPARE], [tolerant(), plain("a"), tolerant("x", "t9", "v9")], 0,
        '{includedTaints: ["t2=v2"]}'),
    Row("who does not tolerate the included taint goes", [one(), SPARE], [tolerant(), plain("a"), tolerant("b")], {"a-0"},
        '{includedTaints: ["t1=v1"]}'),
    Row("all taints must be tolerated", [two(), SPARE],
        [tolerant(), workload("both", ["n1"], lambda spec: spec.tolerate("t1", "v1").tolerate("t2", "v2"))], {"tolerant-0"}),
    Row("only of included namespaces", [one(), SPARE], [plain("a"), workload("b", ["n1"], namespace="shop")], {"b-0"},
        "{namespaces: {include: [shop]}}"),
    Row("not of excluded namespaces", [one(), SPARE], [plain("a"), workload("b", ["n1"], namespace="shop")], {"a-0"},
        "{namespaces: {exclude: [shop]}}"),
    Row("only pods that are selected", [one(), SPARE], [plain("a", "b")], {"b-0"}, "{labelSelector: {matchLabels: {app: b}}}"),
    Row("only nodes that are selected", [one().label(pool="x"), small("n2").taint("t1"), SPARE.label(pool="x")],
        [plain("a"), workload("b", ["n2"])], {"a-0"}, top="nodeSelector: pool=x"),
]  # fmt: skip

TABLES = ((PLUGIN, ROWS),)
