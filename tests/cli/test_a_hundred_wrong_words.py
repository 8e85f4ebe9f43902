"""A hundred wrong command lines: each ends with its exit code and one message that names what is wrong; no traceback, nothing changed."""

import shlex

import pytest

from rescheduler.testing.builders import node

WRONG = [
    # (command line, exit code, what the message names)
    ("plan --from", 2, "--from"),
    ("plan dump.json", 2, "use --from"),
    ("plan --from /no/such.json", 2, "/no/such.json"),
    ("plan -o xml", 2, "xml"),
    ("plan --max-moves -1", 2, "-1"),
    ("plan --max-moves many", 2, "many"),
    ("plan --effort 0", 2, "0"),
    ("plan --effort 1000000", 2, "1000000"),
    ("plan -n shop -A", 2, "exclude"),
    ("plan -l app=", 0, ""),
    ("plan -l =web", 2, "=web"),
    ("plan -l app=(web)", 2, "write it like"),
    ("plan --prove --next-cycle", 2, "--prove"),
    ("plan --prove-seconds 0", 2, "0"),
    ("plan --now yesterday", 2, "yesterday"),
    ("plan --config /no/such.yaml", 2, "/no/such.yaml"),
    ("plan --scheduler-config /no/such.yaml", 2, "/no/such.yaml"),
    ("plan --request-timeout soon", 2, "soon"),
    ("plan --request-timeout -5s", 2, "-5s"),
    ("plan --nosuch", 2, "--nosuch"),
    ("plan --output-file /no/such/folder/x", 1, "/no/such/folder/x"),
    ("pln", 2, "plan"),
    ("explain", 2, "--kubeconfig"),
    ("explain pod", 2, "pod"),
    ("explain pod nosuch", 2, "nosuch"),
    ("explain pod a/b/c", 2, "a/b/c"),
    ("explain deployment web", 2, "deployment"),
    ("explain node node-99", 2, "node-99"),
    ("explain reservation nosuch", 2, "nosuch"),
    ("explain pod n1 -o yml", 2, "yml"),
    ("move", 2, "name pods"),
    ("move pod", 2, "name a pod"),
    ("move deployment/web", 2, "labels"),
    ("move pod/nosuch", 2, "nosuch"),
    ("move shop/web-1", 2, "-n"),
    ("move -l app=nosuch", 1, "app=nosuch"),
    ("move -l =x", 2, "=x"),
    ("move --from node-99", 2, "node-99"),
    ("move --from NODE_1", 2, "NODE_1"),
    ("move pod/web-0 -l app=web", 2, "name pods"),
    ("move --follow abc pod/web-0", 2, "--follow"),
    ("move --follow nosuch", 2, "nosuch"),
    ("move --withdraw nosuch", 2, "nosuch"),
    ("move pod/web-0 --timeout 0s", 2, "--timeout"),
    ("move pod/web-0 --timeout 1y", 2, "1y"),
    ("move pod/web-0 --timeout 1000h", 2, "--timeout"),
    ("move pod/web-0 -o table", 2, "table"),
    ("drain", 2, "name nodes"),
    ("drain node-99", 2, "node-99"),
    ("drain pod/web", 2, "pod/web"),
    ("drain -l pool=nosuch", 1, "pool=nosuch"),
    ("drain n1 -l pool=x", 2, "not both"),
    ("drain -l ==", 2, "=="),
    ("drain n1 --disable-eviction", 2, "--disable-eviction"),
    ("drain n1 --timeout never", 2, "never"),
    ("drain n1 --grace-period soon", 2, "soon"),
    ("drain n1 --evict-with delete", 2, "delete"),
    ("drain n1 --from /no/such --plan", 2, "/no/such"),
    ("drain n1 --from /no/such", 2, "add --plan"),
    ("drain n1 -o table", 2, "table"),
    ("uncordon", 2, "name nodes"),
    ("uncordon node-99", 2, "node-99"),
    ("uncordon -l pool=nosuch", 1, "pool=nosuch"),
    ("consolidate --nodes 0", 2, "0"),
    ("consolidate --nodes two", 2, "two"),
    ("consolidate --pool web", 2, "web"),
    ("consolidate --pool pool=nosuch --plan", 1, "pool=nosuch"),
    ("consolidate --until 101%", 2, "101%"),
    ("consolidate --until half", 2, "half"),
    ("consolidate --resume --nodes 2", 2, "--resume"),
    ("consolidate --then delete", 2, "delete"),
    ("consolidate --from /no/such", 2, "add --plan"),
    ("scale", 2, "Missing"),
    ("scale web --replicas 3", 2, "web"),
    ("scale daemonset/web --replicas 3", 2, "daemonset"),
    ("scale deployment/nosuch --replicas 3", 2, "nosuch"),
    ("scale deployment/web --replicas -1", 2, "-1"),
    ("scale deployment/web", 2, "--replicas"),
    ("reserve create", 2, "nothing to hold"),
    ("reserve create --cpu 1", 2, "no pods may use"),
    ("reserve create --cpu many --owner-selector app=web", 2, "many"),
    ("reserve create --cpu -1 --owner-selector app=web", 2, "negative"),
    ("reserve create --cpu 9999 --owner-selector app=web", 2, "9999"),
    ("reserve create --memory 1Gb --owner-selector app=web", 2, "1Gb"),
    ("reserve create --request gpu=1 --owner-selector app=web", 2, "gpu"),
    ("reserve create --request gpu --owner-selector app=web", 2, "NAME=AMOUNT"),
    ("reserve create --cpu 1 --owner-selector app", 2, "KEY=VALUE"),
    ("reserve create --cpu 1 --owner-selector app=web --node node-99", 2, "node-99"),
    ("reserve create --cpu 1 --owner-selector app=web --ttl 9000h", 2, "8760h"),
    ("reserve create --cpu 1 --owner-selector app=web --ttl 1h --expires 2030-01-01T00:00:00Z", 2, "exclude"),
    ("reserve create --cpu 1 --owner-selector app=web --expires tomorrow", 2, "tomorrow"),
    ("reserve create --replicas 3 --cpu 1 --owner-selector app=web", 2, "--replicas"),
    ("reserve create deployment/nosuch", 2, "nosuch"),
    ("reserve create -f /no/such.yaml", 2, "/no/such.yaml"),
    ("reserve list nosuch", 2, "nosuch"),
    ("reserve list --phase held", 2, "held"),
    ("reserve watch --timeout x", 2, "x"),
    ("reserve release", 2, "name"),
    ("reserve release nosuch", 2, "nosuch"),
    ("reserve window create w --cron 5 --pods 1 --cpu 1 --owner-selector app=web --duration 1h", 2, "cron"),
    ("reserve window create w --cron never --pods 0", 2, "0"),
    ("reserve window delete nosuch", 2, "nosuch"),
    ("reserve window rehearse nosuch", 2, "nosuch"),
    ("status -o xml", 2, "xml"),
    ("status --every soon", 2, "soon"),
    ("check --nosuch", 2, "--nosuch"),
    ("history --since yesterday", 2, "yesterday"),
    ("history -o html", 2, "html"),
    ("ui --port 70000", 2, "70000"),
    ("ui --every 0", 2, "0"),
    ("validate", 2, "Missing"),
    ("validate /no/such.yaml", 2, "/no/such.yaml"),
    ("convert /no/such.yaml", 2, "/no/such.yaml"),
    ("completion tcsh", 2, "tcsh"),
    ("run --port x", 2, "x"),
    ("uninstall --wait soon", 2, "soon"),
    ("--kubeconfig /no/such status", 2, "/no/such"),
    ("drain n1 --dry-run=maybe", 2, "--dry-run=maybe: write none, server or client"),
    ("move -l app=nosuch --dry-run=server", 1, "app=nosuch"),
    ("plan --effort 1.5", 2, "not a whole number"),
    ("drain ''", 2, "NODE...: a name is empty"),
    ("drain n1 '' --plan", 2, "a name is empty"),
    ("move pod ''", 2, "a name is empty"),
    ("reserve release ''", 2, "a name is empty"),
    ("scale '' --replicas 3", 2, "a name is empty"),
    ("history --since 99999999h", 2, "is longer than 292 years"),
    ("history --since -5m", 2, "write it without a sign"),
    ("reserve create --cpu 0 --owner-selector app=web", 2, "cpu: 0 holds nothing; give more"),
    ("plan -n shop", 0, "there is no pod in namespace shop"),
    ("plan -l nosuch=x", 0, "there is no pod with these labels"),
    ("move -l app=web --to=", 2, "--to: the value is empty"),
    ("move -l app=web --from=", 2, "--from: the value is empty"),
    ("consolidate --plan --pool=", 2, "--pool: the value is empty"),
    ("reserve create --cpu 1 --owner-selector app=web --node=", 2, "--node: the value is empty"),
    ("scale deployment/web deployment/api --replicas 3", 2, "name one workload"),
    ("reserve create --name UPPER --cpu 1 --owner-selector app=web", 2, "UPPER"),
    ("reserve create --name a..b --cpu 1 --owner-selector app=web", 2, "a..b"),
    ("reserve create --cpu 1 --owner-selector a$b=c", 2, "a$b=c"),
    ("reserve create --cpu 1 --owner-selector app=web --expires 2020-01-01T00:00:00Z", 2, "is past"),
    ("reserve window create W --cron x --pods 1 --cpu 1 --owner-selector app=web --duration 1h", 2, "W"),
    (
        "reserve window create w --cron x --pods 1 --cpu 1 --owner-selector a=b --duration 1h --end 04:00",
        2,
        "exclude each other",
    ),
    ("status --context nosuch", 2, "nosuch"),
]
LOCAL = ("validate", "convert", "completion", "--kubeconfig", "pln")


