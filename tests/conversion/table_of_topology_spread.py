"""RemovePodsViolatingTopologySpreadConstraint: how many go from which domain."""

from harness import builders as b
from tests.conversion.tables import Row, changed, small, workload

PLUGIN = "RemovePodsViolatingTopologySpreadConstraint"
BOTH = "{constraints: [DoNotSchedule, ScheduleAnyway]}"


def zones(*letters, cpu=None, **changed):
    return [changed.get(z, small(f"n{i}").label(zone=z)) for i, z in enumerate(letters, 1)]


def evenly(spec, key="zone", skew=1, **more):
    spec = spec.template_label(foo="bar").spread(key, skew, hard=not more.pop("soft", False), foo="bar")
    if more:
        spread = spec.manifest()["spec"]["template"]["spec"]["topologySpreadConstraints"]
        spec = spec.set("spec.template.spec.topologySpreadConstraints", [{**spread[0], **more}])
    return spec


def counted(spec):
    """Matches the selector, without a constraint of its own."""
    return spec.template_label(foo="bar")


def group(name, make, **on):
    """Pods of one template: group("web", evenly, n1=3, n2=1)."""
    return workload(name, [node for node, count in on.items() for _ in range(count)], make, "ns1")


def os_nodes(*, more=0):
    linux = [small(f"n{i}").label(node=f"l{i}", os="linux") for i in (1, 2, 3)]
    return linux + [small(f"n{i}").label(node=f"w{i}", os="windows") for i in range(4, 7 + more)]


def on_windows(spec):
    return evenly(spec, "node").node_selector({"os": "windows"})


def pinned(spec):
    return evenly(spec, "node").node_selector({"node": "w4"})


A, B = (small(f"n{i}").label(zone=z) for i, z in enumerate("ab", 1))
TAINTED = B.taint("gpu", "yes")
SOFTLY = B.taint("gpu", "yes", "PreferNoSchedule")
STAYS = lambda spec: counted(spec).node_selector({"zone": "a"})  # noqa: E731
HOSTS = [small(f"n{i}").label({"topology.kubernetes.io/zone": z}) for i, z in enumerate("aaabbb", 1)]


def zone_softly_host_hard(spec):
    return (
        spec.template_label(foo="bar")
        .spread("topology.kubernetes.io/zone", hard=False, foo="bar")
        .spread("kubernetes.io/hostname", foo="bar")
    )


def of_this_hash(spec):
    return evenly(spec, matchLabelKeys=["pod-template-hash"])


SIZED = [
    small("n1", 250, 2000, 9).label(zone="a"),
    small("n2", 1000, 2000, 9).label(zone="b"),
    small("n3", 1000, 2000, 9).label(zone="c"),
]
CONTROL_PLANE = small("cp1").label(zone="a").taint("node-role.kubernetes.io/control-plane", "true")
INFRA = small("infra1").label(zone="a", infra="true").taint("infra")
APPS = [small("app1").label(zone="a", app="true"), small("app2").label(zone="b", app="true")]
IGNORING = {"nodeAffinityPolicy": "Ignore"}
ARM = [small(f"n{i}").label({"zone": z, "kubernetes.io/arch": "arm64"}) for i, z in enumerate("abc", 1)]

