"""Whatever is given as a file, the memory is bounded and the end is a sentence: bombs, devices, pipes without an end."""

import gzip
import json
import os
import subprocess
import sys

import pytest

from harness.builders import node, pod

MEMORY_BYTES = 3 << 30
"""Of addresses: the libraries alone take about 1 GiB of them."""
PROGRAM = f"""
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))
from rescheduler.cli.main import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        if end.code != 2:
            raise
    print(flush=True, file=sys.stderr)
"""
"""Runs command lines one after the other: starting Python costs more than each of them."""
PATIENCE_S = 240.0
TENFOLD = ",".join(["*x{}"] * 10)
BOMB = "x0: &x0 [a,a,a,a,a,a,a,a,a,a]\n" + "".join(
    f"x{i}: &x{i} [{TENFOLD.replace('{}', str(i - 1))}]\n" for i in range(1, 12)
)
USES = {
    "plan --from": ("plan", "--from", "{}"),
    "plan --config": ("plan", "--from", "{dump}", "--config", "{}"),
    "plan --kubeconfig": ("plan", "--kubeconfig", "{}"),
    "validate": ("validate", "{}"),
    "reserve create -f": ("reserve", "create", "--kubeconfig", "{kubeconfig}", "-f", "{}"),
}


def run(*lines, **more):
    """What each of the command lines says."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(lines)], capture_output=True, check=False,
        timeout=PATIENCE_S, env={**os.environ, "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1"}, **more,
    )  # fmt: skip
    told = done.stderr.decode()
    assert "Traceback" not in told
    assert (done.returncode, done.stdout) == (0, b""), told
    messages = told.removesuffix("\n\n").split("\n\n")
    assert len(messages) == len(lines), told
    return messages


@pytest.fixture
def every_use(dump, kubeconfig_of):
    kubeconfig = kubeconfig_of()
    good = dump([node("n1").manifest(), pod("p", "d").on("n1").manifest()], "good.json")
    return lambda bad: [
        [word.format(bad, dump=good, kubeconfig=kubeconfig) for word in words] for words in USES.values()
    ]


def test_a_bomb_of_aliases_is_refused_with_its_line(every_use, tmp_path):
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text(BOMB)
    for told in run(*every_use(bomb)):
        assert f"{bomb}:6" in told or f"{bomb}: line 6" in told
        assert "more than 200,000 values, with what aliases repeat" in told


def test_a_device_without_an_end_is_refused(every_use):
    for told in run(*every_use("/dev/zero")):
        assert told.startswith(("error: /dev/zero:", "/dev/zero"))
        assert len(told.splitlines()) == 1


ENDLESS = {
    "lines": "y",
    "items of yaml": "items:",
    "objects": '{"a": 1}',
    "a text": '{"a": "' + "x" * 1000,
    "blanks": " ",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_pipe_without_an_end_is_refused(name):
    words = ENDLESS[name]
    code = (
        f"import sys\ntext = ({words!r} * 64 + chr(10)).encode()\nwhile True: sys.stdout.buffer.write(text)"
    )
    if name in ("a text", "items of yaml"):  # once, and then what never ends
        code = f"import sys\nsys.stdout.buffer.write({words!r}.encode())\nwhile True: sys.stdout.buffer.write(b'x' * 65536)"
    elif name == "objects":
        code = f"import sys\nwhile True: sys.stdout.buffer.write({words!r}.encode() * 100)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as writer:
        try:
            (told,) = run(["plan", "--from", "-"], stdin=writer.stdout)
        finally:
            writer.kill()
            writer.stdout.close()
    assert told.startswith("error: -")
    assert len(told.splitlines()) == 1


def test_a_bomb_of_gzip_is_refused(every_use, tmp_path):
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(64 << 20)) * 64)
    read_as_dump, *_, read_as_manifest = every_use(bomb)
    assert all("neither YAML nor JSON" in told for told in run(read_as_dump, read_as_manifest))


def test_a_flipped_bit_of_a_compressed_file_is_damage_wherever_it_is(command, tmp_path):
    items = [node(f"n{i}").manifest() for i in range(50)]
    good = gzip.compress(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}).encode())
    path = tmp_path / "dump.json.gz"
    for at in range(12, len(good) - 4, max(1, len(good) // 40)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        done = command("plan", "--from", path)
        assert done.exit_code == 2, at
        assert done.stderr.startswith(f"error: {path}: damaged gzip file: "), at
