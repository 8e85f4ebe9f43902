"""Every command, with every stream that fails and interrupted at every moment, ends in words and with a documented code."""

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = "from rescheduler.cli.entry import main; main()"
LISTENS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
"""As in a terminal: a process that is started by a background job inherits that SIGINT is ignored."""
PATIENCE_S = 120.0

WORKING = {
    "version": ("version",),
    "help": ("reserve", "create", "--help"),
    "validate": ("validate", "{config}"),
    "plan": ("plan", "--from", "{dump}"),
}
"""Command lines that write to stdout and need no server."""
WRONG = {
    "no command": (),
    "usage": ("plan", "--no-such-option"),
    "input": ("plan", "--from", "{dump}.none"),
    "stdin": ("plan", "--from", "-"),
}


@pytest.fixture
def words(dump, untidy, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n")
    path = dump(untidy)
    return lambda line: [word.format(dump=path, config=config) for word in line]


def run(words, redirections=""):
    """(exit code, stdout, stderr) of the program, started by a shell that changes its streams."""
    script = f'exec "$@" {redirections}'
    line = ["/bin/sh", "-c", script, "sh", sys.executable, "-c", PROGRAM, *words]
    environment = {**os.environ, "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
        env=environment,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", WORKING)
def test_stdout_that_cannot_be_written_is_said_and_ends_with_1(words, name):
    full = run(words(WORKING[name]), ">/dev/full")
    assert full == (1, "", "error: standard output: cannot write: No space left on device\n")


@pytest.mark.parametrize("name", ["help", "plan"])
def test_closed_stdout_is_said_and_ends_with_1(words, name):
    closed = run(words(WORKING[name]), ">&-")
    assert closed == (1, "", "error: standard output: cannot write: it is closed\n")


@pytest.mark.parametrize("name", ["help", "plan"])
def test_what_is_not_needed_may_be_closed(words, name):
    code, written, _ = run(words(WORKING[name]), "<&- 2>&-")
    assert code == 0
    assert written


@pytest.mark.parametrize("name", ["help", "plan"])
def test_a_reader_that_is_gone_is_no_message(words, name):
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-c", PROGRAM, *words(WORKING[name])]
    done = subprocess.run(
        line, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE_S
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.crossed
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_the_exit_code_stays_right_where_the_message_is_lost(words, name, stderr):
    assert run(words(WRONG[name]), f"<&- {stderr}")[:2] == (2, "")


def test_closed_stdin_is_named(words):
    code, _, told = run(words(WRONG["stdin"]), "<&-")
    assert (code, told) == (
        2,
        "error: standard input: it is closed; give a file, or a pipe that can be read\n",
    )


INTERRUPTS_ITSELF = f"""
{LISTENS}
from rescheduler.cli.entry import main
import os, sys
class Interrupts:
    left = int(sys.argv[1])
    def find_spec(self, name, path=None, target=None):
        Interrupts.left -= 1
        if Interrupts.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
main(sys.argv[2:])
"""
MOMENTS = [
    ("plan", 2), ("plan", 25), ("plan", 100), ("plan", 300), ("demo", 300), ("sandbox", 300),
    ("reserve", 300),
]  # fmt: skip
"""Numbers of the import at which Ctrl-C comes; the first two hundred are those of every command."""


@pytest.mark.parametrize(("name", "moment"), MOMENTS)
def test_ctrl_c_during_the_imports_ends_it_at_once(words, name, moment, kubeconfig_of):
    lines = {
        **WORKING,
        "demo": ("demo",),
        "sandbox": ("sandbox",),
        "reserve": ("reserve", "list", "--kubeconfig", str(kubeconfig_of())),
    }
    line = [sys.executable, "-c", INTERRUPTS_ITSELF, str(moment), *words(lines[name])]
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=PATIENCE_S, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) in ((-signal.SIGINT, ""), (130, ""))  # a shell shows both as 130
    assert done.stderr.strip() in ("", "interrupted")


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_is_no_broken_promise(asked):
    line = [sys.executable, "-c", f"{LISTENS}; {PROGRAM}", "demo"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(line, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **pipes) as process:
        try:
            seen = ""
            while "violations" not in seen:
                seen = process.stdout.readline()
                assert seen, "it ended before it began to move"
            process.send_signal(asked)
            written, told = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert (process.returncode, told.strip()) == (130, "interrupted")
    assert "BROKEN" not in written
    assert "Traceback" not in written


def test_ctrl_c_while_it_waits_for_input_is_130():
    line = [sys.executable, "-c", f"{LISTENS}; {PROGRAM}", "plan", "--from", "-"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(line, text=True, **pipes) as process:
        process.stdin.write("[" + " " * 300_000)  # more than a pipe holds: it reads
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        written, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, written, told.strip()) == (130, "", "interrupted")


def test_a_job_in_the_background_goes_on_ignoring_ctrl_c():
    ignores = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    hears = f"{ignores}\nimport rescheduler.cli.output, os\nos.kill(os.getpid(), signal.SIGINT)\n{PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-c", hears, "version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
