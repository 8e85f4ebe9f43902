"""What a drain would do with each pod, decided before anything is changed."""

import pytest

from harness import builders as b
from rescheduler.cli.drain_plan import DrainOptions, Stays, plan_drain
from rescheduler.configuration.document import default_configuration

EVERYTHING = DrainOptions(ignore_daemonsets=True, delete_emptydir_data=True, force=True, evict_unmovable=True)


@pytest.fixture
def owner():
    return b.replicaset("web").replicas(3).cpu("1")


def plan(*objects, options=None, nodes=("n1",), closed=()):
    options = options or DrainOptions()
    return plan_drain(b.snapshot(*objects), default_configuration(), nodes, options, closed=closed)


def nodes(cpu="4"):
    return [b.node(name).cpu(cpu) for name in ("n1", "n2", "n3")]


def test_the_largest_pods_get_their_places_first(owner):
    """In the order of their names the small ones would take the only room of the large one."""
    large = b.replicaset("z").replicas(1).cpu("3")
    cluster = [b.node("n1").cpu("8"), b.node("n2").cpu("3"), b.node("n3").cpu("2"), owner, large]
    cluster += [owner.pod(f"web-{i}").on("n1") for i in range(2)] + [large.pod("z-0").on("n1")]
    found = plan(*cluster)
    assert found.refused == ()
    assert {(m.pod.name, m.target) for m in found.moves} == {("z-0", "n2"), ("web-0", "n3"), ("web-1", "n3")}


@pytest.mark.parametrize(("policy", "refused"), [("Honor", 0), ("Ignore", 1)])
def test_a_cordoned_node_is_no_domain_of_a_spread_that_honors_taints(policy, refused):
    """One replica on each node: the third may join another one only if the node that it leaves does not count."""
    constraint = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}, "nodeTaintsPolicy": policy,
    }  # fmt: skip
    web = b.replicaset("web").replicas(3).template_label(app="web")
    web = web.set("spec.template.spec.topologySpreadConstraints", [constraint])
    pods = [
        web.pod(f"web-{i}")
        .label(app="web")
        .set("spec.topologySpreadConstraints", [constraint])
        .on(f"n{i + 1}")
        for i in range(3)
    ]
    found = plan(*nodes(), web, *pods)
    assert (len(found.moves), len(found.refused)) == (1 - refused, refused)
    empty = b.node("n4")
    assert plan(*nodes(), empty, web, *pods, closed=("n4",)).refused, "it is not cordoned, and counts"


def test_a_pod_that_needs_the_company_of_another_one_follows_it_in_the_next_stage():
    db = b.replicaset("db").replicas(1).label(app="db")
    app = b.replicaset("app").replicas(1).near("kubernetes.io/hostname", app="db")
    pods = [db.pod("db-0").label(app="db").on("n1"), app.pod("app-0").on("n1")]
    found = plan(*nodes(), db.template_label(app="db"), app, *pods)
    assert found.refused == ()
    first, second = sorted(found.moves, key=lambda move: move.stage)
    assert (first.pod.name, second.pod.name, second.stage) == ("db-0", "app-0", 1)
    assert first.target == second.target


@pytest.mark.parametrize(("change", "words"), [
    (lambda p: p.empty_dir(), "--delete-emptydir-data"),
    (lambda p: p.set("metadata.ownerReferences", []), "--force"),
    (lambda p: p.owner("DaemonSet", "agent"), "--ignore-daemonsets"),
    (lambda p: p.priority(2_000_000_000), "critical to the system (priority 2000000000): evict it without room"),
    (lambda p: p.annotate({"rescheduler.dev/evict": "false"}), "--evict-unmovable"),
    (lambda p: p.scheduler("other"), "--evict-unmovable"),
])  # fmt: skip
def test_what_lacks_a_flag_is_refused_with_it_and_done_with_all_of_them(owner, change, words):
    pod = change(owner.pod("web-0").on("n1"))
    ((refused, why),) = plan(*nodes(), owner, pod).refused
    assert (refused.name, words in why) == ("web-0", True)
    assert plan(*nodes(), owner, pod, options=EVERYTHING).refused == ()


def test_a_claim_that_keeps_the_replacement_out_while_the_old_pod_ends_is_no_lack_of_room(owner):
    """No node that anybody adds would help: a node autoscaler is not asked, and a flag evicts it."""
    mode = "ReadWriteOncePod"
    volume = b.volume("v").set("spec.accessModes", [mode])
    claim = b.claim("data").set("spec.accessModes", [mode]).bound_to("v")
    cluster = [*nodes(), owner, volume, claim, owner.pod("web-0").claim("data").on("n1")]
    asks = DrainOptions(asks_for_nodes=True)
    ((_, why),) = plan(*cluster, options=asks).refused
    assert why.startswith(f"the pod uses claim data, {mode}, which keeps its replacement off every node")
    assert why.endswith("with --evict-unmovable")
    ((evicted, _),) = plan(*cluster, options=EVERYTHING).evictions
    assert evicted.name == "web-0"


def test_protections_of_the_configuration_keep_no_pod_on_a_drained_node(owner):
    found = plan(*nodes(), owner, owner.pod("important").priority(1_500_000).on("n1"))
    assert [(m.pod.name, m.stage) for m in found.moves] == [("important", 0)]


def test_pods_of_kube_system_cannot_wait_for_a_room(owner):
    dns = b.replicaset("dns", "kube-system").replicas(1)
    pod = dns.pod("dns-0").on("n1")
    ((_, why),) = plan(*nodes(), dns, pod).refused
    assert "the gate does not hold pods of namespace kube-system" in why
    ((evicted, _),) = plan(*nodes(), dns, pod, options=EVERYTHING).evictions
    assert evicted.name == "dns-0"


def test_lack_of_room_is_no_reason_to_evict(owner):
    pod = owner.pod("web-0").on("n1")
    found = plan(b.node("n1").cpu("4"), b.node("n2").cpu("500m"), owner, pod, options=EVERYTHING)
    assert (found.evictions, len(found.refused)) == ((), 1)


def test_static_pods_placeholders_and_ending_pods_are_in_nobodys_way(owner):
    pods = [
        owner.pod("static").annotate({"kubernetes.io/config.mirror": "x"}).on("n1"),
        owner.pod("room").label({"rescheduler.dev/placeholder": "r"}).on("n1"),
        owner.pod("ending").deleting().on("n1"),
    ]
    found = plan(*nodes(), owner, *pods)
    assert {(pod.name, why) for pod, why in found.stays} == {
        ("static", Stays.MIRROR),
        ("room", Stays.ROOM),
        ("ending", Stays.ENDING),
    }
    assert found.refused == found.moves == ()


def test_two_budgets_are_told_because_the_api_server_never_evicts_such_a_pod(owner):
    pod = owner.pod("web-0").label(app="web").on("n1")
    budgets = [b.pdb(name).selects(app="web").allows(1) for name in ("a", "b")]
    ((_, why),) = plan(*nodes(), owner, pod, *budgets).refused
    assert "2 PodDisruptionBudgets select it (default/a, default/b)" in why
