"""A plan carried out move by move: the states of the cluster in which kube-scheduler is asked for each replacement."""

from __future__ import annotations

import enum
import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.differential.manifests import Manifest
from harness.differential.plans.case import Case
from harness.differential.plans.controllers import Controllers, NoReplacement, bound, ending
from harness.differential.program import Moment
from rescheduler.model.migration import MoveMode
from rescheduler.planning.plan import Move, PendingRoom


class When(enum.StrEnum):
    """The moments at which the replacement of one move may be judged; all moves before it are done."""

    HOLDER = "its placeholder, while its old pod runs"
    """The placeholder of its room. Its old pod runs, and those of all moves before it that it does not begin after."""
    ENDING = "while old pods end"
    """Its old pod, and those of all moves before it, still end. A StatefulSet waits for its own; and of the moves that it
    begins after none ends any more."""
    MIXED = "while some old pods end"
    """Any of these old pods still end, the others are gone."""
    IN_TURN = "in turn"
    """All these old pods are gone."""
    BESIDE_ENDING = "beside the old pod, while others end"
    """StartFirst: its old pod runs, those of the moves before it still end."""
    BESIDE_MIXED = "beside the old pod, while some others end"
    """StartFirst: its old pod runs, any of those of the moves before it still end."""
    BESIDE = "beside the old pod"
    """StartFirst: its old pod runs, those of the moves before it are gone."""
    ADOPTED = "after its adoption"
    """StartFirst: all old pods are gone, and the replacement is a pod of its ReplicaSet as any other."""
    ROOM = "a pending pod, after all moves"
    """PendingPods: those before it in the plan stand where room was made for them."""


class Asked(NamedTuple):
    """What one question to kube-scheduler was about."""

    number: int
    """The move's place in the plan, from 0."""
    when: When
    node: str
    """Where the pod is to go."""


class Script(NamedTuple):
    """The questions of one plan."""

    pods: dict[str, Manifest]
    """All states of all pods by id."""
    moments: list[Moment]
    asked: list[Asked]
    """What each of ``moments`` is about."""
    without_replacement: dict[int, str]
    """Moves whose pod does not come back, and why."""


def script(case: Case, moves: Sequence[Move], rooms: Iterable[PendingRoom] = ()) -> Script:
    """The questions about the moves, in their order, and about the pods that they make room for."""
    return _Replay(case).run(moves, rooms)


def placeholder(replacement: Manifest) -> Manifest:
    """The pod that holds the room of a replacement, as far as other pods matter to it: by the design, not by the program."""
    spec, affinity = replacement["spec"], replacement["spec"].get("affinity") or {}
    kept = {
        name: spec[name]
        for name in ("containers", "initContainers", "resources", "tolerations", "nodeSelector", "overhead")
        if name in spec
    }
    node = {"nodeAffinity": affinity["nodeAffinity"]} if affinity.get("nodeAffinity") else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"holder-{replacement['metadata']['name']}",
            "namespace": "rescheduler",
            "uid": f"holder-{replacement['metadata']['uid']}",
            "labels": {"rescheduler.dev/placeholder": "room", "app.kubernetes.io/created-by": "rescheduler"},
        },
        "spec": {
            **kept,
            "affinity": node,
            "priority": 1_000_000_000,
            "schedulerName": spec.get("schedulerName", "default-scheduler"),
        },
        "status": {"phase": "Pending"},
    }


