"""Servers on this machine that tests ask for usage: one that answers what it is told, one that Prometheus scrapes, and Prometheus."""

import contextlib
import http.server
import json
import ssl
import subprocess
import threading
import time
import urllib.request

import yaml

from harness.controlplane.processes import free_port

PASSWORD = "test"
_HASH = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"
"""Of PASSWORD, from the documentation of Prometheus."""


@contextlib.contextmanager
def serving(answer, material=None, folder=None):
    """``answer(handler)`` answers each request; gives the URL. ``material``: its certificate."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer(self)

        def do_DELETE(self):
            self.do_POST()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    scheme = "http"
    if material is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*written(material, folder)[1:])
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(5)


def written(material, folder):
    """Files of an authority, a certificate and its key."""
    files = [folder / name for name in ("ca.crt", "tls.crt", "tls.key")]
    for file, content in zip(files, (material.bundle, material.certificate, material.key), strict=True):
        file.write_bytes(content)
    return [str(file) for file in files]


def say(handler, body, code=200, kind="application/json"):
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    content = text.encode() if isinstance(text, str) else text
    handler.send_response(code)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def exporter(handler):
    """Node n1 uses 3 CPUs, of which pod hot uses 2.5 and pod calm 0.5; n2 a half."""
    began = time.time()
    lines = []
    for labels, cores, size in (
        ('id="/",node="n1"', 3.0, 3 << 30),
        ('id="/",node="n2"', 0.5, 1 << 30),
        ('id="/a",node="n1",namespace="shop",pod="hot",container="main"', 2.5, 2 << 30),
        ('id="/b",node="n1",namespace="shop",pod="calm",container="main"', 0.5, 1 << 30),
    ):
        lines += [
            f"container_cpu_usage_seconds_total{{{labels}}} {cores * began:.3f}",
            f"container_memory_working_set_bytes{{{labels}}} {size}",
        ]
    say(handler, "\n".join(lines) + "\n", kind="text/plain; version=0.0.4")


@contextlib.contextmanager
def prometheus(program, target, folder, material=None, *, job="cadvisor"):
    """A Prometheus that scrapes ``target`` (HOST:PORT) every second; gives its URL. ``material``: with this certificate, and a password."""
    port, context = free_port(), None
    times = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    scraped = {"job_name": job, "static_configs": [{"targets": [target]}]}
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump({"global": times, "scrape_configs": [scraped]}))
    words = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    if material is not None:
        ca, certificate, key = written(material, folder)
        web, tls = folder / "web.yaml", {"cert_file": certificate, "key_file": key}
        web.write_text(yaml.safe_dump({"tls_server_config": tls, "basic_auth_users": {"reader": _HASH}}))
        words.append(f"--web.config.file={web}")
        context = ssl.create_default_context(cafile=ca)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    url = f"{'http' if material is None else 'https'}://127.0.0.1:{port}"
    with (folder / "prometheus.log").open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
    try:
        _until_it_answers(url, context)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _until_it_answers(url, context):
    ends_s = time.monotonic() + 60
    while time.monotonic() < ends_s:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", context=context, timeout=2):  # noqa: S310 - on this machine
                return
        except urllib.error.HTTPError as error:
            if error.code == 401:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError("Prometheus does not answer")
