"""Another controller clears or deletes the gate keys between their proof and the eviction: nothing is evicted without the gate."""

import pytest
from scenes import CONFIG_MAP, Scene

from rescheduler.model.names import DEFAULT_NAMESPACE, GATE_CONFIG_MAP


@pytest.fixture
def scene():
    made = Scene({"n1": 4, "n2": 4, "n3": 4}).workload("Deployment", "web", ["n1", "n1"])
    made.start()
    made.advance(3.0)
    return made


def keys(scene):
    found = scene.api.get(CONFIG_MAP, DEFAULT_NAMESPACE, GATE_CONFIG_MAP)
    return (found or {}).get("data") or {}


def clear(scene):
    found = scene.api.get(CONFIG_MAP, DEFAULT_NAMESPACE, GATE_CONFIG_MAP)
    scene.api.patch(found, {"data": dict.fromkeys(found["data"])})


def delete(scene):
    scene.api.delete(scene.api.get(CONFIG_MAP, DEFAULT_NAMESPACE, GATE_CONFIG_MAP))


@pytest.mark.crossed
@pytest.mark.parametrize("spoil", [clear, delete])
@pytest.mark.parametrize("after_s", [0.0, 0.4, 0.9, 0.95])
def test_nothing_is_evicted_on_a_proof_of_keys_that_are_gone(scene, spoil, after_s):
    at_eviction = []
    scene.calls.answer(lambda c: c.evicts, lambda _: at_eviction.append(dict(keys(scene))))
    name = scene.move(scene.ready()[0], "n2")
    scene.until(lambda: bool(scene.calls.of(lambda c: c.proves_gate)))
    scene.advance(after_s)
    assert not at_eviction
    spoil(scene)
    scene.succeed(name)
    assert at_eviction
    assert all(at_eviction), "each eviction was sent with the key stored"
    assert scene.faults == []


def test_keys_that_are_cleared_right_before_the_eviction_is_sent_stop_it(scene):
    """Later than the round that decided it: the last look is the sender's."""
    sent = []
    scene.calls.answer(lambda c: c.evicts, lambda _: sent.append(dict(keys(scene))))
    name = scene.move(scene.ready()[0], "n2")
    scene.until(lambda: bool(scene.calls.of(lambda c: c.proves_gate)))
    accepts = scene.program.pool.begin
    cleared = []

    def begin(work, now_s):
        if not cleared and any(call.does == "evict" for call in getattr(work, "calls", ())):
            cleared.append(True)
            clear(scene)
        accepts(work, now_s)

    scene.program.pool.begin = begin
    scene.until(lambda: scene.over(name))
    assert cleared
    assert all(sent)
    assert scene.phase(name) == "Succeeded", scene.state(name)


def test_a_move_names_the_config_map_that_cannot_be_written(scene):
    scene.refuse(403, "Frozen", lambda c: c.method == "PATCH" and c.path.endswith("/configmaps/gate-keys"))
    name = scene.move(scene.ready()[0], "n2")
    scene.until(lambda: scene.over(name))
    assert scene.reason(name) == "GateNotInForce"
    assert scene.state(name)["message"].endswith("ConfigMap gate-keys cannot be written: 403 Frozen: ")
    assert not scene.calls.of(lambda c: c.evicts)


@pytest.mark.parametrize("code", [403, 422], ids=["a policy refuses it", "a policy spoils it"])
def test_a_move_says_that_the_pod_of_the_dry_run_is_refused_and_goes_on_once_it_is_not(scene, code):
    """It does not end by that: an API server that starts refuses it, too."""
    refusing = [True]
    scene.refuse(code, "Spoiled", lambda c: bool(refusing) and c.proves_gate)
    name = scene.move(scene.ready()[0], "n2")
    because = f"the API server refuses the pod of the dry run: {code} Spoiled: "
    scene.until(lambda: scene.reason(name) == "ProvingGate")
    scene.until(lambda: scene.state(name)["message"] == f"the gate is not proven: {because}")
    scene.advance(30.0)
    assert not scene.calls.of(lambda c: c.evicts)
    assert not scene.over(name)
    refusing.clear()
    scene.succeed(name)


def test_a_move_says_why_its_reservation_does_not_become_available(scene):
    scene.refuse(403, "Frozen", lambda c: c.method == "PUT" and "/reservations/" in c.path)
    name = scene.move(scene.ready()[0], "n2")
    scene.advance(20.0)
    assert scene.reason(name) == "Reserving"
    assert scene.state(name)["message"].endswith(".move is Pending; the API server refuses: 403 Frozen: ")
