"""Objects with anything in any field, annotation, label and key, through everything that reads them: nothing of it ends.

From the text of the API server to the calls that would be sent: decoder, index, observers, both state machines, call table,
then a decision and its reports. A crash of one step would be caught and told by the controller; here each is a failure. The one
exception: of an object whose status cannot be read, nothing can be written into the status.

``RESCHEDULER_EXAMPLES=20000`` tries more of them (``make nightly``).
"""

import os

import msgspec
from generated_cluster import DECODER, MANIFESTS, damaged, fields_read
from hypothesis import HealthCheck, given, settings

from harness import builders as b
from rescheduler.configuration.document import parse_configuration
from rescheduler.controller.crashes import CrashReports
from rescheduler.controller.sender import DryRunSender
from rescheduler.controller.settings import Settings
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.protection import protection_of
from rescheduler.errors import TransitionError
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import BadObject
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.planning.planner import decide
from rescheduler.reports.structured import pretty_json
from rescheduler.reports.text import plan_text
from rescheduler.reservations.settings import EngineChoice, ReservationSettings
from rescheduler.scheduling.state import SchedulingState
from tests.one_round import reconciler

NIGHTLY = "RESCHEDULER_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("RESCHEDULER_EXAMPLES", "25"))
CONFIGURATIONS = [
    parse_configuration(
        f"{{apiVersion: rescheduler.dev/v1alpha1, kind: ReschedulerConfiguration, aggressiveness: aggressive, policies: [{policies}]}}".encode(),
        "test",
    )
    for policies in (
        "{name: NodeTaints, after: 0s}, {name: NodeAffinity}, {name: InterPodAntiAffinity}, {name: TopologySpread}, {name: LowNodeUtilization}",
        "{name: HighNodeUtilization}",
        "{name: Defragmentation, template: {cpu: 2}}",
        "{name: PendingPods, after: 0s}",
    )
]
CONFIGURATION = CONFIGURATIONS[0]


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


def rounds(state, engine=EngineChoice.PLACEHOLDER):
    settings = ReservationSettings(engine=engine)
    work = reconciler(
        DryRunSender(show=str),
        settings=Settings(migrations=MigrationSettings(reservations=settings)),
        placement=Placement(
            namespace="rescheduler",
            protection=protection_of(CONFIGURATION.inputs().protections, CONFIGURATION.profile),
        ),
        crashes=NoCrash(),
    )
    for after_s in (0.0, 1.0, 70.0, 4000.0):
        work.reconcile(state.snapshot(b.NOW_S + after_s), b.NOW_S + after_s)


def reports(state, configuration):
    snapshot = state.snapshot(b.NOW_S)
    decided = decide(
        snapshot,
        configuration.build_policies(),
        configuration.inputs(),
        SchedulingState(snapshot, configuration.profile),
    )
    plan = decided.plan()
    plan_text(plan).encode("utf-8", "replace")
    pretty_json(plan)


def everything(state):
    rounds(state)
    rounds(state, EngineChoice.KOORDINATOR)
    for configuration in CONFIGURATIONS:
        reports(state, configuration)


@given(damaged())
@settings(
    max_examples=EXAMPLES,
    derandomize=not NIGHTLY,  # the same ones in each run, so that it fails only because of a change
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_nothing_that_anybody_writes_ends_a_round_or_a_decision(cluster):
    state = taken_in(cluster)
    everything(state)


def test_the_undamaged_cluster_is_read_whole_and_acted_on():
    state = taken_in(MANIFESTS)
    assert sum(state.counts().values()) == len(MANIFESTS)
    everything(state)


def test_every_kind_and_every_field_that_is_read_is_generated():
    kinds = {kind for kind, _ in MANIFESTS}
    assert set(RESOURCES) <= kinds
    for kind in kinds:
        assert len(fields_read(kind)) > 10, kind
    paths = {path for path, _ in fields_read(Kind.DEPLOYMENT)}
    assert ("spec", "template", "spec", "affinity", "podAntiAffinity") in {path[:5] for path in paths}
    assert ("spec", "strategy", "rollingUpdate", "maxSurge") in paths
