"""All time limits of a move in one table, and what must hold between them (pure).

Each limit is defined where it is used; this table names them, so that a change of one is compared with the others
(``test_limits_of_a_move.py``). What the configuration may change is checked there by ``configuration``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from rescheduler.controller.own_config_maps import GATE_MARGIN_S
from rescheduler.controller.ports import LoopTimings
from rescheduler.controller.probing import MOST_S as PROBE_ANSWER_S
from rescheduler.controller.run import CALL_DEADLINE_S
from rescheduler.coordination.expectations import UNSEEN_LIMIT_S
from rescheduler.coordination.gate_proofs import FRESH_S as PROOF_FRESH_S
from rescheduler.coordination.handover_order import KEPT_FOR_LANDING, REFUSAL_AVOIDED
from rescheduler.kube.election import LeaseTiming
from rescheduler.kube.gate import KEYS_LAST_S
from rescheduler.kube.reflector import CONFIRM_S, LIVED_S, UNANSWERED_CAP_S
from rescheduler.migrations.gate_in_force import AWAITED_S, LOOK_LEAD_S, PREPARED_S
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.migrations.replacement_checks import LAST_LOOK_S, LOOK_LASTS_S
from rescheduler.model.times import LEAST_GATE_LIMIT_S, RECONNECT_S, ROUND_S, SILENCE_S, WATCH_LASTS_S
from rescheduler.reservations.handover import STARTS_WITHIN_S, THREATENED_FOR_S

Limits = Mapping[str, float]


class LimitRule(NamedTuple):
    """``less``, added up, is not more than ``more``."""

    less: tuple[str, ...]
    more: str
    why: str

    def broken(self, limits: Limits) -> str:
        """What is wrong; "": it holds."""
        total = sum(limits[name] for name in self.less)
        if total <= limits[self.more]:
            return ""
        return (
            f"{' + '.join(self.less)} = {total:g} s > {self.more} = {limits[self.more]:g} s, but {self.why}"
        )


def time_limits(migrations: MigrationSettings) -> Limits:
    """Every limit by name, in seconds."""
    lease, loop = LeaseTiming(), LoopTimings()
    reservations = migrations.reservations
    gate = reservations.gate_limit_s
    return {
        "shortest watch": WATCH_LASTS_S[0],
        "longest watch": WATCH_LASTS_S[1],
        "watch that lived": LIVED_S,
        "silence": SILENCE_S,
        "reconnect": RECONNECT_S,
        "longest pause without an answer": UNANSWERED_CAP_S,
        "confirmation of a list": CONFIRM_S,
        "round": ROUND_S,
        "loop turn": loop.turn_s,
        "stale caches": loop.stale_s,
        "call": CALL_DEADLINE_S,
        "unseen write": UNSEEN_LIMIT_S,
        "gate limit": gate,
        "least gate limit": LEAST_GATE_LIMIT_S,
        "gate limit before the part kept for landing": gate * (1 - KEPT_FOR_LANDING),
        "gate limit before a refusal is risked": gate * REFUSAL_AVOIDED,
        "part of the gate limit kept for landing": gate * KEPT_FOR_LANDING,
        "landing limit": reservations.landing_limit_s,
        "landing is confirmed": STARTS_WITHIN_S,
        "landing is threatened": THREATENED_FOR_S,
        "kube-scheduler's longest back-off": 10.0,
        "taint settles": reservations.taint_settle_s,
        "node grace": reservations.node_grace_s,
        "replacement limit": migrations.replacement_limit_s,
        "gate is awaited": AWAITED_S,
        "gate is proven": migrations.gate_limit_s,
        "gate is prepared": PREPARED_S,
        "gate settles": migrations.gate_settle_s,
        "last look before the gate has settled": LOOK_LEAD_S,
        "proof is fresh": PROOF_FRESH_S,
        "last look": LAST_LOOK_S,
        "age of the last look": LOOK_LASTS_S,
        "gate keys last": KEYS_LAST_S,
        "gate margin": GATE_MARGIN_S,
        "scheduler probe": PROBE_ANSWER_S,
        "lease is renewed": lease.renew_s,
        "lease": lease.duration_s,
    }


RULES: Final = (
    LimitRule(("longest watch", "round"), "silence", "a healthy watch must not be taken for a dead one"),
    LimitRule(("watch that lived",), "shortest watch", "a watch that the server ends in time is no failure"),
    LimitRule(("longest pause without an answer",), "reconnect", "informers ask again within that pause"),
    LimitRule(("confirmation of a list",), "reconnect", "a suspicious list is asked for again within that pause"),
    LimitRule(("loop turn",), "round", "a round begins within one turn"),
    LimitRule(("silence", "reconnect", "round"), "least gate limit", "no configuration may gate pods for less"),
    LimitRule(("silence", "reconnect", "round"), "gate limit", "a gated pod must be seen before its gate is removed at the limit"),
    LimitRule(("silence", "reconnect", "round"), "replacement limit", "a replacement that is there must be seen before it counts as missing"),
    LimitRule(("silence", "reconnect", "round"), "gate keys last", "a pod that is created behind a dead watch must still be gated"),
    LimitRule(("silence", "reconnect", "round"), "stale caches", "decisions wait for a watch that is being repaired"),
    LimitRule(("least gate limit",), "gate limit", "the configuration is checked"),
    LimitRule(("scheduler probe",), "gate limit before the part kept for landing",
        "a scheduler that does not answer must not use up the time for binding"),
    LimitRule(("taint settles", "landing is confirmed", "unseen write"), "part of the gate limit kept for landing",
        "the hand-over must end before the gate's limit"),
    LimitRule(("gate limit", "landing is threatened"), "landing limit", "a landing is watched until it is confirmed"),
    LimitRule(("kube-scheduler's longest back-off",), "landing is threatened", "a pending pod that would preempt is tried once in that time"),
    LimitRule(("gate settles",), "proof is fresh", "a proof must outlive the wait after it"),
    LimitRule(("gate settles",), "last look", "the look before an eviction must outlive the wait after the proof"),
    LimitRule(("last look before the gate has settled",), "age of the last look", "it is still good once the gate has settled"),
    LimitRule(("age of the last look",), "last look", "with slow answers it may be older"),
    LimitRule(("gate is awaited",), "gate is proven", "the wait before the intent ends before the one after it"),
    LimitRule(("gate is awaited", "gate settles"), "gate is prepared", "the gate stays on until the intent"),
    LimitRule(("gate margin", "call"), "gate keys last", "keys must outlast an eviction that is under way"),
    LimitRule(("lease is renewed",), "lease", "a leader stops before another one begins"),
)  # fmt: skip


def broken_rules(limits: Limits) -> list[str]:
    """What does not hold, in words."""
    return [words for rule in RULES if (words := rule.broken(limits))]
