"""Which node a Reservation gets by the scheduler's own rules: volumes, named nodes, rooms that must keep apart."""

import msgspec
import pytest
from made_placeholders import made_placeholder

from harness import builders as b
from rescheduler.calls.nodes import write_avoid_hints
from rescheduler.coordination.dry_run_creations import TemplateTrials
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.placement import Placement
from rescheduler.model.kinds import Kind
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.own_objects import condition
from rescheduler.model.reservation import ReservationPhase
from rescheduler.replacements.replacement import Replacements
from tests.one_round import Recorder, reconciler

PVC = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def nodes(*names_):
    return [b.node(name).zone(zone).label({HOSTNAME: name}) for name, zone in names_]


THREE = nodes(("n1", "a"), ("n2", "b"), ("n3", "b"))


def room(
    name="room", *, node="", labels=None, volumes=(), status=None, cpu="1", memory=None, limits=None, **spec
):
    resources = {"requests": {"cpu": cpu} | ({"memory": memory} if memory else {}), "limits": limits or {}}
    template = {
        "metadata": {"labels": labels or {}},
        "spec": {"containers": [{"name": "c", "image": "c", "resources": resources}], **spec},
    }
    if node:
        template["spec"]["nodeName"] = node
    if volumes:
        template["spec"]["volumes"] = list(volumes)
    owners = [{"controller": {"kind": "Deployment", "name": "web", "namespace": "shop"}}]
    made = b.object_of(Kind.RESERVATION, name, spec={"template": template, "owners": owners, "ttl": "0s"})
    return made.set("status", status) if status else made


def holder(reservation, node):
    """Its bound placeholder, as a cluster has it."""
    return made_placeholder(reservation, node).on(node)


class Taken(TemplateTrials):
    """The API server takes every template, and need not be asked."""

    def of(self, template, now_s):
        return ""


def actions(*objects):
    """What is done in one round that follows another."""
    sender, placement = Recorder(), Placement(namespace="rescheduler")
    work = reconciler(sender, placement=placement, memory=Memory(templates=Taken()))
    for ago_s in (20.0, 1.0):
        work.reconcile(b.snapshot(), b.NOW_S - ago_s)
    work.reconcile(b.snapshot(*objects), b.NOW_S)
    return sender.calls


def owner_of(call):
    """The Reservation that a placeholder is made for."""
    return msgspec.json.decode(call.body)["metadata"]["ownerReferences"][0]["name"]


def terms_of(call):
    """The node affinity of a placeholder."""
    affinity = msgspec.json.decode(call.body)["spec"]["affinity"]["nodeAffinity"]
    return affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def placed(*objects, named="room"):
    """The placeholder that is made for a Reservation, or None; the words of its condition Scheduled."""
    done = actions(*objects)
    made = [a for a in done if a.does == "create_placeholder" and owner_of(a) == named]
    told = [a for a in done if a.does == "write_status" and a.key.name == named]
    said = condition(told[0].status.conditions, "Scheduled") if told else None
    return (made[0] if made else None), (said.message if said else "")


def not_held(reservation, *objects):
    """What is said once it is held."""
    done = actions(*THREE, *objects, reservation, holder(reservation, "n1"))
    (told,) = [a for a in done if a.does == "write_status"]
    assert told.status.phase is ReservationPhase.AVAILABLE
    said = condition(told.status.conditions, "HeldCompletely")
    return said.message if said else ""


def zoned_volume(name, zone):
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    return b.volume(name).set("spec.nodeAffinity", {"required": {"nodeSelectorTerms": terms}})


BOUND = [zoned_volume("pv", "b"), b.claim("data", "shop").bound_to("pv")]


@pytest.mark.parametrize(
    ("namespace", "ends_s", "node"), [("shop", 9.0, "n3"), ("shop", -9.0, "n2"), ("else", 9.0, "n2")]
)
def test_a_node_that_the_owners_pods_should_avoid_is_taken_last(namespace, ends_s, node):
    web = b.replicaset("web-1", "shop").owner("Deployment", "web", "dep")
    uid = web.build().uid
    hint = AvoidEntry("ReplicaSet", "web-1", uid, namespace, "NodeTaints", b.NOW_S + ends_s)
    full = b.pod("there", "shop").cpu("3").on("n1")
    written = msgspec.json.decode(write_avoid_hints(b.node("n2").build(), (hint,)).body)
    hinted = b.node("n2").annotate(written["metadata"]["annotations"])
    made, _ = placed(b.node("n1"), hinted, b.node("n3"), full, web, room())
    assert made.holds_on == node


