"""DefaultEvictor: who may go at all. Every row has a tainted node that all of its pods have to leave, if they may."""

from harness import builders as b
from tests.conversion.tables import CRITICAL, Row, agent, changed, small, workload

PLUGIN = "RemovePodsViolatingNodeTaints"
N1 = small("n1").taint("leave")
SPARE = small("spare")
GPU = small("n2").taint("hardware", "gpu")
ANYWAY = {"descheduler.alpha.kubernetes.io/evict": "true"}
LEFT_ALONE = {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}
AGE = "{minPodAge: 50m}"
WITHOUT_BUDGET = "{ignorePodsWithoutPDB: true}"


def one(make=lambda s: s, name="web"):
    return workload(name, ["n1"], make)


def annotated(parts):
    return changed(parts, lambda pod: pod.annotate(ANYWAY))


def bare(phase="Running"):
    return [b.pod("bare").cpu("100m").on("n1").phase(phase)]


def mirror():
    return changed(one(), lambda pod: pod.annotate({"kubernetes.io/config.mirror": "x"}))


def of_stateful_set():
    owner = b.statefulset("web").cpu("100m")
    return [owner, owner.pod("web-0").on("n1")]


def of_priority(priority):
    return one(lambda s: s.priority(priority))


def local():
    return one(lambda s: s.empty_dir())


def on_host():
    return one(lambda s: s.volume({"name": "host", "hostPath": {"path": "/data"}}))


def with_claim():
    return [*one(lambda s: s.claim("data")), b.claim("data").bound_to("pv"), b.volume("pv")]


def started(minutes_ago):
    hour, minute = divmod(8 * 60 - minutes_ago, 60)
    at = f"2027-01-15T{hour:02}:{minute:02}:00Z"
    return changed(one(), lambda pod: pod.created(at).set("status.startTime", at))


def west(name):
    return one(lambda s: s.node_selector({"dc": name}))


def row(says, pods, goes, evictor="{}", nodes=(N1, SPARE), *, top=""):
    return Row(says, list(nodes), [pods], goes, evictor=evictor, top=top)


