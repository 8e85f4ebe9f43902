"""What a plain move asks of the API server, request by request: each carries a promise, and one more is one too many.

No PodDisruptionBudget selects the pod: with one, the eviction is tried in a dry run before."""

from collections import Counter

from scenes import Scene


def test_the_requests_of_a_plain_move():
    scene = Scene({"n1": 4, "n2": 2, "n3": 2}).workload(nodes=["n1", "n1", "n3"])
    scene.start()
    scene.advance(20.0)
    began_s = scene.now_s
    name = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: scene.over(name))
    scene.advance(5.0)
    asked = Counter(_of(call) for call in scene.calls.of(lambda _: True, began_s))
    assert asked == {
        # Of the move: that its room is sought, the intent of the eviction, its end, and that the replacement is Ready.
        "PUT podmigrations/status": 4,
        # Of its Reservation: Available, claimed, Succeeded.
        "POST reservations": 1,
        "PUT reservations/status": 3,
        "POST pods of the controller": 1,
        "DELETE pods of the controller": 1,
        # What admission makes of the replacement: before anything is reserved, and right before the eviction. The template is read once.
        "GET replicasets": 1,
        "POST pods?dryRun": 2,
        "POST pods/eviction": 1,
        # The replacement: nominated, and let go.
        "PATCH pods/status": 1,
        "PATCH pods": 1,
        "PATCH nodes": 1,
        # Shared by the moves of a moment: whether admission lets the nomination and the end of the gate through, once a minute for each controller.
        "PATCH pods/status?dryRun": 1,
        "PATCH pods?dryRun": 1,
        # The same of the placeholder's end, once a minute for all.
        "DELETE pods of the controller?dryRun": 1,
        "POST pods of the controller?dryRun": 1,
        "POST scheduler probe": 1,
        "DELETE scheduler probe": 1,
        "PATCH configmaps gate-keys": 2,
        "PATCH configmaps move-history": 2,
        "PATCH configmaps avoid-nodes": 1,
        "GET mutatingadmissionpolicies": 1,
        "GET mutatingadmissionpolicybindings": 1,
    }


def _of(call):
    """Its method and kind, without names."""
    parts = call.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    own = parts[:2] == ["namespaces", "rescheduler"]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    kind, name, sub = parts[0], parts[1] if len(parts) > 1 else "", "/".join(parts[2:])
    if "scheduler-probe" in name or (
        call.method == "POST" and "scheduler-probe" in str(call.body.get("metadata"))
    ):
        return f"{call.method} scheduler probe"
    what = f"{kind} {name}" if kind == "configmaps" else kind + (f"/{sub}" if sub else "")
    what += " of the controller" if own and kind == "pods" else ""
    return f"{call.method} {what}" + ("?dryRun" if "dryRun" in call.query or call.body.get("dryRun") else "")
