"""RemovePodsHavingTooManyRestarts and PodLifeTime: which running pods go because of what they have been through."""

from rescheduler.model.kinds import Kind
from tests.conversion.tables import Row, small, workload

N1, SPARE = small("n1"), small("spare")


def changed(parts, change):
    """The pods of a workload, each changed by its number."""
    pods = [part for part in parts if part.kind == Kind.POD]
    return [*(part for part in parts if part.kind != Kind.POD), *map(change, pods, range(len(pods)))]


def restarted(*counts, init=0, ready=True):
    """A pod of a ReplicaSet of its own for each count."""

    def with_restarts(pod, _number, count):
        status = {"name": "main", "restartCount": count, "ready": ready}
        found = pod.set("status.containerStatuses", [status])
        return found.set(
            "status.initContainerStatuses", [{"name": "init", "restartCount": init, "ready": True}]
        )

    return [
        changed(
            workload(f"web{i}", ["n1"]), lambda pod, number, count=count: with_restarts(pod, number, count)
        )
        for i, count in enumerate(counts)
    ]


def aged(*seconds):
    """A pod of a ReplicaSet of its own for each age, with the moment of the snapshots as now."""

    def created(pod, ago_s):
        minutes, left = divmod(8 * 3600 - ago_s, 60)
        at = f"2027-01-15T{minutes // 60:02}:{minutes % 60:02}:{left:02}Z"
        return pod.created(at).set("status.startTime", at)

    return [
        changed(workload(f"web{i}", ["n1"]), lambda pod, _number, ago_s=ago_s: created(pod, ago_s))
        for i, ago_s in enumerate(seconds)
    ]


def row(says, pods, goes, arguments, *, nodes=(N1, SPARE), evictor="{}"):
    return Row(says, list(nodes), pods, goes, arguments, evictor)


TEN = "{podRestartThreshold: 10}"
WITH_INIT = "{podRestartThreshold: 10, includingInitContainers: true}"
FIT = "{nodeFit: true}"
RESTARTS = [
    row("all below the threshold", restarted(9, 3, 0), 0, TEN),
    row("some at and above it", restarted(9, 10, 25), {"web1-0", "web2-0"}, TEN),
    row("restarts of init containers count", restarted(5, 4, init=5), {"web0-0"}, WITH_INIT),
    row("restarts of init containers do not count", restarted(5, 10, init=5), {"web1-0"}, TEN),
    row("the other node is tainted", restarted(25), 0, TEN, nodes=[N1, small("n2").taint("gpu", "yes")], evictor=FIT),
    row("the other node is cordoned", restarted(25), 0, TEN, nodes=[N1, small("n2").cordoned()], evictor=FIT),
    row("the other node has too little CPU", restarted(25), 0, TEN, nodes=[N1, small("n2", 50)], evictor=FIT),
    row("the other node has enough CPU", restarted(25), 1, TEN, nodes=[N1, small("n2", 100)], evictor=FIT),
    row("running or waiting for the next start", restarted(25), 1,
        "{podRestartThreshold: 10, states: [Running, CrashLoopBackOff]}"),
    row("no threshold: it is switched off", restarted(25), 0, "{}"),
    row("only one of these states: it is switched off", restarted(25), 0, "{podRestartThreshold: 10, states: [CrashLoopBackOff]}"),
]  # fmt: skip
OLD = "{maxPodLifeTimeSeconds: 600}"
AGES = [
    row("one is new and one is very old", aged(10, 20_000), {"web1-0"}, OLD),
    row("both are new", aged(10, 300), 0, OLD),
    row("605 seconds", aged(605), 1, OLD),
    row("595 seconds", aged(595), 0, OLD),
    row("only those of a label", aged(20_000, 20_000), {"web1-0"},
        "{maxPodLifeTimeSeconds: 600, labelSelector: {matchLabels: {app: web1}}}"),
    row("it is terminating", changed(aged(20_000)[0], lambda pod, _number: pod.deleting()), 0, OLD),
    row("running pods among others", aged(20_000), 1, "{maxPodLifeTimeSeconds: 600, states: [Pending, Running]}"),
    row("a state and no age: it is switched off", aged(20_000), 0, "{states: [Running]}"),
    row("pods in another state: it is switched off", aged(20_000), 0, "{maxPodLifeTimeSeconds: 600, states: [Pending]}"),
]  # fmt: skip

TABLES = (("RemovePodsHavingTooManyRestarts", RESTARTS), ("PodLifeTime", AGES))