WEST = small("n2").label(dc="west")
ROWS = [
    row("a failed pod without a controller", bare("Failed"), 0),
    row("a running pod without a controller", bare(), 0, "{evictFailedBarePods: true}"),
    row("a failed pod without a controller: nothing creates it elsewhere", bare("Failed"), 0, "{evictFailedBarePods: true}"),
    row("of a ReplicaSet", one(), {"web-0"}),
    row("of a ReplicaSet, annotated", annotated(one()), {"web-0"}),
    row("of a StatefulSet", of_stateful_set(), {"web-0"}),
    row("of a StatefulSet, annotated", annotated(of_stateful_set()), {"web-0"}),
    row("local storage", local(), 0),
    row("local storage, which may go", local(), {"web-0"}, "{evictLocalStoragePods: true}"),
    row("local storage, which may go by its new name", local(), {"web-0"}, "{podProtections: {defaultDisabled: [PodsWithLocalStorage]}}"),
    row("local storage, which may go by a key of the whole policy", local(), {"web-0"}, top="evictLocalStoragePods: true"),
    row("local storage, annotated", annotated(local()), {"web-0"}),
    row("a path of the host", on_host(), 0),
    row("a path of the host, which may go", on_host(), {"web-0"}, "{evictLocalStoragePods: true}"),
    row("a claim", with_claim(), {"web-0"}),
    row("a claim, which is protected", with_claim(), 0, "{ignorePvcPods: true}"),
    row("a claim, which is protected by its new name", with_claim(), 0, "{podProtections: {extraEnabled: [PodsWithPVC]}}"),
    row("a claim, annotated", annotated(with_claim()), {"web-0"}, "{ignorePvcPods: true}"),
    row("of a DaemonSet", agent(), 0),
    row("of a DaemonSet, whatever its annotation says", annotated(agent()), 0),
    row("of a DaemonSet, whatever the policy says", agent(), 0, "{evictDaemonSetPods: true}"),
    row("a mirror pod", mirror(), 0),
    row("a mirror pod, whatever its annotation says", annotated(mirror()), 0),
    row("of system priority", of_priority(CRITICAL), 0),
    row("of system priority, whatever its annotation says", annotated(of_priority(CRITICAL)), 0),
    row("of system priority, whatever the policy says", of_priority(CRITICAL), 0, "{evictSystemCriticalPods: true}"),
    row("just below system priority", of_priority(CRITICAL - 1), {"web-0"}),
    row("above the threshold", of_priority(900), 0, "{priorityThreshold: {value: 800}}"),
    row("at the threshold", of_priority(800), 0, "{priorityThreshold: {value: 800}}"),
    row("below the threshold", of_priority(799), {"web-0"}, "{priorityThreshold: {value: 800}}"),
    row("above the threshold, annotated", annotated(of_priority(900)), {"web-0"}, "{priorityThreshold: {value: 800}}"),
    row("above the threshold, which does not count", of_priority(900), {"web-0"},
        "{priorityThreshold: {value: 800}, evictSystemCriticalPods: true}"),
    row("above the threshold, which does not count by its new name", of_priority(900), {"web-0"},
        "{priorityThreshold: {value: 800}, podProtections: {defaultDisabled: [SystemCriticalPods]}}"),
    row("two replicas of at least two", workload("web", ["n1", "spare"]), {"web-0"}, "{minReplicas: 2}"),
    row("two replicas of at least three", workload("web", ["n1", "spare"]), 0, "{minReplicas: 3}"),
    row("ten minutes old", started(10), 0, AGE),
    row("sixty minutes old", started(60), {"web-0"}, AGE),
    row("ten minutes old, and age does not count", started(10), {"web-0"}),
    row("without a budget", one(), 0, WITHOUT_BUDGET),
    row("without a budget, by its new name", one(), 0, "{podProtections: {extraEnabled: [PodsWithoutPDB]}}"),
    row("with a budget", [*one(), b.pdb("web").allows(1)], {"web-0"}, WITHOUT_BUDGET),
    row("with a budget that allows nothing", [*one(), b.pdb("web").allows(0)], 0),
    row("it is selected", one(), {"web-0"}, "{labelSelector: {matchLabels: {app: web}}}"),
    row("it is not selected", one(), 0, "{labelSelector: {matchLabels: {app: other}}}"),
    row("its own node is selected", one(), {"web-0"}, "{nodeSelector: pool=a}", [N1.label(pool="a"), SPARE.label(pool="a")]),
    row("it may go to nodes that the evictor does not select", one(), {"web-0"}, "{nodeFit: true, nodeSelector: pool=a}", [N1.label(pool="a"), SPARE]),
    row("annotated to be left alone", changed(one(), lambda pod: pod.annotate(LEFT_ALONE)), 0,
        "{noEvictionPolicy: Mandatory}"),
    row("annotated to be left alone if possible",
        changed(one(), lambda pod: pod.annotate(LEFT_ALONE)), {"web-0"}),
    row("annotated to be left alone, and to go", changed(one(), lambda pod: pod.annotate({**ANYWAY, **LEFT_ALONE})), {"web-0"},
        "{noEvictionPolicy: Mandatory}"),
    row("annotated, and not selected", annotated(one()), {"web-0"}, "{labelSelector: {matchLabels: {app: other}}}"),
    row("annotated, of too few replicas", annotated(one()), {"web-0"}, "{minReplicas: 3}"),
    row("annotated, ten minutes old", annotated(started(10)), {"web-0"}, AGE),
    row("annotated, without a budget", annotated(one()), {"web-0"}, WITHOUT_BUDGET),
    row("created long ago and started ten minutes ago", changed(started(10), lambda pod: pod.created("2027-01-14T00:00:00Z")), 0, AGE),
    row("a class of storage is protected: all are", with_claim(), 0,
        "{podProtections: {extraEnabled: [PodsWithPVC], config: {PodsWithPVC: {protectedStorageClasses: [{name: other}]}}}}"),
    row("a class of storage without its protection", with_claim(), {"web-0"},
        "{podProtections: {config: {PodsWithPVC: {protectedStorageClasses: [{name: other}]}}}}"),
    row("descheduler refuses the word", one(), 0, "{noEvictionPolicy: mandatory}"),
    row("descheduler refuses a value beside a name", one(), 0, "{priorityThreshold: {value: 800, name: system-cluster-critical}}"),
    row("descheduler refuses an old name beside new ones", local(), 0,
        "{evictLocalStoragePods: true, podProtections: {extraEnabled: [PodsWithPVC]}}"),
    row("it tolerates no taint of the others", one(), 0, "{nodeFit: true}", [N1, GPU]),
    row("it tolerates the taint of another", one(lambda s: s.tolerate("hardware", "gpu", "NoSchedule")), {"web-0"}, "{nodeFit: true}", [N1, GPU]),
    row("no other node meets its selector", west("fail"), 0, "{nodeFit: true}", [N1, WEST]),
    row("no other node meets its selector, fit or not", west("fail"), 0, "{nodeFit: false}", [N1, WEST]),
    row("another node meets its selector", west("west"), {"web-0"}, "{nodeFit: true}", [N1, WEST]),
    row("another node meets its selector and has too little CPU", west("west"), 0, "{nodeFit: true}", [N1, small("n2", 50).label(dc="west")]),
    row("in kube-system", workload("web", ["n1"], namespace="kube-system"), {"web-0"}),
    row("it is terminating", changed(one(), lambda pod: pod.deleting()), 0),
]  # fmt: skip

TABLES = ((PLUGIN, ROWS),)
