"""``rescheduler reserve`` against the embedded API server: what is made, shown, refused; exit codes."""

import json

import pytest
import yaml
from click.testing import CliRunner

from harness import documents
from harness.controlplane.world import RESERVATIONS
from rescheduler.cli.clients import CommandTransport
from rescheduler.cli.main import main


@pytest.fixture
def reserve(cluster):
    api, kubeconfig = cluster
    yield lambda *words, **more: CliRunner().invoke(
        main, ["reserve", *words, "--kubeconfig", kubeconfig], **more
    )
    for room in api.get(RESERVATIONS).items:
        api.delete(f"{RESERVATIONS}/{room['metadata']['name']}")


BATCH = (
    "create", "--name", "batch", "--cpu", "2", "--owner-selector", "app=batch", "-n", "jobs", "--no-wait",
)  # fmt: skip


def test_rooms_by_flags_are_made_listed_and_released(cluster, reserve):
    made = reserve(*BATCH, "--count", "3", "--ttl", "1h", "--request", "example.com/gpu=1")
    assert made.exit_code == 0, made.output
    rooms = cluster[0].get(RESERVATIONS).items
    assert len(rooms) == 3
    spec = rooms[0]["spec"]
    assert spec["owners"] == [
        {"object": {"namespace": "jobs"}, "labelSelector": {"matchLabels": {"app": "batch"}}}
    ]
    assert spec["template"]["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "2",
        "example.com/gpu": "1",
    }
    listed = reserve("list", "-o", "wide")
    assert listed.stdout.count("app=batch") == 3
    assert "no controller has processed it yet" in listed.stdout
    assert len(json.loads(reserve("list", "-o", "json").stdout)["items"]) == 3
    assert len(yaml.safe_load(reserve("list", "-o", "yaml").stdout)["items"]) == 3
    names = reserve("list", "-o", "name").stdout.split()
    assert len(names) == 3
    assert all(name.startswith("reservation.rescheduler.dev/") for name in names)
    group = rooms[0]["metadata"]["labels"]["rescheduler.dev/group"]
    assert reserve("release", "-l", f"rescheduler.dev/group={group}").exit_code == 0
    assert cluster[0].get(RESERVATIONS).items == []


def test_the_name_that_is_given_is_the_name_that_is_found(cluster, reserve):
    assert reserve(*BATCH).exit_code == 0
    assert reserve("list", "batch").exit_code == 0
    assert reserve(*BATCH, "--count", "2").exit_code == 0
    names = [room["metadata"]["name"] for room in cluster[0].get(RESERVATIONS).items]
    assert sorted(names) == ["batch", "batch-1", "batch-2"]


def test_a_name_that_is_taken_is_said_and_what_has_it_stays(cluster, reserve):
    assert reserve(*BATCH).exit_code == 0
    (before,) = cluster[0].get(RESERVATIONS).items
    again = reserve(*BATCH)
    assert again.exit_code == 1
    assert again.stderr.splitlines()[-1] == 'error: reservations.rescheduler.dev "batch" already exists'
    assert [room["metadata"]["uid"] for room in cluster[0].get(RESERVATIONS).items] == [
        before["metadata"]["uid"]
    ]


def test_of_several_none_is_made_if_one_name_is_taken(cluster, reserve):
    assert reserve(*(word if word != "batch" else "batch-2" for word in BATCH)).exit_code == 0
    assert reserve(*BATCH, "--count", "3").exit_code == 1
    assert [room["metadata"]["name"] for room in cluster[0].get(RESERVATIONS).items] == ["batch-2"]


def test_waiting_for_nobody_ends_in_clear_words(reserve, monkeypatch):
    monkeypatch.setattr("rescheduler.cli.reserve_create.NO_CONTROLLER_AFTER_S", 0.0)
    done = reserve(*BATCH[:-1])
    assert done.exit_code == 1
    assert "is the controller running (rescheduler run)?" in done.stderr


def test_a_file_is_made_as_it_is_and_read_back(cluster, reserve):
    body = documents.reservation("from-file", documents.pod_spec(""), [{"object": {"name": "x"}}])
    done = reserve("create", "-f", "-", "--no-wait", input=yaml.safe_dump(body))
    assert done.exit_code == 0, done.output
    assert "from-file" in reserve("list", "from-file").stdout
    again = reserve("create", "-f", "-", "--no-wait", input=yaml.safe_dump(body))
    assert again.exit_code == 1
    assert "from-file" in reserve("list").stdout, "what was there before must stay"


