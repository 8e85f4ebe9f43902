"""The same kubeconfig gives the same request headers as kubectl sends, or both refuse it.

kubectl itself is asked, over TLS: to a plain http server it sends no credentials at all.
"""

import datetime as dt
import http.server
import os
import shutil
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rescheduler.errors import ReschedulerError
from rescheduler.kube.connection import connect
from rescheduler.kube.transport import Request
from rescheduler.webhook.certificates import renewed

EXAMPLES = int(os.environ.get("RESCHEDULER_EXAMPLES", "12"))
HOST = "127.0.0.1"
VERSION = "client.authentication.k8s.io/v1"


class Server:
    """Notes who asks: the headers of the last request that say it."""

    def __init__(self, folder):
        material = renewed(None, (HOST, "api.example"), dt.datetime.now(dt.UTC).timestamp())
        (folder / "serving.pem").write_bytes(material.certificate + material.key)
        (folder / "ca.pem").write_bytes(material.bundle)
        self.authority = material.bundle
        self.heard = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.heard = sorted(
                    (name.lower(), value.strip())
                    for name, value in self.headers.items()
                    if name.lower() == "authorization" or name.lower().startswith("impersonate-")
                )
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "serving.pem")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://{HOST}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Place:
    """A folder with a kubeconfig, token files and a plugin; the commands run in another one."""

    def __init__(self, folder, server):
        self.folder, self.server = folder, server
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        (folder / "token").write_text("of-a-file\n")
        (folder / "padded").write_text("\n  padded \r\n")
        (folder / "empty").write_text("\n")
        shutil.copy(server.folder / "ca.pem", folder / "ca.pem")
        plugin = folder / "plugin"
        answer = f'{{"apiVersion":"{VERSION}","kind":"ExecCredential","status":{{"token":"of-a-plugin"}}}}'
        plugin.write_text(f"#!/bin/sh\necho '{answer}'\n")
        plugin.chmod(0o755)

    def write(self, user, cluster=None, name="config", **more):
        cluster = {"certificate-authority": "ca.pem"} if cluster is None else cluster
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": self.server.url, **cluster}}],
            "users": [{"name": "a", "user": user}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            **more,
        }
        path = self.folder / name
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        return str(path)

    def of_kubectl(self, where):
        """The headers that kubectl sent, or None: it refused the file."""
        self.server.heard = None
        # It waits for a name and a password on stdin where a user has no credentials.
        done = subprocess.run(
            ["kubectl", "get", "--raw", "/version"], capture_output=True, check=False, cwd=self.elsewhere,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "KUBECONFIG": where},
            stdin=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip
        return self.server.heard if done.returncode == 0 else None

    def ours(self, where, monkeypatch):
        self.server.heard = None
        monkeypatch.chdir(self.elsewhere)
        monkeypatch.setenv("KUBECONFIG", where)
        try:
            connect().send(Request(method="GET", path="/version"))
        except ReschedulerError:
            return None
        return self.server.heard


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    folder = tmp_path_factory.mktemp("server")
    made = Server(folder)
    made.folder = folder
    yield made
    made.close()


