"""Who the user entry of a kubeconfig makes us: token, certificate, password or plugin, and whom we act as.

By the rules of client-go, so that the same file gives the same identity as with kubectl: a token file wins over a token,
both over a password, all of them and a certificate over a credential plugin. ``as`` and its companions become Impersonate-*
headers. What is not supported is a ``KubeconfigError``, never passed over: an identity that is wider than the file asks for
is the worst that can be made of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import string
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import urllib3
from kubernetes.config.dateutil import parse_rfc3339

from rescheduler.kube.errors import KubeconfigError
from rescheduler.kube.exec_plugin import ExecPlugin, credential
from rescheduler.kube.kubeconfig_entries import Entry

Headers = tuple[tuple[str, str], ...]

_TOKEN_FILE_PERIOD_S: Final = 60.0
"""A token file is read again after so long, as in client-go; kubelets renew them hours before their end."""
_EARLY_S: Final = 10.0
"""Credentials of a plugin are renewed so long before their end."""
_IN_A_NAME: Final = frozenset("!#$&'*+-.^_`|~" + string.ascii_letters + string.digits)
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_MODES: Final = ("", "Never", "IfAvailable", "Always")
_JWT_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Pem:
    """Part of a certificate's pair: its bytes, or the path of its file; neither if not set."""

    data: bytes = b""
    path: str = ""

    def __bool__(self) -> bool:
        return bool(self.data or self.path)


@dataclass(frozen=True, slots=True)
class Credentials:
    """``authorization``: asks for the header's value, which may be renewed between requests; None without one."""

    authorization: Callable[[], str] | None = None
    certificate: Pem = Pem()
    key: Pem = Pem()
    impersonation: Headers = ()


def credentials_of(user: Entry | None, cluster: Entry) -> Credentials:
    """Raises KubeconfigError."""
    if user is None:
        return Credentials()
    certificate, key = pem(user, "client-certificate"), pem(user, "client-key")
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise user.error(
            f"a certificate needs a key, and a key a certificate: no {missing}", f"set {missing}"
        )
    plugin, provider = user.inner("exec"), user.inner("auth-provider")
    if plugin and provider:
        raise user.error("exec and auth-provider cannot be used together", "remove one of them")
    authorization = _token(user) or _password(user)
    if plugin:
        # kubectl refuses a wrong plugin also where it does not ask it, because there is a token.
        made = _plugin(plugin, cluster)
        if not (authorization or certificate):
            authorization, certificate, key = _from_plugin(plugin, made)
    if provider and not authorization:
        authorization = _from_provider(provider)
    return Credentials(authorization, certificate, key, _impersonation(user))


def pem(entry: Entry, key: str) -> Pem:
    """``key`` is a path, ``key``-data the content; both are refused, as kubectl refuses them. Raises KubeconfigError."""
    data, path = entry.data(f"{key}-data"), entry.path(key)
    if data and path:
        raise entry.error(f"{key} and {key}-data are both set", "remove one of them")
    if path:
        try:
            Path(path).open("rb").close()
        except (OSError, ValueError) as error:
            raise entry.error(f"{key} {path}: {getattr(error, 'strerror', None) or error}") from error
    return Pem(data, path)


def _token(user: Entry) -> Callable[[], str] | None:
    token, path = user.text("token"), user.path("tokenFile")
    if (token or path) and user.text("username"):
        raise user.error("has a token and a username", "remove one of them")
    if token:
        _check_value(user, "token", token)
    if path:
        return _TokenFile(user, path, token).authorization
    return (lambda: f"Bearer {token}") if token else None


