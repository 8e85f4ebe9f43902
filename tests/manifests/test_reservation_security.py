"""Who may reserve for whom and how much, refused by the API server itself; no pod of others is gated or steered."""

import secrets

import pytest

from harness.controlplane.api import Api
from harness.controlplane.world import RESERVATIONS, World

pytestmark = pytest.mark.realcluster
LIMITS = "/api/v1/namespaces/rescheduler/configmaps/reservation-limits"
RBAC = "rbac.authorization.k8s.io"


def room(owners, *, cpu="1", memory="1Gi"):
    requests = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": f"secure-{secrets.token_hex(4)}"},
        "spec": {
            "owners": owners,
            "ttl": "5m",
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}},
        },
    }


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


def bind(api, path, role, account, namespace):
    body = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if "namespaces/" in path else "ClusterRoleBinding",
        "metadata": {"name": f"{account}-{role}-{namespace}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    api.create(path, body).expect(201)


@pytest.fixture
def mine(control_plane):
    with World(control_plane.api(), "mine") as world:
        yield world


@pytest.fixture
def team(control_plane, mine):
    """Somebody who may reserve, and who may change pods in one namespace only."""
    api = control_plane.api()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "team"}}
    api.create(mine.path("serviceaccounts"), account).expect(201)
    bind(api, f"/apis/{RBAC}/v1/clusterrolebindings", "rescheduler-reserver", "team", mine.namespace)
    bind(api, mine.path("rolebindings", group=f"{RBAC}/v1"), "edit", "team", mine.namespace)
    client = Api.from_kubeconfig(control_plane.kubeconfig_for(mine.namespace, "team"))
    allowed = room([{"controller": {"name": "web", "namespace": mine.namespace}}])
    mine.wait(lambda: client.create(RESERVATIONS, allowed).ok)
    client.delete(f"{RESERVATIONS}/{allowed['metadata']['name']}").expect()
    return client


@pytest.mark.parametrize(
    "owner",
    [
        {"object": {"name": "web-0", "namespace": "NS"}},
        {"controller": {"kind": "ReplicaSet", "name": "web", "namespace": "NS"}},
        {"object": {"namespace": "NS"}, "labelSelector": {"matchLabels": {"app": "web"}}},
    ],
)
def test_rooms_for_pods_of_an_own_namespace_are_taken(team, mine, owner):
    owner = {k: {**v, "namespace": mine.namespace} if "namespace" in v else v for k, v in owner.items()}
    body = room([owner])
    team.create(RESERVATIONS, body).expect(201)
    team.delete(f"{RESERVATIONS}/{body['metadata']['name']}").expect(200)


@pytest.mark.parametrize(
    ("owners", "words"),
    [
        ([{"controller": {"name": "web", "namespace": "kube-system"}}], "may not patch pods"),
        ([{"object": {"name": "web-0", "namespace": "default"}}], "may not patch pods"),
        ([{"labelSelector": {"matchLabels": {"app": "web"}}}], "every owner must name the same namespace"),
        ([{"controller": {"uid": "somebodys-uid"}}], "every owner must name the same namespace"),
        (
            [
                {"controller": {"name": "web", "namespace": "NS"}},
                {"labelSelector": {"matchLabels": {"app": "x"}}},
            ],
            "every owner must name the same namespace",
        ),
    ],
)
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