@pytest.mark.parametrize("from_file", [False, True])
def test_who_waits_reads_no_reservations_of_others(cluster, reserve, monkeypatch, from_file):
    def another(name):
        return documents.reservation(name, documents.pod_spec(""), [{"object": {"name": "x"}}])

    cluster[0].create(RESERVATIONS, another("of-others")).expect()
    read, send = [], CommandTransport.send

    def record(transport, request):
        answer = send(transport, request)
        if request.method == "GET":
            read.append(answer.body)
        return answer

    monkeypatch.setattr(CommandTransport, "send", record)
    monkeypatch.setattr("rescheduler.cli.reserve_create.NO_CONTROLLER_AFTER_S", 0.6)
    if from_file:
        done = reserve("create", "-f", "-", input=yaml.safe_dump_all([another("mine-1"), another("mine-2")]))
    else:
        done = reserve(*BATCH[:-1], "--count", "2")
    assert "is the controller running (rescheduler run)?" in done.stderr
    assert sum(b'"mine-1"' in body or b'"batch-1"' in body for body in read) >= 2
    assert not any(b'"of-others"' in body for body in read)


CONFIG = "/api/v1/namespaces/rescheduler/configmaps"


@pytest.fixture
def configured(cluster):
    """The controller's ConfigMap with these policies."""
    api, _ = cluster
    name = api.get(f"{CONFIG}/rescheduler").body["metadata"]["name"]
    before = api.get(f"{CONFIG}/{name}").body["data"]

    def put(policies):
        text = f"apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\npolicies: {policies}\n"
        api.patch(f"{CONFIG}/{name}", {"data": {"config.yaml": text}}).expect()

    yield put
    api.patch(f"{CONFIG}/{name}", {"data": before}).expect()


def test_a_dry_run_says_who_would_step_aside(cluster, reserve, configured):
    """No policy is configured there, and that is said; nothing is stored."""
    configured("[]")
    said = reserve(*BATCH, "--make-room", "--dry-run")
    assert said.exit_code == 0, said.output
    assert said.stdout.endswith(
        "batch would be created\npolicy PendingPods is not configured: nobody would step aside\n"
    )
    assert cluster[0].get(RESERVATIONS).items == []


def test_the_wish_that_others_step_aside_is_stored(cluster, reserve, configured):
    configured("[{name: PendingPods}]")
    made = reserve(*BATCH, "--make-room")
    assert made.exit_code == 0, made.output
    assert cluster[0].get(RESERVATIONS).items[0]["spec"]["makeRoom"] is True


def test_nobody_is_asked_to_step_aside_where_no_policy_does_it(cluster, reserve, configured):
    configured("[{name: NodeTaints}]")
    refused = reserve(*BATCH, "--make-room")
    assert refused.exit_code == 2
    assert "policy PendingPods is not configured" in refused.stderr
    assert "ConfigMap rescheduler/rescheduler" in refused.stderr
    assert cluster[0].get(RESERVATIONS).items == []


def room_for(owner):
    return json.dumps(documents.reservation("by-file", documents.pod_spec(""), [owner]))


@pytest.mark.parametrize(("controller", "words"), [
    ({"kind": "Deploymnt", "name": "web"}, "serves no kind Deploymnt; did you mean Deployment?"),
    ({"kind": "DaemonSet", "name": "agent"}, "a node of its own"),
    ({"kind": "Node", "name": "n1"}, "static pods"),
])  # fmt: skip
def test_an_owner_that_matches_no_pod_ever_is_refused(cluster, reserve, controller, words):
    refused = reserve("create", "-f", "-", "--no-wait", input=room_for({"controller": controller}))
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert cluster[0].get(RESERVATIONS).items == []


@pytest.mark.parametrize(("owner", "words"), [
    ({"controller": {"kind": "Deployment", "name": "web", "namespace": "default"}}, "deployment/web does not exist in namespace default now"),
    ({"object": {"namespace": "nosuch"}, "labelSelector": {"matchLabels": {"app": "a"}}}, "namespace nosuch does not exist now"),
    ({"controller": {"kind": "ReservationWindow", "name": "w"}}, ""),
])  # fmt: skip
def test_what_may_come_later_is_a_warning(cluster, reserve, owner, words):
    made = reserve("create", "-f", "-", "--no-wait", input=room_for(owner))
    assert made.exit_code == 0, made.output
    assert words in made.stderr
    assert bool(made.stderr) == bool(words)