def test_a_template_goes_where_its_volume_is_and_the_placeholder_is_kept_there():
    made, _ = placed(*nodes(("n1", "a"), ("n2", "b")), *BOUND, room(volumes=[PVC]))
    assert made.holds_on == "n2"
    assert {"key": ZONE, "operator": "In", "values": ["b"]} in terms_of(made)[0]["matchExpressions"]


def test_a_named_node_that_the_volume_does_not_reach_is_refused():
    made, words = placed(*THREE, *BOUND, room(volumes=[PVC], node="n1"))
    assert made is None
    assert words == "node/n1: node(s) didn't match PersistentVolume's node affinity"
    assert placed(*THREE, *BOUND, room(volumes=[PVC], node="n3"))[0].holds_on == "n3"


def test_claims_are_looked_up_in_the_namespace_of_the_owners():
    made, words = placed(
        *THREE, zoned_volume("pv", "b"), b.claim("data", "default").bound_to("pv"), room(volumes=[PVC])
    )
    assert made is None
    assert 'persistentvolumeclaim "data" not found' in words


def test_a_claim_that_waits_for_its_pod_is_held_where_a_volume_can_be_had():
    reach = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    slow = b.storage_class("slow").set("allowedTopologies", reach)
    claim = b.claim("data", "shop").set("spec.storageClassName", "slow")
    made, _ = placed(*THREE, slow, claim, room(volumes=[PVC]))
    assert made.holds_on in ("n2", "n3")
    assert "matchExpressions" not in terms_of(made)[0], "no volume is bound yet"
    refused, words = placed(*THREE, slow, claim, room(volumes=[PVC], node="n1"))
    assert refused is None
    assert "didn't find available persistent volumes to bind" in words


def test_a_claim_that_is_to_be_bound_at_once_is_waited_for():
    now = b.storage_class("now", wait=False)
    claim = b.claim("data", "shop").set("spec.storageClassName", "now")
    made, words = placed(*THREE, now, claim, room(volumes=[PVC]))
    assert made is None
    assert "unbound immediate PersistentVolumeClaims" in words


def test_an_ephemeral_volume_keeps_no_room_from_being_held():
    made, _ = placed(*THREE, room(volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]))
    assert made is not None


@pytest.mark.parametrize(("node", "template", "words"), [
    (b.node("n1").taint("gpu"), {}, "node/n1: node(s) had untolerated taint(s)"),
    (b.node("n1").cpu("1"), {"cpu": "2"}, "node/n1: Insufficient cpu"),
    (b.node("n1").cordoned(), {}, "node/n1: node(s) were unschedulable"),
    (b.node("n1"), {"nodeSelector": {"disk": "ssd"}}, "node/n1: node(s) didn't match Pod's node affinity/selector"),
    (b.node("n2"), {}, "node/n1: there is no such node"),
])  # fmt: skip
def test_a_named_node_is_judged_in_the_scheduler_s_words(node, template, words):
    made, said = placed(node, room(node="n1", **template))
    assert made is None
    assert said == words


APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "topologyKey": ZONE,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}
WEB = {"app": "web"}


def test_a_named_node_is_judged_by_anti_affinity_and_spread():
    web = b.pod("web-0", "shop").label(WEB).on("n1")
    assert placed(*THREE, web, room(node="n1", labels=WEB, **APART))[1].endswith("anti-affinity rules")
    assert placed(*THREE, web, room(node="n2", labels=WEB, **APART))[0].holds_on == "n2"
    assert placed(*THREE, web, room(node="n1", labels=WEB, **SPREAD))[1].endswith(
        "topology spread constraints"
    )
    assert placed(*THREE, web, room(node="n3", labels=WEB, **SPREAD))[0].holds_on == "n3"


AVAILABLE = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "1"}}


