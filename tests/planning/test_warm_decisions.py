"""A decision with the state and all answers of earlier ones is the decision that a new state makes, whatever happened between."""

import dataclasses
import random

import msgspec
import pytest

from harness.rest.clusters import random_cluster
from harness.rest.sets import DOCUMENTS
from rescheduler.configuration.document import parse_configuration
from rescheduler.model.names import DO_NOT_DISRUPT, ZONE
from rescheduler.model.records import DisruptionBudget, ObjectKey, PodPhase, Taint
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import ChangeLog
from rescheduler.planning.limits import PlanningInputs, Protections
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState
from tests import records
from tests.seeds import NIGHTLY, seeds

DECISIONS, EVENTS_BETWEEN, SIZE = (25, 1, 8) if NIGHTLY else (5, 4, 6)
PROTECTIONS = (
    Protections(),
    Protections(min_age_s=60.0),
    Protections(min_replicas=3),
    Protections(without_budget=True),
)


class History:
    """A cluster to which things happen; its snapshots know which pods changed, as those of the informers do."""

    def __init__(self, seed):
        self.chance = random.Random(seed)  # noqa: S311 -- test data
        self.log, self.next_events = ChangeLog(), []
        self.snapshot = random_cluster(seed, nodes=SIZE, apps=SIZE)
        self.follow(pods=dict(self.snapshot.pods))

    def follow(self, **changes):
        self.snapshot = dataclasses.replace(self.snapshot, **changes)
        self.snapshot = dataclasses.replace(self.snapshot, pod_log=self.log.position(self.snapshot.pods))

    def put(self, pod):
        self.log.append(pod.key)
        self.follow(pods={**self.snapshot.pods, pod.key: pod})

    def any_pod(self):
        return self.chance.choice(list(self.snapshot.pods.values()))

    def pod_changes(self, **changes):
        self.put(records.changed(self.any_pod(), **changes))

    def owner_changes(self, **changes):
        uid, owner = self.chance.choice(list(self.snapshot.workloads.items()))
        changed = msgspec.structs.replace(owner, **changes)
        self.follow(workloads={**self.snapshot.workloads, uid: changed})

    def node_changes(self, **changes):
        name, node = self.chance.choice(list(self.snapshot.nodes.items()))
        self.follow(nodes={**self.snapshot.nodes, name: msgspec.structs.replace(node, **changes)})

    def pod_goes(self):
        if len(self.snapshot.pods) > 2:
            gone = self.any_pod().key
            self.log.append(gone)
            self.follow(pods={key: pod for key, pod in self.snapshot.pods.items() if key != gone})

    def pod_comes(self):
        like = self.any_pod()
        name = f"{like.name}x"
        node = self.chance.choice([*self.snapshot.nodes, ""])
        now_s = self.snapshot.taken_at_s
        self.put(msgspec.structs.replace(like, name=name, uid=name, node=node, created_at_s=now_s))

    def budget_comes(self):
        labels, namespace = self.any_pod().labels, self.any_pod().namespace
        owner = self.chance.choice([w for w in self.snapshot.workloads.values() if w.selector is not None])
        budget = DisruptionBudget(
            namespace=namespace, name=f"of-{len(labels)}", selector=owner.selector, disruptions_allowed=1
        )
        self.follow(budgets={**self.snapshot.budgets, ObjectKey(budget.namespace, budget.name): budget})

    def step(self):
        """Each event once, in any order, before one happens again."""
        self.next_events = self.next_events or self.chance.sample(self.events(), len(self.events()))
        self.next_events.pop()()
        self.follow(taken_at_s=self.snapshot.taken_at_s + self.chance.choice([1.0, 40.0]))

    def events(self):
        chance = self.chance
        return (
            self.pod_goes,
            self.pod_comes,
            self.budget_comes,
            lambda: self.pod_changes(ready=chance.random() < 0.5),
            lambda: self.pod_changes(deleting=True),
            lambda: self.pod_changes(phase=chance.choice([PodPhase.FAILED, PodPhase.RUNNING])),
            lambda: self.pod_changes(node=chance.choice([*self.snapshot.nodes, "gone", ""])),
            lambda: self.pod_changes(annotations=LabelSet({DO_NOT_DISRUPT: chance.choice(["true", "1h"])})),
            lambda: self.owner_changes(replicas=chance.randrange(6)),
            lambda: self.owner_changes(rolling_out=chance.random() < 0.5),
            lambda: self.owner_changes(deleting=chance.random() < 0.5),
            lambda: self.node_changes(unschedulable=chance.random() < 0.5),
            lambda: self.node_changes(taints=(Taint("old", ""),) if chance.random() < 0.5 else ()),
            lambda: self.node_changes(labels=LabelSet({ZONE: chance.choice("abc"), "disk": "ssd"})),
            lambda: self.node_changes(resource_version="later"),
        )


def every_policy():
    wide = {"NodeAffinity": {"types": ("required", "preferred")}}
    return tuple(kind.build(kind.args(**wide.get(name, {}))) for name, kind in REGISTRY.items())


DOCUMENTS_READ = {
    p.stem: parse_configuration(p.read_text(), p.name) for p in sorted(DOCUMENTS.glob("*.yaml"))
}
SUBJECTS = {name: (read.build_policies, read.inputs) for name, read in DOCUMENTS_READ.items()}
SUBJECTS["every policy"] = (every_policy, PlanningInputs)


@pytest.mark.parametrize(("build", "inputs_of"), SUBJECTS.values(), ids=SUBJECTS)
def test_a_decision_after_any_events_is_that_of_a_new_state(build, inputs_of):
    """Whether the snapshot tells which pods have changed or not."""
    moves = 0
    for seed in seeds(500, 504, 1):
        history, policies = History(seed), build()
        state = SchedulingState(history.snapshot)
        protections = PROTECTIONS[seed % len(PROTECTIONS)]
        for number in range(DECISIONS):
            inputs = msgspec.structs.replace(inputs_of(unlimited=number % 2 == 0), protections=protections)
            seen = history.snapshot
            if number % 3 == 2:
                seen = dataclasses.replace(seen, pod_log=None)
            warm = plan(seen, policies, inputs, state)
            cold = plan(seen, build(), inputs, SchedulingState(seen))
            assert msgspec.json.encode(warm) == msgspec.json.encode(cold), (seed, number)
            moves += len(warm.moves)
            for _ in range(EVENTS_BETWEEN):
                history.step()
    assert moves > 0, "clusters that need no moves prove nothing"
