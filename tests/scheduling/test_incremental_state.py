"""After any events and trial moves the incremental state judges as one built from scratch."""

import dataclasses
import random
from collections import Counter

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.differential.clusters import random_cluster
from harness.differential.comparison import profile_of, snapshot_of
from rescheduler.model.records import DeviceClass, ObjectKey, Taint
from rescheduler.model.selectors import LabelSet
from rescheduler.model.storage_records import VolumeAttachment
from rescheduler.scheduling.classes import class_key
from rescheduler.scheduling.state import SchedulingState

REFERRED_TO = (
    "claims", "volumes", "attachments", "storage_classes", "csi_nodes", "csi_drivers", "csi_capacities",
    "device_classes", "services", "workloads",
)  # fmt: skip
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "example.com/gpu")


class IncrementalState(RuleBasedStateMachine):
    """Events and trial moves in any order; every step is compared with a fresh state."""

    @initialize(seed=st.integers(0, 400))
    def start(self, seed):
        question = random_cluster(seed)
        self.rng = random.Random(seed)  # noqa: S311 -- test data
        self.profile = profile_of(question)
        self.snapshot = snapshot_of(question.objects)
        self.asks = [ObjectKey(*name.split("/")) for name in question.asks]
        self.asked = [self.snapshot.pods[key] for key in self.asks]
        self.state = SchedulingState(self.snapshot, self.profile)
        self.trial = False
        self.marks = []

    def follow(self, **changes):
        self.snapshot = dataclasses.replace(self.snapshot, **changes)
        self.state.sync(self.snapshot)
        self.trial, self.marks = False, []

    def with_pod(self, pod):
        self.follow(pods={**self.snapshot.pods, pod.key: pod})

    def bound(self):
        return [pod for name in self.state.node_names for pod in self.state.pods_on(name)]

    @rule(pick=st.integers(0), where=st.integers(0))
    def pod_is_bound(self, pick, where):
        pods = [pod for pod in self.snapshot.pods.values() if not pod.node]
        if pods:
            node = self.state.node_names[where % len(self.state.node_names)]
            pod = pods[pick % len(pods)]
            self.with_pod(
                msgspec.structs.replace(pod, node=node, nominated_node="").with_state(held=pod.spec.requests)
            )

    @rule(pick=st.integers(0))
    def pod_is_deleted(self, pick):
        keys = list(self.snapshot.pods)
        if keys:
            gone = keys[pick % len(keys)]
            self.follow(pods={key: pod for key, pod in self.snapshot.pods.items() if key != gone})

    @rule(pick=st.integers(0), app=st.sampled_from("abc"), deleting=st.booleans())
    def pod_changes(self, pick, app, deleting):
        pods = list(self.snapshot.pods.values())
        if pods:
            pod = pods[pick % len(pods)]
            labels = LabelSet({**pod.labels, "app": app})
            self.with_pod(msgspec.structs.replace(pod, labels=labels).with_state(deleting=deleting))

    @rule(pick=st.integers(0), where=st.integers(0))
    def pod_is_nominated(self, pick, where):
        pods = [pod for pod in self.snapshot.pods.values() if not pod.node]
        if pods:
            node = self.state.node_names[where % len(self.state.node_names)]
            self.with_pod(msgspec.structs.replace(pods[pick % len(pods)], nominated_node=node))

    @rule(pick=st.integers(0), zone=st.sampled_from(("z1", "z2", "z9")))
    def node_moves_to_another_zone(self, pick, zone):
        name = self.state.node_names[pick % len(self.state.node_names)]
        node = self.snapshot.nodes[name]
        labels = LabelSet({**node.labels, "topology.kubernetes.io/zone": zone})
        changed = msgspec.structs.replace(node, labels=labels)
        self.follow(nodes={**self.snapshot.nodes, name: changed})

    @rule(pick=st.integers(0), cpu=st.integers(0, 9000), tainted=st.booleans(), cordoned=st.booleans())
    def node_changes_in_place(self, pick, cpu, tainted, cordoned):
        name = self.state.node_names[pick % len(self.state.node_names)]
        node = self.snapshot.nodes[name]
        allocatable = msgspec.structs.replace(node.allocatable, cpu_milli=cpu)
        taints = (Taint("spot", "yes"),) if tainted else ()
        changed = msgspec.structs.replace(
            node, allocatable=allocatable, taints=taints, unschedulable=cordoned, images=()
        )
        self.follow(nodes={**self.snapshot.nodes, name: changed})

    @rule()
    def events_are_repeated(self):
        self.follow(pods=dict(reversed(self.snapshot.pods.items())))

    @rule()
    def claims_are_lost(self):
        self.follow(claims={})

    @rule(field=st.sampled_from(REFERRED_TO), pick=st.integers(0))
    def an_object_that_pods_refer_to_goes(self, field, pick):
        objects = dict(getattr(self.snapshot, field))
        if objects:
            del objects[list(objects)[pick % len(objects)]]
            self.follow(**{field: objects})

    @rule(resource=st.sampled_from(("", "example.com/gpu", "example.com/nic")))
    def a_device_class_comes(self, resource):
        gpus = DeviceClass("gpus", resource)
        self.follow(device_classes={**self.snapshot.device_classes, "gpus": gpus})

    @rule(pick=st.integers(0), where=st.integers(0))
    def a_volume_is_attached(self, pick, where):
        volumes = list(self.snapshot.volumes.values())
        if volumes:
            volume = volumes[pick % len(volumes)]
            node = self.state.node_names[where % len(self.state.node_names)]
            made = VolumeAttachment(f"{volume.name}-{node}", node, volume.driver, volume.name)
            self.follow(attachments={**self.snapshot.attachments, made.name: made})

    @rule(pick=st.integers(0))
    def trial_removes(self, pick):
        pods = self.bound()
        if pods:
            self.marks.append((self.state.checkpoint(), self.standing()))
            self.state.remove(pods[pick % len(pods)])
            self.trial = True

    @rule(pick=st.integers(0), where=st.integers(0))
    def trial_places(self, pick, where):
        pods = self.bound() + self.asked
        self.marks.append((self.state.checkpoint(), self.standing()))
        node = self.state.node_names[where % len(self.state.node_names)]
        self.state.place(pods[pick % len(pods)], node)
        self.trial = True

    @precondition(lambda self: self.marks)
    @rule(pick=st.integers(0))
    def trial_is_rolled_back(self, pick):
        mark = pick % len(self.marks)
        checkpoint, before = self.marks[mark]
        self.state.rollback(checkpoint)
        assert self.standing() == before, "a kept answer with the stamp of before would be wrong"
        del self.marks[mark:]
        self.trial = bool(self.marks)

    def standing(self):
        """Versions, and where which record stands, position by position: what kept answers rely on."""
        cluster = self.state.cluster
        return cluster.version, {
            kind.key: (kind.version, [*map(id, kind.pods)], [*kind.nodes], kind.hypothetical)
            for kind in cluster.classes
            if kind.pods
        }

    @invariant()
    def every_pod_is_in_its_class_once(self):
        kinds = [kind for kind in self.state.cluster.classes if kind.pods]
        by_class = [
            (node, id(pod)) for kind in kinds for pod, node in zip(kind.pods, kind.nodes, strict=True)
        ]
        by_node = [
            (self.state.node_index[name], id(pod))
            for name in self.state.node_names
            for pod in self.state.pods_on(name)
        ]
        assert sorted(by_class) == sorted(by_node)
        for kind in kinds:
            assert {class_key(pod) for pod in kind.pods} == {kind.key}
            assert kind.where.tolist() == kind.nodes
            for group in kind.groups:
                counted = Counter(node for known in group.classes for node in known.nodes)
                assert group.per_node.values == counted

    @invariant()
    def judges_as_from_scratch(self):
        fresh = SchedulingState(self.effective(), self.profile)
        for resource in RESOURCES:
            assert self.state.requested(resource).tolist() == fresh.requested(resource).tolist()
        for pod in self.rng.sample(self.asked, 3):
            ours, theirs = self.state.filter(pod), fresh.filter(pod)
            assert ours.everywhere == theirs.everywhere
            assert ours.refused_by.tolist() == theirs.refused_by.tolist()
            mine, other = self.state.score(pod, ours.feasible), fresh.score(pod, theirs.feasible)
            assert {k: v.tolist() for k, v in mine.by_plugin.items()} == {
                k: v.tolist() for k, v in other.by_plugin.items()
            }

    def effective(self):
        """The snapshot with the trial moves in it; pods that stand twice get names of their own."""
        if not self.trial:
            return self.snapshot
        pods = {key: pod for key, pod in self.snapshot.pods.items() if pod.node not in self.state.node_index}
        for count, pod in enumerate(self.bound()):
            pods[ObjectKey(pod.namespace, f"standing-{count}")] = pod
        return dataclasses.replace(self.snapshot, pods=pods)


IncrementalState.TestCase.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
test_incremental_state = IncrementalState.TestCase
