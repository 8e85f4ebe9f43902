"""Keys and certificates of a test control plane, made by ``openssl``; valid for the loopback address only."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.controlplane.binaries import BinariesMissing


@dataclass(frozen=True, slots=True)
class Pki:
    """Files: the CA, the API server's certificate, and the key that signs service account tokens."""

    ca: Path
    server_certificate: Path
    server_key: Path
    service_account_key: Path


def make_pki(folder: Path) -> Pki:
    """Makes a CA and a certificate for 127.0.0.1 and localhost. Raises BinariesMissing without openssl."""
    if shutil.which("openssl") is None:
        raise BinariesMissing("openssl is not installed: the real control plane cannot be started.")
    pki = Pki(folder / "ca.crt", folder / "server.crt", folder / "server.key", folder / "sa.key")
    ca_key, request, extensions = folder / "ca.key", folder / "server.csr", folder / "server.ext"
    for key in (ca_key, pki.server_key, pki.service_account_key):
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    _openssl("req", "-x509", "-new", "-key", ca_key, "-subj", "/CN=test-ca", "-days", "30", "-out", pki.ca)
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n")
    _openssl("req", "-new", "-key", pki.server_key, "-subj", "/CN=kube-apiserver", "-out", request)
    _openssl(
        *("x509", "-req", "-in", request, "-CA", pki.ca, "-CAkey", ca_key, "-CAcreateserial"),
        *("-days", "30", "-extfile", extensions, "-out", pki.server_certificate),
    )
    return pki


def _openssl(*arguments: str | Path) -> None:
    command = ["openssl", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  constant command
