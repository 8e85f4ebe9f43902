"""A hand-over under a stampede on the sandbox, with the steps and the outcome measured on 1.37.

Every node is full; on each target one room is held by a placeholder of high priority; three times as many
competitors of the replacement's own priority are pending. Nominate, delete the placeholder, wait until it
is gone, remove the gate: every replacement lands. Without the nomination none does.
"""

import pytest

from kube_sandbox.controllers.unstructured import spec, status

GATE = "rescheduler.dev/hold"
MOVES = 10


@pytest.fixture
def stampede(lab, objects):
    def build(*, seed, interleave=False, competitor_class=""):
        one = lab(MOVES, cpu="2", seed=seed, interleave=interleave)
        for name, value in (("placeholder", 1_000_000), ("high", 1000)):
            one.create(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                    "preemptionPolicy": "Never",
                }
            )
        for number in range(1, MOVES + 1):
            one.create(objects.pod(f"ballast-{number}", nodeName=f"n{number}"))
            one.create(
                objects.pod(
                    f"holder-{number}",
                    priorityClassName="placeholder",
                    terminationGracePeriodSeconds=1,
                    nodeSelector={"kubernetes.io/hostname": f"n{number}"},
                )
            )
        one.until(lambda: len(one.ready()) == 2 * MOVES)
        for number in range(3 * MOVES):
            cpu = "1" if number % 2 else "500m"
            more = {"priorityClassName": competitor_class} if competitor_class else {}
            one.create(objects.pod(f"rival-{number}", cpu=cpu, **more))
        for number in range(1, MOVES + 1):
            one.create(objects.pod(f"heir-{number}", schedulingGates=[{"name": GATE}]))
        one.cluster.advance(15)
        assert not any(
            spec(p).get("nodeName") for p in one.pods() if p["metadata"]["name"][:5] in ("rival", "heir-")
        )
        return one

    return build


def hand_over(lab, number, *, nominate):
    heir, holder = f"heir-{number}", f"holder-{number}"
    if nominate:
        lab.patch("", "Pod", heir, {"status": {"nominatedNodeName": f"n{number}"}}, subresource="status")
    lab.api.delete(lab.get("", "Pod", holder))
    lab.until(lambda: lab.get("", "Pod", holder) is None, 10)
    lab.patch("", "Pod", heir, {"spec": {"schedulingGates": None}})
    lab.cluster.advance(2)


def landed(lab):
    return sum(spec(lab.get("", "Pod", f"heir-{n}")).get("nodeName") == f"n{n}" for n in range(1, MOVES + 1))


@pytest.mark.parametrize("interleave", [False, True])
def test_nominated_replacements_all_land(stampede, interleave):
    one = stampede(seed=3, interleave=interleave)
    for number in range(1, MOVES + 1):
        hand_over(one, number, nominate=True)
    assert landed(one) == MOVES
    assert not [p for p in one.pods() if str(status(p).get("reason", "")).startswith("OutOf")]


def test_without_nomination_competitors_take_every_room(stampede):
    one = stampede(seed=3)
    for number in range(1, MOVES + 1):
        hand_over(one, number, nominate=False)
    assert landed(one) == 0


def test_pods_of_higher_priority_take_every_room_in_spite_of_the_nomination(stampede):
    one = stampede(seed=3, competitor_class="high")
    for number in range(1, MOVES + 1):
        hand_over(one, number, nominate=True)
    assert landed(one) == 0


def test_a_scheduler_that_restarts_between_deletion_and_ungating_loses_nothing(stampede):
    one = stampede(seed=4)
    for number in range(1, MOVES + 1):
        heir, holder = f"heir-{number}", f"holder-{number}"
        one.patch("", "Pod", heir, {"status": {"nominatedNodeName": f"n{number}"}}, subresource="status")
        one.api.delete(one.get("", "Pod", holder))
        one.cluster.restart_scheduler()
        one.until(lambda holder=holder: one.get("", "Pod", holder) is None, 10)
        one.patch("", "Pod", heir, {"spec": {"schedulingGates": None}})
        one.cluster.advance(2)
    assert landed(one) == MOVES
