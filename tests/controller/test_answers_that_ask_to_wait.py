"""An API server that is overloaded refuses one sort of call for a while, and asks to wait for an hour: no move is lost by it."""

import pytest
from scenes import Scene, refusal

REFUSES_FOR_S = 3.0
AT_MOST_S = 70.0
"""Retry-After counts for 30 s, of an eviction for a minute."""


def changes(method, part, *, status=False):
    return lambda call: (
        call.method == method
        and part in call.path
        and not call.dry
        and call.path.endswith("/status") is status
    )


CALLS = {
    "release": changes("PATCH", "/namespaces/default/pods/"),
    "nominate": changes("PATCH", "/namespaces/default/pods/", status=True),
    "create a placeholder": changes("POST", "/namespaces/rescheduler/pods"),
    "delete a placeholder": changes("DELETE", "/namespaces/rescheduler/pods/"),
    "create a Reservation": changes("POST", "/reservations"),
    "status of a Reservation": changes("PUT", "/reservations/", status=True),
    "status of a PodMigration": changes("PUT", "/podmigrations/", status=True),
    "ConfigMaps": lambda call: call.writes and "/configmaps/" in call.path,
    "evict": lambda call: call.evicts,
    "dry runs": lambda call: call.dry,
    "all writes": lambda call: call.method != "GET",
}


@pytest.mark.parametrize(("code", "reason"), [(429, "TooManyRequests"), (503, "ServiceUnavailable")])
@pytest.mark.parametrize("refused", CALLS)
def test_a_move_lands_after_what_was_refused_for_a_while(refused, code, reason):
    world = Scene({"n1": 4, "n2": 4}).workload(nodes=("n1", "n1"))
    world.start()
    world.advance(5.0)
    began_s, asked_s = world.now_s, []

    def answer(_):
        asked_s.append(world.now_s)
        late = world.now_s - asked_s[0] >= REFUSES_FOR_S
        return (
            None
            if late
            else refusal(code, reason, details={"retryAfterSeconds": 3600}, **{"retry-after": "3600"})
        )

    world.calls.answer(CALLS[refused], answer)
    name = world.move(world.pods()[0], "n2")
    world.until(lambda: world.over(name), AT_MOST_S)
    assert asked_s, "it was never sent"
    assert world.phase(name) == "Succeeded"
    world.until(lambda: not world.leftovers(), 30.0)
    assert world.now_s - began_s < AT_MOST_S + 30.0
    assert not world.faults
