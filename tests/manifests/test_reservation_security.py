"""Who may reserve for whom and how much, refused by the API server itself; no pod of others is gated or steered."""

import pytest
from tenants import room

from harness.controlplane.world import RESERVATIONS

pytestmark = pytest.mark.realcluster
LIMITS = "/api/v1/namespaces/rescheduler/configmaps/reservation-limits"


HUNDRED = {"cpu": "100"}
LITTLE = {"name": "c", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
HIDDEN = [
    {"containers": [{"name": "c", "resources": {"limits": HUNDRED}}]},
    {"resources": {"requests": HUNDRED}},
    {"overhead": HUNDRED},
    {"initContainers": [{"name": "i", "resources": {"limits": HUNDRED}}]},
    {"initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": HUNDRED}}]},
]
"""What holds a hundred CPUs without a request of a container."""


@pytest.mark.parametrize("owner", [
    {"object": {"name": "web-0", "namespace": "NS"}},
    {"controller": {"kind": "ReplicaSet", "name": "web", "namespace": "NS"}},
    {"object": {"namespace": "NS"}, "labelSelector": {"matchLabels": {"app": "web"}}},
])  # fmt: skip
def test_rooms_for_pods_of_an_own_namespace_are_taken(team, mine, owner):
    owner = {k: {**v, "namespace": mine.namespace} if "namespace" in v else v for k, v in owner.items()}
    body = room([owner])
    team.create(RESERVATIONS, body).expect(201)
    team.delete(f"{RESERVATIONS}/{body['metadata']['name']}").expect(200)


@pytest.mark.parametrize(("owners", "words"), [
    ([{"controller": {"name": "web", "namespace": "kube-system"}}], "may not patch pods"),
    ([{"object": {"name": "web-0", "namespace": "default"}}], "may not patch pods"),
    ([{"labelSelector": {"matchLabels": {"app": "web"}}}], "every owner must name the same namespace"),
    ([{"controller": {"uid": "somebodys-uid"}}], "every owner must name the same namespace"),
    ([{"controller": {"name": "web", "namespace": "NS"}}, {"labelSelector": {"matchLabels": {"app": "x"}}}], "every owner must name the same namespace"),
])  # fmt: skip
def test_rooms_that_would_steer_pods_of_others_are_refused(team, mine, owners, words):
    owners = [
        {k: {**v, "namespace": mine.namespace} if v.get("namespace") == "NS" else v for k, v in o.items()}
        for o in owners
    ]
    answer = team.create(RESERVATIONS, room(owners)).expect(403)
    assert words in answer.body["message"]


def test_rooms_of_others_can_neither_be_taken_over_nor_deleted(control_plane, team, mine):
    admin, body = control_plane.api(), room([{"labelSelector": {"matchLabels": {"app": "web"}}}])
    admin.create(RESERVATIONS, body).expect(201)
    path = f"{RESERVATIONS}/{body['metadata']['name']}"
    own = {"spec": {"owners": [{"controller": {"name": "web", "namespace": mine.namespace}}]}}
    team.patch(path, own).expect(403)
    team.delete(path).expect(403)
    admin.delete(path).expect(200)


def test_sizes_are_limited_by_namespace(control_plane, team, mine):
    admin = control_plane.api()
    owners = [{"controller": {"name": "web", "namespace": mine.namespace}}]
    admin.patch(LIMITS, {"data": {"default.cpu": "2", f"{mine.namespace}.memory": "4Gi"}}).expect(200)
    try:
        mine.wait(lambda: team.create(RESERVATIONS, room(owners, cpu="2500m"), dryRun="All").status == 403)
        answer = team.create(RESERVATIONS, room(owners, memory="5Gi"), dryRun="All").expect(403)
        assert "at most memory 4Gi" in answer.body["message"]
        for template in HIDDEN:
            body = room(owners)
            body["spec"]["template"]["spec"] |= template
            answer = team.create(RESERVATIONS, body, dryRun="All").expect(403)
            assert "at most cpu 2" in answer.body["message"]
        team.create(RESERVATIONS, room(owners, cpu="2", memory="4Gi"), dryRun="All").expect(201)
        many = room(owners)
        many["spec"]["template"]["spec"] = {"containers": [{**LITTLE, "name": f"c{i}"} for i in range(32)]}
        team.create(RESERVATIONS, many, dryRun="All").expect(201)
        admin.create(RESERVATIONS, room(owners, cpu="30"), dryRun="All").expect(201)
    finally:
        admin.patch(LIMITS, {"data": None}).expect(200)