ROWS = [
    Row("2, 1", [A, B], [group("x", evenly, n1=1), group("y", counted, n1=1, n2=1)], 0),
    Row("3, 1", [A, B], [group("x", evenly, n1=3, n2=1)], 1),
    Row("3, 1, soft and hard count", [A, B], [group("x", lambda s: evenly(s, soft=True), n1=3, n2=1)], 1, BOTH),
    Row("3, 1, soft ones are not asked for", [A, B], [group("x", lambda s: evenly(s, soft=True), n1=3, n2=1)], 0),
    Row("3, 1, old name of soft ones", [A, B], [group("x", lambda s: evenly(s, soft=True), n1=3, n2=1)], 1,
        "{includeSoftConstraints: true}"),
    Row("3, 1, none has a controller", [A, B],
        [[b.pod(f"bare-{i}").label(foo="bar").spread("zone", foo="bar").on(n) for i, n in enumerate(["n1", "n1", "n1", "n2"])]], 0),
    Row("3, 1, another namespace is excluded", [A, B], [group("x", evenly, n1=3, n2=1)], 1, "{namespaces: {exclude: [kube-system]}}"),
    Row("3, 1, this namespace is excluded", [A, B], [group("x", evenly, n1=3, n2=1)], 0, "{namespaces: {exclude: [ns1]}}"),
    Row("5, 2", [A, B], [group("x", evenly, n1=5, n2=2)], 1),
    Row("4, 0", [A, B], [group("x", evenly, n1=4)], 2),
    Row("4, 0, three have no constraint: descheduler moves two", [A, B], [group("x", evenly, n1=1), group("y", counted, n1=3)], {"x-0"}),
    Row("4, 0, three are bound to their zone", [A, B],
        [group("x", lambda s: evenly(s).node_selector({"zone": "a"}), n1=2),
         group("y", lambda s: evenly(s).requires_node("foo", "bar"), n1=1), group("z", evenly, n1=1)], {"z-0"}),
    Row("on linux none, on windows 3, 3, 2", os_nodes(), [group("x", on_windows, n4=3, n5=3, n6=2)], 0),
    Row("on windows 3, 3, 2, 0", os_nodes(more=1), [group("x", on_windows, n4=3, n5=3, n6=2)], 2),
    Row("on windows 4, 3, 1", os_nodes(), [group("x", on_windows, n4=4, n5=3, n6=1)], 1),
    Row("on windows 4, 3, 1, and the four are bound to their node: one of the three still repairs something", os_nodes(),
        [group("x", pinned, n4=4), group("y", on_windows, n5=3, n6=1)], {"y-0"}),
    Row("4, 0, their selector has both nodes", [A.label(region="x"), B.label(region="x")],
        [group("x", lambda s: evenly(s).node_selector({"region": "x"}), n1=4)], 2),
    Row("0, 1, 100", [small(f"n{i}", 20000, 3000, 200).label(zone=z) for i, z in enumerate("abc", 1)],
        [group("x", evenly, n2=1, n3=100)], 66),
    Row("0, 1, 3, 5", zones(*"abcd"), [group("x", evenly, n2=1, n3=3, n4=5)], 3),
    Row("2, 6, skew of 2", [A, B], [group("x", lambda s: evenly(s, skew=2), n1=2, n2=6)], 1),
    Row("2, 6, the other node is tainted", [A.taint("gpu", "yes"), B], [group("x", lambda s: evenly(s, skew=2), n1=2, n2=6)], 0),
    Row("2, 6, the other node is full", [small("n1", 200).label(zone="a"), B],
        [group("x", lambda s: evenly(s, skew=2), n1=2, n2=6)], 0),
    Row("two constraints, 3 and 1 in zones, one of a host", HOSTS, [group("x", zone_softly_host_hard, n1=1, n2=1, n3=1, n4=1)], 1, BOTH),
    Row("8, 7, 0", zones(*"abc"), [group("x", evenly, n1=8, n2=7)], 5),
    Row("5, 5, 5", zones(*"abc"), [group("x", evenly, n1=5, n2=5, n3=5)], 0),
    Row("2, 0, the one that tolerates the taint goes", [A, TAINTED],
        [group("x", lambda s: evenly(s).tolerate("gpu", "yes", "NoSchedule"), n1=1), group("y", STAYS, n1=1)], {"x-0"}),
    Row("2, 0, none tolerates the taint", [A, TAINTED], [group("x", evenly, n1=1), group("y", STAYS, n1=1)], 0),
    Row("2, 0, the taint is soft", [A, SOFTLY], [group("x", evenly, n1=1), group("y", STAYS, n1=1)], {"x-0"}),
    Row("2, 0, pods are not selected", [A, B], [group("x", evenly, n1=2)], 0,
        "{labelSelector: {matchExpressions: [{key: foo, operator: In, values: [baz]}]}}"),
    Row("2, 0, pods are selected", [A, B], [group("x", evenly, n1=2)], 1,
        "{labelSelector: {matchExpressions: [{key: foo, operator: In, values: [bar]}]}}"),
    Row("2, 0, pods are selected by NotIn", [A, B], [group("x", evenly, n1=2)], 1,
        "{labelSelector: {matchExpressions: [{key: foo, operator: NotIn, values: [baz]}]}}"),
    Row("2, 0, of one template", [A, B],
        [group("x", lambda s: of_this_hash(s).template_label({"pod-template-hash": "1"}), n1=2)], 1),
    Row("2, 0, one of each template", [A, B],
        [group(n, lambda s, n=n: of_this_hash(s).template_label({"pod-template-hash": n}), n1=1) for n in "xy"], 0),
    Row("4, 2, two are terminating", [A, B],
        [group("x", evenly, n1=2, n2=2), changed(group("y", evenly, n1=2), lambda pod: pod.deleting())], 0),
    Row("2, 3, 4, the first zone is full", SIZED, [group("x", evenly, n1=2, n2=3, n3=4)], 0),
    Row("2, 3, 4, nobody goes to a full zone, whatever the policy says", SIZED,
        [group("x", evenly, n1=2, n2=3, n3=4)], 0, "{topologyBalanceNodeFit: false}"),
    Row("1, 2, 3 in zones of two nodes, the first zone is full",
        [small("a1", 150).label(zone="a"), small("a2", 50).label(zone="a"),
         *(small(n, 1000).label(zone=n[0]) for n in ("b1", "b2", "c1", "c2"))],
        [group("x", evenly, a1=1, b1=1, b2=1, c1=2, c2=1)], 0),
    Row("5, 3 in zones of two nodes", [small(n, 1000).label(zone=n[0]) for n in ("a1", "a2", "b1", "b2")],
        [group("x", evenly, a1=1, a2=4, b1=2, b2=1)], 1),
    Row("2, 2 by host, tainted nodes hold none", [CONTROL_PLANE, INFRA, *APPS],
        [group("x", lambda s: evenly(s, "kubernetes.io/hostname").requires_node("app", operator="Exists"), app1=2, app2=2)], 0),
    Row("2, 1, 0, affinity is ignored", ARM,
        [group("x", lambda s: evenly(s, **IGNORING).node_selector({"kubernetes.io/arch": "arm64"}), n1=1, n2=1),
         group("y", lambda s: evenly(s, **IGNORING).node_selector({"kubernetes.io/arch": "arm64", "zone": "a"}), n1=1)], {"x-0"}),
    Row("4, 1, the other zone has room", [A, small("n3").label(zone="a"), B], [group("x", evenly, n1=4, n2=1)], 1,
        "{zoneAwareNodeFit: true}"),
    Row("4, 1, the other zone has none", [A, small("n2", 50).label(zone="b")], [group("x", evenly, n1=4), group("y", counted, n2=1)], 0,
        "{zoneAwareNodeFit: true}"),
    Row("6, 2, 2, one of the other zones is full", [A, small("n2", 50).label(zone="b"), small("n3").label(zone="c")],
        [group("x", evenly, n1=6), group("y", counted, n2=2, n3=2)], 1),
]  # fmt: skip

TABLES = ((PLUGIN, ROWS),)