class _TokenFile:
    """Read at once, and again now and then; a file that cannot be read later leaves the last token in use."""

    def __init__(self, user: Entry, path: str, otherwise: str) -> None:
        self._user, self._path = user, path
        self._read_at_s = time.monotonic()
        try:
            self._token = self._read()
        except KubeconfigError:
            if not otherwise:
                raise
            self._token = otherwise

    def authorization(self) -> str:
        if time.monotonic() - self._read_at_s > _TOKEN_FILE_PERIOD_S:
            self._read_at_s = time.monotonic()
            self._renew()
        return f"Bearer {self._token}"

    def _renew(self) -> None:
        try:
            self._token = self._read()
        except KubeconfigError:
            return  # the server judges the old token; after a 401 everything is loaded again, and told

    def _read(self) -> str:
        try:
            token = Path(self._path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            found = getattr(error, "strerror", None) or str(error)
            raise self._user.error(f"tokenFile {self._path}: {found}", "write a token into it") from error
        if not token:
            raise self._user.error(f"tokenFile {self._path} is empty", "write a token into it")
        _check_value(self._user, f"tokenFile {self._path}", token)
        return token


def _password(user: Entry) -> Callable[[], str] | None:
    name, password = user.text("username"), user.text("password")
    if password and not name:
        raise user.error("has a password and no username", "set its username")
    if not name:
        return None
    value = "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
    return lambda: value


def _impersonation(user: Entry) -> Headers:
    name, uid, groups = user.text("as"), user.text("as-uid"), user.texts("as-groups")
    extra = user.inner("as-user-extra")
    pairs = [("Impersonate-User", name)] if name else []
    if uid:
        pairs.append(("Impersonate-Uid", uid))
    pairs += [("Impersonate-Group", group) for group in groups]
    for key in extra.values if extra else ():
        if not isinstance(key, str):
            raise user.error("a key of as-user-extra is not a text", "put it in quotes")
        values = extra.texts(key) if extra else ()
        pairs += [(f"Impersonate-Extra-{_escaped(key)}", value) for value in values]
    if pairs and not name:
        raise user.error("as-uid, as-groups and as-user-extra need a user to act as", "set as")
    for header, value in pairs:
        _check_value(user, header, value)
    return tuple((header, header_value(value)) for header, value in pairs)


def acting_as(name: str) -> Headers:
    """The identity of a user that is named on the command line, without groups. Raises KubeconfigError."""
    return _impersonation(Entry("--as", "user", name, {"as": name}))


def _escaped(key: str) -> str:
    """A key as part of a header's name: as client-go escapes it, and the API server reads it."""
    return "".join(chr(b) if chr(b) in _IN_A_NAME else f"%{b:02X}" for b in key.encode())


def _check_value(user: Entry, what: str, value: str) -> None:
    if any((ord(character) < ord(" ") and character != "\t") or character == "\x7f" for character in value):
        raise user.error(f"{what} has a control character or a line break in it", "remove it")


def _plugin(plugin: Entry, cluster: Entry) -> ExecPlugin:
    if "/" in (command := plugin.text("command")):
        command = plugin.path("command")
    made = ExecPlugin(
        command=command,
        arguments=plugin.texts("args"),
        environment=_environment(plugin),
        api_version=plugin.text("apiVersion"),
        cluster=_cluster_information(cluster) if plugin.flag("provideClusterInfo") else None,
        mode=plugin.text("interactiveMode"),
        install_hint=plugin.text("installHint"),
    )
    if not made.command:
        raise plugin.error("no command", "set the command of exec")
    if made.api_version not in _EXEC_VERSIONS:
        known = " or ".join(_EXEC_VERSIONS)
        raise plugin.error(f"apiVersion {made.api_version!r} is not known", f"set it to {known}")
    if made.mode not in _MODES:
        raise plugin.error(f"interactiveMode {made.mode!r} is not known", "set Never, IfAvailable or Always")
    return made


def _from_plugin(plugin: Entry, made: ExecPlugin) -> tuple[Callable[[], str] | None, Pem, Pem]:
    status = credential(made)
    token = _PluginToken(made, status).authorization if status.get("token") else None
    pair = [Pem(str(status.get(key) or "").encode()) for key in ("clientCertificateData", "clientKeyData")]
    if bool(pair[0]) != bool(pair[1]):
        raise plugin.error(
            "the plugin gave a certificate without a key, or a key without one", "run it by hand"
        )
    return token, pair[0], pair[1]


class _PluginToken:
    """The token of a credential plugin, which is asked again when its time is over."""

    def __init__(self, plugin: ExecPlugin, status: Mapping[str, Any]) -> None:
        self._plugin = plugin
        self._take(status)

    def authorization(self) -> str:
        if self._ends_s is not None and time.time() > self._ends_s:
            self._take(credential(self._plugin))
        return f"Bearer {self._token}"

    def _take(self, status: Mapping[str, Any]) -> None:
        name = self._plugin.label
        token, ends = str(status.get("token") or ""), status.get("expirationTimestamp")
        if not token or any(ord(character) < ord(" ") for character in token):
            raise KubeconfigError(name, "it gave no token that can be sent", "run it by hand")
        self._token = token
        self._ends_s = None
        if ends:
            try:
                self._ends_s = parse_rfc3339(ends).timestamp() - _EARLY_S
            except (ValueError, TypeError, AttributeError) as error:
                raise KubeconfigError(
                    name, f"its expirationTimestamp {ends!r} is no time", "run it by hand"
                ) from error


def _environment(plugin: Entry) -> dict[str, str]:
    listed = plugin.values.get("env") or []
    pairs = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else [{}]
    if not all(isinstance(one.get("name"), str) and isinstance(one.get("value", ""), str) for one in pairs):
        raise plugin.error("env is not a list of names and values", "write [{name: A, value: b}]")
    return {one["name"]: one.get("value", "") for one in pairs}


def _cluster_information(cluster: Entry) -> dict[str, Any]:
    """What client-go tells a plugin about the cluster."""
    authority = pem(cluster, "certificate-authority")
    data = authority.data or (Path(authority.path).read_bytes() if authority.path else b"")
    found: dict[str, Any] = {"server": cluster.text("server")}
    for key in ("tls-server-name", "proxy-url"):
        if value := cluster.text(key):
            found[key] = value
    if cluster.flag("insecure-skip-tls-verify"):
        found["insecure-skip-tls-verify"] = True
    if data:
        found["certificate-authority-data"] = base64.b64encode(data).decode()
    for extension in cluster.values.get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            found["config"] = extension.get("extension")
    return found


def _from_provider(provider: Entry) -> Callable[[], str]:
    name = provider.text("name")
    if name != "oidc":
        raise provider.error(
            f"the provider {name!r} is not supported", "use a credential plugin (exec), as kubectl does"
        )
    config = provider.inner("config")
    token = config.text("id-token") if config else ""
    if not token:
        raise provider.error("it has no id-token", "log in with kubectl, or use a credential plugin (exec)")
    _check_value(provider, "id-token", token)
    ends_s = _end_of(token)
    if ends_s is not None and time.time() > ends_s - _EARLY_S:
        remedy = "kubectl renews it: run kubectl once, or use a credential plugin (exec)"
        raise provider.error("its id-token has expired", remedy)
    return lambda: f"Bearer {token}"


def _end_of(token: str) -> float | None:
    """Seconds since 1970; None if the token does not say it: the server judges it then."""
    parts = token.split(".")
    if len(parts) != _JWT_PARTS:
        return None
    try:
        ends = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))).get("exp")
    except (ValueError, binascii.Error, AttributeError, RecursionError):
        return None
    return float(ends) if isinstance(ends, int | float) else None


def header_value(text: str) -> str:
    """As client-go sends it: the bytes of UTF-8, which the HTTP library takes for Latin-1."""
    return text.encode().decode("latin-1")


def with_pairs(headers: Mapping[str, str], pairs: Headers) -> Mapping[str, str]:
    """``headers`` and ``pairs``, of which several may have one name: each is a line of its own."""
    result = urllib3.HTTPHeaderDict(headers)
    for name, value in pairs:
        result.add(name, value)
    return result