@pytest.mark.parametrize("rule", [APART, SPREAD], ids=["anti-affinity", "spread"])
def test_rooms_keep_apart_and_spread_as_their_pods_must(rule):
    first = room("first", labels=WEB, status=AVAILABLE, **rule)
    made, _ = placed(*THREE, first, holder(first, "n1"), room(labels=WEB, **rule))
    assert made.holds_on != "n1"
    made, words = placed(*THREE, first, holder(first, "n1"), room(labels=WEB, node="n1", **rule))
    assert made is None
    assert words.startswith("node/n1: node(s) didn't")


def test_a_room_that_is_held_already_is_counted_once():
    first = room("first", labels=WEB, status=AVAILABLE, **APART)
    small = [node.cpu("2") for node in nodes(("n1", "a"))]
    assert placed(*small, first, holder(first, "n1"), room(node="n1"))[0].holds_on == "n1"


GUARANTEED = {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(("cpu", "limits", "said"), [
    ("2", GUARANTEED, True),
    ("1500m", {**GUARANTEED, "cpu": "1500m"}, False),
    ("1", GUARANTEED, False),
    ("2", {"cpu": "2"}, False),
    ("2", {}, False),
])  # fmt: skip
def test_exclusive_cpus_are_said_not_to_be_held(cpu, limits, said):
    words = not_held(room(cpu=cpu, memory=limits.get("memory"), limits=limits))
    assert ("NUMA node serves exclusive CPUs" in words) is said


def test_one_container_that_is_not_guaranteed_shares_the_cpus_of_all():
    side = {"name": "side", "resources": {"requests": {"cpu": "1"}}}
    container = {"name": "c", "resources": {"requests": GUARANTEED, "limits": GUARANTEED}}
    assert "exclusive" in not_held(room(containers=[container]))
    assert "exclusive" not in not_held(room(containers=[container, side]))
    whole = {"requests": GUARANTEED, "limits": GUARANTEED}
    assert "exclusive" in not_held(room(containers=[container, side], resources=whole))


def test_what_a_runtime_class_adds_is_held_only_if_the_template_says_it():
    assert "RuntimeClass kata adds" in not_held(room(runtimeClassName="kata"))
    assert not_held(room(runtimeClassName="kata", overhead={"cpu": "100m"})) == ""


def test_an_unbound_claim_is_named_once_the_room_is_held():
    claim = b.claim("data", "shop").set("spec.storageClassName", "slow")
    words = not_held(room(volumes=[PVC]), claim, b.storage_class("slow"))
    assert "claim data has no volume yet" in words
    assert "has no volume" not in not_held(room(volumes=[PVC]), *BOUND)


@pytest.mark.parametrize("labels", [{}, {"app": "web"}])
@pytest.mark.parametrize(("cpu", "fits"), [("2", True), ("1900m", False)])
def test_a_room_that_is_handed_over_counts_once(labels, cpu, fits):
    """The placeholder of another move's room still stands, and its claimant is nominated."""
    web = b.replicaset("web", "shop").cpu("1").replicas(2)
    claimant = web.pod("web-1").nominated("n2")
    claims = {"namespace": "shop", "name": "web-1", "uid": claimant.build().uid}
    held = {"phase": "Available", "nodeName": "n2"}
    other = room("other", status={**held, "currentOwners": [claims]}, labels=labels)
    own = room("own", status=held)
    n1, n2 = nodes(("n1", "a"), ("n2", "b"))
    cluster = b.snapshot(
        n1, n2.cpu(cpu), web, web.pod("web-0").on("n1"), claimant, other, own, holder(other, "n2"),
        holder(own, "n2"),
    )  # fmt: skip
    placement = Placement(namespace="rescheduler")
    placement.begin(Replacements(cluster))
    pod = next(pod for pod in cluster.pods.values() if pod.name == "web-0")
    assert placement.fits(pod, "n2", own.build()).ok is fits


def test_the_room_of_a_move_does_not_count_against_its_own_pod():
    web = b.replicaset("web", "shop").cpu("1").replicas(1)
    cluster = b.snapshot(
        *[n.cpu("1") for n in nodes(("n1", "a"), ("n2", "b"))], web, web.pod("web-0").on("n1")
    )
    placement, reservation = Placement(namespace="rescheduler"), room(node="n2").build()
    placement.begin(Replacements(cluster))
    assert placement.for_reservation(reservation).node == "n2"
    (pod,) = cluster.pods.values()
    assert placement.fits(pod, "n2", reservation).ok
    assert not placement.fits(pod, "n2", None).ok, "for anybody else it is taken in this round"