@pytest.fixture(scope="module")
def with_node(cluster):
    api, kubeconfig = cluster
    body = node("n1").cpu(4).manifest()
    body["metadata"] = {"name": "n1"}
    assert api.create("/api/v1/nodes", body).ok
    return api, kubeconfig


def test_there_are_a_hundred():
    assert len(WRONG) >= 100
    assert len({line for line, *_ in WRONG}) == len(WRONG)


@pytest.mark.parametrize(("line", "code", "named"), WRONG, ids=[line for line, *_ in WRONG])
def test_a_wrong_word_is_answered_with_what_is_wrong(command, with_node, line, code, named):
    api, kubeconfig = with_node
    words = shlex.split(line)
    from_dump = "--from" in words and words[0] in ("plan", "drain", "consolidate")
    if words[0] not in LOCAL and not from_dump:
        words += ["--kubeconfig", kubeconfig]
    before = api.get("/apis/rescheduler.dev/v1alpha1/reservations").body["items"]
    done = command(*words)
    assert done.exit_code == code, done.output
    assert named in done.stderr
    assert "Traceback" not in done.output
    assert "error: error" not in done.stderr.lower()
    assert done.stderr.count("node node-") == 0
    assert len(done.stderr.splitlines()) <= 12
    assert api.get("/apis/rescheduler.dev/v1alpha1/reservations").body["items"] == before