@pytest.fixture
def place(tmp_path, server, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    return Place(tmp_path, server)


def basic(words):
    import base64  # noqa: PLC0415

    return ("authorization", "Basic " + base64.b64encode(words.encode()).decode())


def bearer(token):
    return ("authorization", f"Bearer {token}")


PLUGIN = {"exec": {"apiVersion": VERSION, "command": "./plugin", "interactiveMode": "Never"}}
TABLE = {
    "token": ({"token": "t"}, [bearer("t")]),
    "token file with a final newline": ({"tokenFile": "token"}, [bearer("of-a-file")]),
    "token file with blanks around": ({"tokenFile": "padded"}, [bearer("padded")]),
    "token file before token": ({"tokenFile": "token", "token": "t"}, [bearer("of-a-file")]),
    "token where the token file is empty": ({"tokenFile": "empty", "token": "t"}, [bearer("t")]),
    "empty token file": ({"tokenFile": "empty"}, None),
    "no token file": ({"tokenFile": "none"}, None),
    "token with a line break": ({"token": "t\nx: y"}, None),
    "token that is a number": ({"token": 1}, None),
    "password": ({"username": "jane", "password": "p:w"}, [basic("jane:p:w")]),
    "username alone": ({"username": "jane"}, [basic("jane:")]),
    "token and password": ({"token": "t", "username": "jane", "password": "p"}, None),
    "token file and password": ({"tokenFile": "token", "username": "jane", "password": "p"}, None),
    "plugin, relative to the file": (PLUGIN, [bearer("of-a-plugin")]),
    "token before plugin": ({**PLUGIN, "token": "t"}, [bearer("t")]),
    "password before plugin": ({**PLUGIN, "username": "jane", "password": "p"}, [basic("jane:p")]),
    "plugin of an unknown version": ({"exec": {**PLUGIN["exec"], "apiVersion": "v1"}}, None),
    "token and a plugin of an unknown version": (
        {"token": "t", "exec": {**PLUGIN["exec"], "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
        None,
    ),
    "token and a plugin without version": ({"token": "t", "exec": {"command": "./plugin"}}, None),
    "plugin without command": ({"exec": {**PLUGIN["exec"], "command": ""}}, None),
    "plugin of an unknown mode": ({"exec": {**PLUGIN["exec"], "interactiveMode": "Sometimes"}}, None),
    "plugin that needs a terminal": ({"exec": {**PLUGIN["exec"], "interactiveMode": "Always"}}, None),
    "plugin and provider": ({**PLUGIN, "auth-provider": {"name": "oidc", "config": {}}}, None),
    "provider that is gone": ({"auth-provider": {"name": "gcp", "config": {"access-token": "t"}}}, None),
    "certificate without key": ({"token": "t", "client-certificate": "ca.pem"}, None),
    "certificate that is not there": ({"token": "t", "client-certificate": "n", "client-key": "n"}, None),
    "as": ({"token": "t", "as": "jane"}, [bearer("t"), ("impersonate-user", "jane")]),
    "as with all": (
        {"token": "t", "as": "j", "as-uid": "u", "as-groups": ["b", "a, c"], "as-user-extra": {"X/y z%": ["1", "2"]}},
        [
            bearer("t"),
            ("impersonate-extra-x%2fy%20z%25", "1"),
            ("impersonate-extra-x%2fy%20z%25", "2"),
            ("impersonate-group", "a, c"),
            ("impersonate-group", "b"),
            ("impersonate-uid", "u"),
            ("impersonate-user", "j"),
        ],
    ),
    "as, not in ASCII": ({"token": "t", "as": "Jürgen"}, [bearer("t"), ("impersonate-user", "J\xc3\xbcrgen")]),
    "groups without as": ({"token": "t", "as-groups": ["system:masters"]}, None),
    "uid without as": ({"token": "t", "as-uid": "1"}, None),
    "extra without as": ({"token": "t", "as-user-extra": {"a": ["b"]}}, None),
    "empty as": ({"token": "t", "as": ""}, [bearer("t")]),
    "as that is a list": ({"token": "t", "as": ["jane"]}, None),
    "groups that are a text": ({"token": "t", "as": "jane", "as-groups": "dev"}, None),
    "extra that is a text": ({"token": "t", "as": "jane", "as-user-extra": {"a": "b"}}, None),
    "as with a line break": ({"token": "t", "as": "jane\r\nImpersonate-Group: system:masters"}, None),
    "unknown key": ({"token": "t", "impersonate": "jane"}, [bearer("t")]),
}  # fmt: skip


@pytest.mark.parametrize(("user", "expected"), TABLE.values(), ids=TABLE)
def test_a_user_has_the_identity_that_kubectl_gives_it(place, monkeypatch, user, expected):
    where = place.write(user)
    assert place.ours(where, monkeypatch) == expected
    theirs = place.of_kubectl(where)
    # kubectl writes a line break in a header's value as a blank; such a file is refused here.
    assert theirs == expected or "line break" in str(user) or "\n" in str(user.values())


CLUSTERS = {
    "authority, relative to the file": ({"certificate-authority": "ca.pem"}, True),
    "no authority": ({}, False),
    "authority that is not there": ({"certificate-authority": "none.pem"}, False),
    "authority twice": ({"certificate-authority": "ca.pem", "certificate-authority-data": "DATA"}, False),
    "authority in the file": ({"certificate-authority-data": "DATA"}, True),
    "authority that is no base64": ({"certificate-authority-data": "%%%"}, False),
    "unverified": ({"insecure-skip-tls-verify": True}, True),
    "unverified, as a text": ({"insecure-skip-tls-verify": "false"}, False),
    "unverified with an authority": ({"insecure-skip-tls-verify": True, "certificate-authority": "ca.pem"}, False),
    "another name that the certificate has": ({"certificate-authority": "ca.pem", "tls-server-name": "api.example"}, True),
    "another name": ({"certificate-authority": "ca.pem", "tls-server-name": "other.example"}, False),
    "proxy that is away": ({"certificate-authority": "ca.pem", "proxy-url": "http://127.0.0.1:1"}, False),
    "proxy of another kind": ({"certificate-authority": "ca.pem", "proxy-url": "ftp://127.0.0.1:1"}, False),
}  # fmt: skip


@pytest.mark.parametrize(("cluster", "reached"), CLUSTERS.values(), ids=CLUSTERS)
def test_a_cluster_is_reached_where_kubectl_reaches_it(place, monkeypatch, cluster, reached):
    import base64  # noqa: PLC0415

    data = base64.b64encode(place.server.authority).decode()
    given_ = {key: data if value == "DATA" else value for key, value in cluster.items()}
    where = place.write({"token": "t"}, given_)
    expected = [bearer("t")] if reached else None
    assert (place.ours(where, monkeypatch), place.of_kubectl(where)) == (expected, expected)


def test_of_several_files_the_first_that_names_something_wins(place, monkeypatch):
    """Also the current context: with the last one, commands would go to another cluster than with kubectl."""
    (place.folder / "empty").write_text("")
    other = [{"name": "b", "context": {"cluster": "a", "user": "b"}}]
    first = place.write({"token": "one"})
    second = place.write({"token": "two"}, name="second", **{
        "current-context": "b",
        "contexts": other,
        "users": [{"name": "a", "user": {"token": "x"}}, {"name": "b", "user": {"token": "two"}}],
    })  # fmt: skip
    empty = str(place.folder / "empty")
    for files, token in (((empty, first, second), "one"), ((second, first, "/none"), "two")):
        where = ":".join(files)
        assert place.ours(where, monkeypatch) == place.of_kubectl(where) == [bearer(token)]


@pytest.mark.parametrize("more", [
    {"users": [{"name": "a", "user": {"token": "1"}}, {"name": "a", "user": {"token": "2"}}]},
    {"kind": "Secret"},
    {"contexts": [{"name": "a", "context": {"cluster": "a", "user": 1}}]},
    {"users": [{"name": 1, "user": {"token": "1"}}]},
], ids=["a name twice", "another kind", "a number as reference", "a number as name"])  # fmt: skip
def test_a_file_that_kubectl_refuses_is_refused(place, monkeypatch, more):
    where = place.write({"token": "t"}, **more)
    assert place.ours(where, monkeypatch) is None
    assert place.of_kubectl(where) is None


TEXTS = st.sampled_from(["", "t", "a b", "x/y", "ä", "100%", "a,b", " s ", "true"]) | st.text(
    st.characters(
        min_codepoint=32, max_codepoint=0x24F, exclude_characters="\x7f", exclude_categories=("Cc",)
    ),
    max_size=6,
)
VALUES = TEXTS | st.none() | st.sampled_from([1, True, [], {}, ["a"]])
USERS = st.fixed_dictionaries({}, optional={
    "token": VALUES,
    "tokenFile": st.sampled_from(["token", "padded", "empty", "none", "", ".", 7, None]),
    "username": VALUES,
    "password": VALUES,
    "as": VALUES,
    "as-uid": VALUES,
    "as-groups": st.lists(TEXTS, max_size=3) | VALUES,
    "as-user-extra": st.dictionaries(TEXTS.filter(bool), st.lists(TEXTS, max_size=2), max_size=2) | VALUES,
    "client-certificate": st.sampled_from(["", "ca.pem", None]),
    "client-key": st.sampled_from(["", "ca.pem", None]),
    "exec": st.sampled_from([PLUGIN["exec"], {}, None, "x", {**PLUGIN["exec"], "args": "x"}]),
    "auth-provider": st.sampled_from([None, {}, {"name": "azure"}, []]),
    "extensions": st.just([]),
})  # fmt: skip


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory, server):
    return Place(tmp_path_factory.mktemp("place"), server)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(user=USERS)
@example(user={"token": "t", "exec": {}})
@example(user={"token": "t", "exec": {"command": "x"}})
@example(user={"token": "\u0100"})
@example(user={"token": "\u00a0"})
def test_no_user_gets_another_identity_than_with_kubectl(shared_place, monkeypatch, user):
    """What kubectl refuses may be refused or be sent without any credentials, as kubectl asks for a password then."""
    where = shared_place.write(user)
    ours = shared_place.ours(where, monkeypatch)
    if ours is None:
        return  # refused in words: `ours` lets no other exception pass
    theirs = shared_place.of_kubectl(where)
    assert ours == theirs or (theirs is None and not any(name == "authorization" for name, _ in ours))


@settings(
    max_examples=4 * EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(max_size=40)
    | st.recursive(VALUES, lambda inner: st.dictionaries(st.sampled_from(
        ["clusters", "users", "contexts", "current-context", "name", "cluster", "user", "context", "server", "kind"]
    ), inner | st.lists(inner, max_size=2), max_size=4), max_leaves=12).map(yaml.safe_dump)
)  # fmt: skip
def test_whatever_is_in_the_file_ends_in_words(tmp_path, text):
    path = Path(tmp_path) / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReschedulerError):
        connect(str(path))
