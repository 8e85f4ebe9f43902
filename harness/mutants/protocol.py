"""``python -m harness.mutants.protocol``: break the protocol of a move in ways that a person would, and see whether a test fails.

Each break takes one promise away: an eviction before the room is there, a call without its uid, a controller that has
lost the Lease. Prints each break with ``found`` or ``SURVIVED``, and ends with 1 if one survived. A break whose text is
not in the module any more is an error, because the table follows the code, and so is a test that fails without any break.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import click

from harness.mutants.trial import copy_repository, fails

_CALLS, _UNITS = ("tests/controller/test_call_table.py",), ("tests/migrations",)
_POD_CALLS, _EVICTING = "rescheduler/calls/pods.py", "rescheduler/migrations/evicting.py"
_SENDER, _LOOP = "rescheduler/controller/sender.py", "rescheduler/controller/loop.py"
_OF_THE_LOOP: Final = ("tests/controller/test_guards_of_the_loop.py",)


class Break(NamedTuple):
    """One promise that is taken away: the text that keeps it, and what stands there instead."""

    promise: str
    path: str
    text: str
    instead: str
    tests: tuple[str, ...]
    """The quickest that is to fail."""


BREAKS: Final = (
    Break("no eviction before the Reservation is Available", _EVICTING, "if draft.room_ready:", "if True:", _UNITS),
    Break("no eviction to a node that refuses the pod now", _EVICTING, "if fits.ok:", "if True:", _UNITS),
    Break("no eviction while a pod of higher priority waits", _EVICTING, "if higher is None:", "if True:", ("tests/controller/test_higher_priority_waits.py",)),
    Break("no eviction while watches are late", _EVICTING, "if not watch_lag.late and", "if True or", ("tests/controller/test_late_watches.py",)),
    Break("the intent is stored before the eviction", _EVICTING, "eviction_requested_at_s=draft.now_s)\n        _evict", "reservation_name=draft.status.reservation_name)\n        _evict", _UNITS),
    Break("the placeholder ends after the nomination", "rescheduler/reservations/handover.py", "return first, delete_placeholder(placeholder)", "return (delete_placeholder(placeholder),)", ("tests/reservations/test_hand_over.py",)),
    Break("budgets by the eviction subresource", _POD_CALLS, "verb=Verb.EVICT,", "verb=Verb.DELETE,", _CALLS),
    Break("the pod that was meant is evicted", _POD_CALLS, "uid=pod.uid,\n        grace_s", "grace_s", _CALLS),
    Break("a claimant is released by its uid", _POD_CALLS, '{"uid": pod.uid, "annotations": annotations}, spec', '{"annotations": annotations}, spec', _CALLS),
    Break("a pod without room is released by its uid", _POD_CALLS, 'metadata = {"uid": pod.uid, "annotations"', 'metadata = {"annotations"', _CALLS),
    Break("a room passes on only to a nominated claimant", _POD_CALLS, "in reversed(tuple(claimants))", "in ()", _CALLS),
    Break("only the leader writes", _SENDER, " and not self.still_leader()", " and False", ("tests/controller/test_sender.py",)),
    Break("no eviction without the gate in force", _SENDER, "if not self.gate_stands():", "if False:", ("tests/controller/test_gate_keys_of_others.py",)),
    Break("the loop acts only as the leader", _LOOP, "self._may_act = ready and self._ports.leads()", "self._may_act = ready", _OF_THE_LOOP),
    Break("run --once waits for its own writes", _LOOP, "if self.decision is None or self._waits", "if self.decision is None and self._waits", _OF_THE_LOOP),
    Break("uninstall looks twice for gated pods", "rescheduler/cli/uninstall.py", 'released(title="Pods that came to the gate meanwhile", again=True),', "", ("tests/controller/test_uninstall.py",)),
)  # fmt: skip


@click.command()
def main() -> None:
    """Break one promise after the other in a copy of the repository."""
    survived = 0
    with tempfile.TemporaryDirectory(prefix="rescheduler-protocol-") as folder:
        copy_repository(Path(folder))
        if fails(Path(folder), sorted({path for each in BREAKS for path in each.tests})):
            raise click.ClickException("a test fails before anything is broken: correct that first")
        for each in BREAKS:
            path = Path(folder) / each.path
            text = path.read_text()
            if text.count(each.text) != 1:
                raise click.ClickException(
                    f"{each.path} does not have {each.text!r} once; correct {__file__}"
                )
            path.write_text(text.replace(each.text, each.instead))
            found = fails(Path(folder), each.tests)
            path.write_text(text)
            survived += not found
            click.echo(f"{'found   ' if found else 'SURVIVED'}  {each.promise}")
    click.echo(f"{len(BREAKS) - survived} of {len(BREAKS)} found")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
