"""Objects with anything in any field, annotation, label and key, through everything that reads them: nothing of it ends.

From the text of the API server to the calls that would be sent: decoder, index, observers, both state machines, call table,
then a decision and its reports. A crash of one step would be caught and told by the controller; here each is a failure. The one
exception: of an object whose status cannot be read, nothing can be written into the status.

``RESCHEDULER_EXAMPLES=20000`` tries more of them (``make nightly``).
"""

import copy
import os

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.damage import places, put
from rescheduler.configuration.document import parse_configuration
from rescheduler.controller.crashes import CrashReports
from rescheduler.controller.mirror import Mirror
from rescheduler.controller.reconcile import Reconciler
from rescheduler.controller.recording import MoveRecorder
from rescheduler.controller.sender import DryRunSender, TableExecutor
from rescheduler.coordination.rules_placement import RulesPlacement, protection_of
from rescheduler.errors import TransitionError
from rescheduler.kube.config_maps import StoredConfigMap
from rescheduler.model import names
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import BadObject, Decoder
from rescheduler.model.encode import migration_manifest, reservation_manifest
from rescheduler.model.kinds import Kind
from rescheduler.model.reservation import ControllerRef, ReservationOwner
from rescheduler.planning.planner import decide
from rescheduler.reports.structured import plan_json
from rescheduler.reports.text import plan_text
from rescheduler.reservations.observed import ReservationSettings
from rescheduler.reservations.placeholder import placeholder_name
from rescheduler.scheduling.state import SchedulingState
from rescheduler.testing import builders as b

NIGHTLY = "RESCHEDULER_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("RESCHEDULER_EXAMPLES", "60"))
CONFIGURATION = parse_configuration(
    b"""{apiVersion: rescheduler.dev/v1alpha1, kind: ReschedulerConfiguration, aggressiveness: aggressive, policies: [
    {name: NodeTaints}, {name: NodeAffinity}, {name: InterPodAntiAffinity}, {name: TopologySpread}, {name: LowNodeUtilization}]}""",
    "test",
)
DECODER = Decoder()
KEYS = [
    value
    for name, value in vars(names).items()
    if name.startswith(("ANNOTATION_", "LABEL_")) and isinstance(value, str)
]
TIMES = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999-12:00", "2026-01-01T00:00:00Z"]
TEXTS = [
    "", "--5", "9" * 5000, "default/m", "no/such", "a/b/c", "/", "Soft", "StartFirst", "Available", "Evicting", "web-1", "rs", "n2",
    "9999999999h", "-1s", "1e999", "1e-999", "0x10", "5m", "\x00", "\ud83d\ude00", "{}", "[]", '[{"controller":7}]', "NaN", *TIMES,
]  # fmt: skip
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([-1, 0, 2**31, 2**63 - 1, 2**63]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(TEXTS),
    st.text(max_size=6),
    st.lists(st.none() | st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=3), max_size=2),
)


