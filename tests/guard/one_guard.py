"""One guard without a cluster: its caches, API server, Events and clock."""

import json

import msgspec

from harness import builders as b
from rescheduler.guard.filer import Filer, FilerParts, GuardRules
from rescheduler.guard.filing import GATHERED_S
from rescheduler.guard.guard import Guard
from rescheduler.guard.settings import GuardSettings
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.names import LABEL_GUARD
from rescheduler.model.records import Namespace
from rescheduler.model.replacement_rules import ReplacementRules
from rescheduler.model.selectors import LabelSet
from rescheduler.model.times import format_seconds
from tests import records

OWN = "system:serviceaccount:rescheduler:rescheduler"


class Cluster:
    """Caches, API server, Events and clock of one guard."""

    def __init__(self):
        self.objects = {kind: {} for kind in Kind}
        self.calls, self.told, self.counted = [], [], []
        self.now_s, self.fault, self.ready = 1_800_000_000.0, None, True
        self.settings = GuardSettings()
        self.objects[Kind.NAMESPACE]["shop"] = Namespace("shop", LabelSet({LABEL_GUARD: "enabled"}))
        self.filer = Filer(
            FilerParts(caches=self, api=self, rules=self.rules, leads=lambda: True, now_s=lambda: self.now_s)
        )
        self.guard = Guard(
            filer=self.filer,
            caches=self,
            rules=self.rules,
            own_user=OWN,
            now_s=lambda: self.now_s,
            record=self.told.append,
            count=lambda why, seconds: self.counted.append(why),
        )
        self.look_again()

    def rules(self):
        return GuardRules(
            settings=self.settings,
            replacements=ReplacementRules(),
            judges="default-scheduler".__eq__,
            own_namespace="rescheduler",
        )

    def look_again(self):
        """The next pass of the guard's thread."""
        self.now_s += GATHERED_S
        self.filer.step()

    def look(self, kind, key):
        return self.objects[kind].get(key)

    def all_of(self, kind):
        return list(self.objects[kind].values())

    def complete(self):
        return self.ready

    def create(self, path, body):
        self.calls.append(("create", path, body))
        if self.fault:
            raise self.fault
        stored = {
            **body,
            "metadata": {**body["metadata"], "uid": "m", "creationTimestamp": format_seconds(self.now_s)},
        }
        record = Decoder().record(Kind.POD_MIGRATION, json.dumps(stored).encode())
        self.objects[Kind.POD_MIGRATION][record.key] = record

    def merge_patch(self, path, patch):
        self.calls.append(("patch", path, patch))

    def delete(self, path, *, uid):
        self.calls.append(("delete", path, uid))
        moves = self.objects[Kind.POD_MIGRATION]
        moves = {key: move for key, move in moves.items() if not path.endswith(f"/{key.name}")}
        self.objects[Kind.POD_MIGRATION] = moves

    def fails(self, reason="DecisionStale"):
        """The move that is under way fails now."""
        self.is_at(MigrationPhase.FAILED, reason=reason, finished_at_s=self.now_s)

    def is_at(self, phase, **status):
        """What the leader wrote last about the move that is under way."""
        ((key, move),) = self.objects[Kind.POD_MIGRATION].items()
        said = MigrationStatus(phase=phase, **status)
        self.objects[Kind.POD_MIGRATION][key] = msgspec.structs.replace(move, status=said)

    def pod(self, name="web-1", namespace="shop", **more):
        pod = records.changed(
            b.pod(name, namespace=namespace)
            .on("node-1")
            .owner("ReplicaSet", "web", "u-web", "apps/v1")
            .build(),
            **more,
        )
        self.objects[Kind.POD][pod.key] = pod
        return pod

    def ask(self, name="web-1", namespace="shop", user="kubectl", **request):
        review = {"uid": "q", "namespace": namespace, "name": name, "userInfo": {"username": user}, **request}
        answer = json.loads(self.guard.respond(json.dumps({"request": review}).encode()))
        assert answer["response"]["uid"] == "q"
        return answer["response"]


def asks_for(cluster, seconds, **more):
    """The caller asks every five seconds, until it is let through or the time is over; his last answer."""
    until_s = cluster.now_s + seconds
    while cluster.now_s < until_s:
        answer = cluster.ask(**more)
        if answer["allowed"]:
            break
        cluster.look_again()
        cluster.now_s += 5 - GATHERED_S
    return answer


def verbs(cluster):
    return [verb for verb, *_ in cluster.calls if verb != "patch"]