def test_a_namespace_alone_is_no_owner(control_plane):
    answer = control_plane.api().create(RESERVATIONS, room([{"object": {"namespace": "default"}}]))
    assert "a namespace alone only confines" in answer.expect(422).body["message"]


WINDOWS = RESERVATIONS.replace("/reservations", "/reservationwindows")


def window(owners, **template):
    body = room(owners)
    spec = {
        "cron": "0 3 * * *",
        "duration": "1h",
        "podNumToReserve": 2,
        **(template or {"template": body["spec"]["template"]}),
    }
    if owners:
        spec["owners"] = owners
    return {**body, "kind": "ReservationWindow", "spec": spec}


def test_a_window_is_for_pods_of_its_author_and_as_large_as_a_room_may_be(control_plane, team, mine):
    admin, own = control_plane.api(), [{"controller": {"name": "web", "namespace": mine.namespace}}]
    body = window(own)
    team.create(WINDOWS, body).expect(201)
    path = f"{WINDOWS}/{body['metadata']['name']}"
    for others in ([{"controller": {"name": "web", "namespace": "default"}}], []):
        refused = team.create(WINDOWS, window(others)).expect(403)
        assert "patch pods" in refused.body["message"]
    team.patch(path, {"spec": {"owners": None}}).expect(403)
    limit = {"data": {f"{mine.namespace}.cpu": "4"}}
    try:
        admin.patch(LIMITS, limit).expect(200)
        large = {"resources": {"cpu": "5"}}
        mine.wait(lambda: team.create(WINDOWS, window(own, **large)).status == 403)
        containers = [{"name": "c", "resources": {"requests": {"cpu": "5"}}}]
        team.create(WINDOWS, window(own, template={"spec": {"containers": containers}})).expect(403)
        team.create(WINDOWS, window(own, resources={"cpu": "4"})).expect(201)
    finally:
        admin.patch(LIMITS, {"data": None}).expect(200)
    team.delete(path).expect(200)


def test_nobody_makes_the_room_of_a_window(team, mine):
    own = [{"controller": {"name": "web", "namespace": mine.namespace}}]
    named, labelled = room(own), room(own)
    named["metadata"]["name"] += ".room"
    labelled["metadata"]["labels"] = {"rescheduler.dev/room-of": "somebody"}
    for body in (named, labelled):
        answer = team.create(RESERVATIONS, body).expect(403)
        assert "ReservationWindow" in answer.body["message"]


def test_pods_of_others_move_only_for_whom_the_operator_allows_it(control_plane, team, mine):
    admin = control_plane.api()
    body = room([{"controller": {"name": "web", "namespace": mine.namespace}}])
    body["spec"]["makeRoom"] = True
    answer = team.create(RESERVATIONS, body).expect(403)
    assert "rescheduler-room-maker" in answer.body["message"]
    path = f"{RESERVATIONS}/{body['metadata']['name']}"
    admin.create(RESERVATIONS, body).expect(201)
    later = team.patch(path, {"spec": {"ttl": "10m"}}).expect(403)
    assert "make-room" in later.body["message"]
    plain = room([{"controller": {"name": "web", "namespace": mine.namespace}}])
    team.create(RESERVATIONS, plain).expect(201)
    assert not team.patch(f"{RESERVATIONS}/{plain['metadata']['name']}", {"spec": {"makeRoom": True}}).ok
    wish = window([{"controller": {"name": "web", "namespace": mine.namespace}}], resources={"cpu": "1"})
    wish["spec"]["makeRoom"] = True
    assert "make-room" in team.create(WINDOWS, wish).expect(403).body["message"]
    admin.delete(path).expect(200)
    team.delete(f"{RESERVATIONS}/{plain['metadata']['name']}").expect(200)