def manifests():
    """A small cluster in the middle of everything that the controller does."""
    owner = b.replicaset("web").label(app="web").replicas(3).cpu("1")
    uid = owner.manifest()["metadata"]["uid"]
    refs = (ReservationOwner(controller=ControllerRef("apps/v1", "ReplicaSet", "web", uid, "default")),)
    template = {
        "spec": {"nodeName": "n2", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    }
    found = [
        (Kind.NODE, b.node("n1").taint("old").zone("a").manifest()),
        (Kind.NODE, b.node("n2").zone("b").image("i", 5).manifest()),
        (Kind.REPLICA_SET, owner.manifest()),
        (Kind.POD_DISRUPTION_BUDGET, b.pdb("web").allows(1).manifest()),
        (Kind.PERSISTENT_VOLUME, b.volume("v").manifest()),
        (Kind.PERSISTENT_VOLUME_CLAIM, b.claim("c").bound_to("v").manifest()),
        (Kind.POD, owner.pod("web-1").on("n1").claim("c").apart("zone", weight=3, app="web").manifest()),
        (Kind.POD, owner.pod("web-2").on("n1").spread("zone", app="web").host_port(80).manifest()),
        (Kind.POD, owner.pod("web-3").set("spec.schedulingGates", [{"name": names.GATE}]).manifest()),
    ]
    for name, status in (
        ("asked", {}),
        ("free", {"phase": "Available", "nodeName": "n2"}),
        (
            "claimed",
            {
                "phase": "Available",
                "nodeName": "n2",
                "currentOwners": [{"namespace": "default", "name": "web-3", "uid": "default/web-3"}],
            },
        ),
        ("over", {"phase": "Failed"}),
    ):
        room = _identified(reservation_manifest(name, template=template, owners=refs, ttl_s=300)) | {
            "status": status
        }
        found.append((Kind.RESERVATION, room))
        if name in ("free", "claimed"):
            held = b.pod(
                placeholder_name(DECODER.record(Kind.RESERVATION, msgspec.json.encode(room))), "rescheduler"
            )
            held = held.cpu("1").on("n2").label(**{names.LABEL_PLACEHOLDER: "x"})
            found.append((Kind.POD, held.owner("Reservation", name, f"uid-{name}").manifest()))
    for name, pod, status in (
        ("m", "web-1", {}),
        ("reserving", "web-2", {"phase": "Reserving", "nodeName": "n2", "startedAt": TIMES[2]}),
        ("evicting", "web-2", {"phase": "Evicting", "nodeName": "n2", "reservationName": "free", "evictionRequestedAt": TIMES[2]}),
        ("landing", "gone", {"phase": "HandingOver", "nodeName": "n2", "reservationName": "claimed", "evictedAt": TIMES[2]}),
        ("first", "web-1", {"phase": "Evicting", "mode": "StartFirst", "replacement": {"namespace": "default", "name": "web-3"}}),
        ("done", "gone", {"phase": "Succeeded", "finishedAt": TIMES[2]}),
    ):  # fmt: skip
        move = _identified(migration_manifest("default", name, pod_name=pod, ttl_s=300)) | {"status": status}
        found.append((Kind.POD_MIGRATION, move))
    return found


def _identified(manifest):
    meta = manifest["metadata"]
    meta |= {
        "uid": f"uid-{meta['name']}",
        "resourceVersion": "7",
        "creationTimestamp": TIMES[2],
        "generation": 1,
    }
    return manifest


MANIFESTS = manifests()


@st.composite
def damaged(draw):
    """The cluster with up to six changes: anything anywhere, or a key of ours among annotations and labels."""
    cluster = copy.deepcopy(MANIFESTS)
    for _ in range(draw(st.integers(1, 6))):
        _, manifest = draw(st.sampled_from(cluster))
        if draw(st.booleans()):
            part = draw(st.sampled_from(["annotations", "labels"]))
            meta = manifest.get("metadata")
            if isinstance(meta, dict) and isinstance(meta.setdefault(part, {}), dict):
                meta[part][draw(st.sampled_from(KEYS) | st.text(max_size=5))] = draw(
                    st.sampled_from(TEXTS) | JUNK
                )
            continue
        path = draw(st.sampled_from([place for place in places(manifest) if place]))
        put(manifest, path, draw(JUNK))
    return cluster


class Keys:
    """A ConfigMap that keeps nothing."""

    def read(self):
        return StoredConfigMap()

    def write(self, stored, add, remove, valid_until_s):
        return stored


class NoCrash(CrashReports):
    """Raises what the controller would tell."""

    def tell(self, step, about, error, tries=1):
        if not isinstance(error, TransitionError):
            raise AssertionError(f"the step of {about} crashed") from error  # noqa: TRY004 - a failed test


def taken_in(cluster):
    state = ClusterState()
    for kind, manifest in cluster:
        try:
            text = msgspec.json.encode(manifest)
        except (UnicodeEncodeError, OverflowError):
            continue  # no server sends it
        found = DECODER.attempt(kind, text)
        if isinstance(found, BadObject):
            found = DECODER.stand_in(kind, text)
        if found is not None:
            state.apply(kind, found)
    return state


def rounds(state):
    executor = TableExecutor(sender=DryRunSender(show=str), settings=ReservationSettings())
    work = Reconciler(
        executor=executor,
        gate=Mirror(switch=Keys(), lenient=True),
        hints=Mirror(switch=Keys()),
        recorder=MoveRecorder(mirror=Mirror(switch=Keys())),
        placement=RulesPlacement(
            namespace="rescheduler",
            protection=protection_of(CONFIGURATION.inputs().protections, CONFIGURATION.profile),
        ),
        crashes=NoCrash(),
    )
    for after_s in (0.0, 1.0, 70.0, 4000.0):
        work.reconcile(state.snapshot(b.NOW_S + after_s), b.NOW_S + after_s)


def reports(state):
    snapshot = state.snapshot(b.NOW_S)
    decided = decide(
        snapshot,
        CONFIGURATION.build_policies(),
        CONFIGURATION.inputs(),
        SchedulingState(snapshot, CONFIGURATION.profile),
    )
    plan = decided.plan()
    plan_text(plan).encode("utf-8", "replace")
    plan_json(plan)


@given(damaged())
@settings(
    max_examples=EXAMPLES,
    derandomize=not NIGHTLY,  # the same ones in each run, so that it fails only because of a change
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_nothing_that_anybody_writes_ends_a_round_or_a_decision(cluster):
    state = taken_in(cluster)
    rounds(state)
    reports(state)


def test_the_undamaged_cluster_is_read_whole_and_acted_on():
    state = taken_in(MANIFESTS)
    assert sum(state.counts().values()) == len(MANIFESTS)
    rounds(state)
    reports(state)
