import pytest
import yaml

from rescheduler.kube.connection import connect
from rescheduler.kube.errors import KubeconfigError
from rescheduler.kube.kubeconfig import is_loopback, load_configuration
from rescheduler.kube.transport import Request


def config(server="http://127.0.0.1:1", user=None, **changes):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user if user is not None else {"token": "secret"}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u"}},
            {"name": "lost", "context": {"cluster": "gone", "user": "u"}},
            {"name": "nobody", "context": {"cluster": "c", "user": "gone"}},
        ],
        **changes,
    }


@pytest.fixture
def write(tmp_path):
    def put(content, name="config"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return put


def test_kubeconfig_of_the_environment_is_honoured_and_several_files_are_merged(write):
    whole = config()
    first = write({**whole, "contexts": [], "current-context": "main"}, "one")
    second = write({"contexts": whole["contexts"]}, "two")
    found = load_configuration(None, None, {"KUBECONFIG": f"{first}:{second}:/does/not/exist"})
    assert found.host == "http://127.0.0.1:1"


def test_a_given_path_wins_over_the_environment(write):
    found = load_configuration(write(config("http://127.0.0.1:2")), None, {"KUBECONFIG": "/does/not/exist"})
    assert found.host == "http://127.0.0.1:2"


def test_a_token_file_that_is_rotated_is_read_again_after_a_refusal(write, fault_server, tmp_path):
    valid = ["one"]

    def handler(x):
        good = x.call.headers["authorization"] == f"Bearer {valid[0]}"
        x.json(200, {}) if good else x.status(401, "Unauthorized")

    (tmp_path / "token").write_text("one")
    transport = connect(write(config(fault_server(handler).url, {"tokenFile": str(tmp_path / "token")})))
    assert transport.send(Request(method="GET", path="/x")).status == 200
    (tmp_path / "token").write_text("two")
    valid[0] = "two"
    assert transport.send(Request(method="GET", path="/x")).status == 200


@pytest.mark.parametrize(("content", "words"), [
    ("", "not a kubeconfig"),
    ("- 1\n", "not a kubeconfig"),
    ("a: [1\nb: 2\n", "line 2: not YAML"),
    ("a:\n\tb: 2\n", "line 2: not YAML: the line is indented with a tab (indent with spaces)"),
    (config(clusters="x"), "clusters is not a list"),
    (config(contexts=[{"no": "name"}]), "contexts is not a list of named"),
    (config(**{"current-context": ""}), "has no current-context (give --context; it has: "),
    (config(contexts=[], **{"current-context": ""}), "it has no contexts: give another file"),
    (config(**{"current-context": "typo"}), "has no context 'typo'"),
    (config(**{"current-context": "lost"}), "unknown cluster 'gone'"),
    (config(**{"current-context": "nobody"}), "unknown user 'gone'"),
    (config(server=""), "no http(s) server address"),
    (config(server="127.0.0.1:6443"), "no http(s) server address"),
    (config(server="https://127.0.0.1:1", user={"client-certificate": "/none", "client-key": "/none"}), "/none"),
    (config(server="https://127.0.0.1:1", user={"client-certificate-data": "bm8=", "client-key-data": "bm8="}),
        "certificate or key cannot be used"),
    (config(clusters=[{"name": "c", "cluster": {"server": "https://a", "certificate-authority-data": "bm8="}}]),
        "certificate or key cannot be used"),
    (config(user={"client-certificate-data": "%%%"}, server="https://127.0.0.1:1"), "cannot be used"),
    (config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"}}),
        "credential plugin '/no/such/plugin': No such file or directory"),
])  # fmt: skip
def test_each_fault_is_named_before_anything_is_sent(write, content, words):
    with pytest.raises(KubeconfigError) as caught:
        connect(write(content))
    assert words in str(caught.value)
    assert caught.value.file
    assert caught.value.remedy


def test_an_unknown_context_names_the_known_ones(write):
    with pytest.raises(KubeconfigError) as caught:
        connect(write(config()), "typo")
    assert "lost, main, nobody" in caught.value.remedy


def test_a_missing_file_says_what_to_do():
    with pytest.raises(KubeconfigError, match="no such file"):
        connect("/does/not/exist")


def test_a_folder_is_no_kubeconfig(tmp_path):
    with pytest.raises(KubeconfigError, match="directory"):
        connect(str(tmp_path))


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "c").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(KubeconfigError, match="not UTF-8"):
        connect(str(tmp_path / "c"))


@pytest.mark.parametrize(("url", "expected"), [
    ("https://127.0.0.1:6443", True),
    ("https://[::1]:6443", True),
    ("http://localhost", True),
    ("https://10.0.0.1", False),
    ("https://api.example.com", False),
])  # fmt: skip
def test_loopback(url, expected):
    assert is_loopback(url) is expected


@pytest.fixture
def in_cluster(tmp_path, monkeypatch):
    """The files and variables that a pod sees."""
    from kubernetes.config import incluster_config  # noqa: PLC0415

    from rescheduler.kube import kubeconfig  # noqa: PLC0415

    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    authority.write_text(certifi_bundle())
    for module in (incluster_config, kubeconfig):
        monkeypatch.setattr(module, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return token, authority


def certifi_bundle():
    import certifi  # noqa: PLC0415

    return certifi.contents()


def test_inside_a_pod_the_service_account_is_used_and_read_again(in_cluster):
    token, _ = in_cluster
    found = load_configuration(None, None)
    assert found.host == "https://[fd00::1]:443"
    assert found.auth_settings()["BearerToken"]["value"] == "bearer first"
    token.write_text("second")
    assert load_configuration(None, None).auth_settings()["BearerToken"]["value"] == "bearer second"


def test_inside_a_pod_a_given_kubeconfig_wins(in_cluster, write):
    assert load_configuration(write(config()), None).host == "http://127.0.0.1:1"


@pytest.mark.parametrize("file", [0, 1], ids=["token", "certificate"])
def test_an_empty_file_of_the_service_account_is_named(in_cluster, file):
    in_cluster[file].write_text("")
    with pytest.raises(KubeconfigError, match="empty"):
        load_configuration(None, None)