class _Replay:
    """The cluster while a plan is carried out."""

    def __init__(self, case: Case) -> None:
        self._controllers = Controllers(case.objects, case.admission)
        self._pods = {p["metadata"]["uid"]: p for p in case.objects if p["kind"] == "Pod"}
        self._standing = dict.fromkeys(self._pods)
        """Ids of the pods that stand, those of replacements included; a dict keeps their order."""
        self._ending: dict[str, str] = {}
        """Old pods of the moves that are done: their ids, and as they end."""
        self._left: list[str] = []
        """Ids of the old pods of the moves that are done, as they ran."""
        self._before: dict[str, frozenset[str]] = {}
        """By the id of each moved pod, the moves that have landed before its own begins: their old pods are gone by then."""
        self._script = Script(dict(self._pods), [], [], {})

    def run(self, moves: Sequence[Move], rooms: Iterable[PendingRoom]) -> Script:
        """All questions."""
        for number, move in enumerate(moves):
            earlier = frozenset(pod.uid for pod in move.after)
            self._before[move.pod.uid] = earlier.union(*(self._before[uid] for uid in earlier))
            try:
                if move.mode is MoveMode.START_FIRST:
                    self._start_first(number, move)
                else:
                    self._reserve_first(number, move)
            except NoReplacement as why:
                self._script.without_replacement[number] = str(why)
                del self._standing[move.pod.uid]
            self._left.append(move.pod.uid)
        for room in rooms:
            pending = self._pods.get(room.pod.uid)
            if pending is not None and room.node:
                del self._standing[room.pod.uid]
                self._ask(len(moves) - 1, When.ROOM, room.pod.uid, room.node)
                self._stand(f"{room.pod.uid}/new", bound(pending, room.node))
        return self._script

    def _reserve_first(self, number: int, move: Move) -> None:
        old = self._pods[move.pod.uid]
        replacement = self._controllers.replacement(old)
        asked = self._known(f"{move.pod.uid}/asked", replacement)
        holder = self._known(f"{move.pod.uid}/holder", placeholder(replacement))
        self._ask(number, When.HOLDER, holder, move.target, self._still_running(move))
        ended = self._known(f"{move.pod.uid}/ending", ending(old))
        del self._standing[move.pod.uid]
        # A StatefulSet creates the pod of the same name only once the old one is gone.
        if replacement["metadata"]["name"] != old["metadata"]["name"]:
            self._ending[move.pod.uid] = ended
        self._ask(number, When.ENDING, asked, move.target, self._still_ending(move))
        self._ask(number, When.MIXED, asked, move.target, self._some_ending(number, move))
        self._ask(number, When.IN_TURN, asked, move.target)
        self._stand(f"{move.pod.uid}/new", bound(replacement, move.target))

    def _start_first(self, number: int, move: Move) -> None:
        old = self._pods[move.pod.uid]
        replacement = self._controllers.started_first(old, move.target)
        adopted = self._controllers.adopted(replacement, old)
        sibling = self._known(f"{move.pod.uid}/sibling", self._controllers.replacement(old))
        asked = self._known(f"{move.pod.uid}/asked", replacement)
        self._ask(number, When.BESIDE_ENDING, asked, move.target, self._still_ending(move))
        self._ask(number, When.BESIDE_MIXED, asked, move.target, self._some_ending(number, move))
        self._ask(number, When.BESIDE, asked, move.target)
        del self._standing[move.pod.uid]
        # Asked without its pin, which narrows the domains of topology spread to its own node.
        self._ask(number, When.ADOPTED, sibling, move.target)
        self._ending[move.pod.uid] = self._known(f"{move.pod.uid}/ending", ending(old))
        self._stand(f"{move.pod.uid}/new", bound(adopted, move.target))

    def _still_running(self, move: Move) -> list[str]:
        gone = self._before[move.pod.uid]
        return [uid for uid in self._left if uid not in gone]

    def _still_ending(self, move: Move) -> list[str]:
        gone = self._before[move.pod.uid]
        return [ended for uid, ended in self._ending.items() if uid not in gone]

    def _some_ending(self, number: int, move: Move) -> list[str]:
        rng = random.Random(number)  # noqa: S311 -- test data, not secrets
        return [one for one in self._still_ending(move) if rng.random() < 0.5]  # noqa: PLR2004 -- each second one

    def _known(self, name: str, pod: Manifest) -> str:
        self._script.pods[name] = pod
        return name

    def _stand(self, name: str, pod: Manifest) -> None:
        self._standing[self._known(name, pod)] = None

    def _ask(self, number: int, when: When, asked: str, node: str, also: Sequence[str] = ()) -> None:
        self._script.moments.append(Moment([*self._standing, *also], asked))
        self._script.asked.append(Asked(number, when, node))
