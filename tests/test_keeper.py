"""Somebody's command under its keeper: how it is run, what is told of it, and that nothing of it is left."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import pytest
import wire
from pyx.sampling import tree

from pyx.keeper import EXECUTABLE, RING, Keeper, KeeperError

ROOT = Path(__file__).parents[1]
MARK = "KNEEPOINT_TEST_MARK"

# Leaves its parent, its session and its process group, as daemons do.
DAEMON = """
import os, signal, sys, time
def daemon():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("daemon", flush=True)
    time.sleep(1000)
    os._exit(0)
daemon()
"""


@pytest.fixture(scope="session")
def sanitized():
    """A keeper with AddressSanitizer and UndefinedBehaviorSanitizer."""
    target = ROOT / "build" / "sanitized-address" / "kneepoint-keeper"
    words = ["build_program", "--program=kneepoint-keeper", "--sanitize=address", f"--output={target}"]
    built = subprocess.run(
        [sys.executable, "setup.py", "-q", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return target


@pytest.fixture(params=["plain", "sanitized"])
def executable(request, tmp_path, monkeypatch):
    """Each build of the keeper; a sanitizer's report fails the test."""
    if request.param == "plain":
        yield EXECUTABLE
        return
    reports = tmp_path / "reports"
    reports.mkdir()
    monkeypatch.setenv("ASAN_OPTIONS", f"log_path={reports}/report:detect_leaks=1")
    yield request.getfixturevalue("sanitized")
    assert not "".join(path.read_text() for path in reports.iterdir())


@pytest.fixture
def mark(monkeypatch):
    """In the environment of every process of the test; at the end there is none left that has it."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    yield value
    assert wire.eventually(lambda: not marked(value), 10), marked(value)


@pytest.fixture
def keep(executable, mark):
    """Runs a command of the test, and lets nothing of it, nor of the keeper, be left in this process."""
    before = wire.descriptors().keys()
    kept = []

    def start(*words, **named):
        kept.append(Keeper(words, executable=executable, **named))
        return kept[-1]

    yield start
    for keeper in kept:
        keeper.stop()
    assert wire.descriptors().keys() == before
    assert all(MARK not in environment(pid) for pid in tree(-os.getpid()))


def environment(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def marked(value):
    """Processes that have the mark in their environment, and run."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and f"{MARK}={value}" in environment(pid)]


def python(source, *words):
    return sys.executable, "-c", textwrap.dedent(source), *words


def says(keeper, text):
    assert wire.eventually(lambda: text in keeper.output(), 20), keeper.output()


def test_a_command_is_asked_to_end_and_may_tidy_up(keep):
    keeper = keep("sh", "-c", "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done")
    says(keeper, "ready")
    assert keeper.alive() and keeper.status() is None and keeper.pid in tree(keeper.tree)
    keeper.stop()
    assert (keeper.alive(), keeper.status(), keeper.output()) == (False, 7, "ready\nbye\n")
    keeper.stop()


def test_a_command_that_does_not_care_is_killed_after_the_grace(keep):
    keeper = keep("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done", grace=0.3)
    says(keeper, "ready")
    start = time.monotonic()
    keeper.stop()
    assert time.monotonic() - start >= 0.3 and keeper.status() == -signal.SIGKILL


def test_a_command_that_ends_by_itself_tells_how(keep):
    keeper = keep("sh", "-c", "echo cannot open x >&2; exit 3")
    assert wire.eventually(lambda: not keeper.alive())
    assert (keeper.status(), keeper.output()) == (3, "cannot open x\n")
    crashed = keep("sh", "-c", "kill -SEGV $$")
    assert wire.eventually(lambda: crashed.status() is not None)
    assert crashed.status() == -signal.SIGSEGV and not crashed.alive()


@pytest.mark.parametrize("main", ["stays", "leaves"])
def test_daemons_do_not_escape(keep, main):
    keeper = keep(*python(DAEMON + ("time.sleep(1000)" if main == "stays" else "")), grace=0.5)
    says(keeper, "daemon")
    if main == "leaves":
        assert wire.eventually(lambda: keeper.status() == 0)
    assert keeper.alive() and len(tree(keeper.tree)) == (2 if main == "stays" else 1)


def test_what_a_crash_leaves_behind_is_no_server_and_is_ended(keep):
    keeper = keep("sh", "-c", "sleep 1000 & sleep 1000 & kill -KILL $$", grace=0.3)
    assert wire.eventually(lambda: keeper.status() == -signal.SIGKILL)
    assert not keeper.alive() and len(tree(keeper.tree)) == 2


FORKERS = {
    "many": "for i in range(200):\n    if not os.fork():\n        break\n",
    "replaced": """
        for i in range(10):
            if not os.fork():
                break
        else:
            print("ready", flush=True)
            while os.wait():
                if not os.fork():
                    break
        """,
    "fleeing": """
        print("ready", flush=True)
        while True:
            if os.fork():
                os._exit(0)
        """,
}


@pytest.mark.parametrize("kind", FORKERS)
def test_forks_do_not_escape(keep, kind):
    begin = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    end = "\nprint('ready', flush=True)\ntime.sleep(1000)\n"
    keeper = keep(*python(begin + textwrap.dedent(FORKERS[kind]) + end), grace=0.1)
    says(keeper, "ready")
    keeper.stop()
    assert not tree(keeper.tree)


HOLDER = """
import os, sys, time
from pathlib import Path
from pyx.keeper import Keeper
keeper = Keeper([sys.executable, "-c", sys.argv[2] + "time.sleep(1000)"], grace=0.5, executable=Path(sys.argv[1]))
while "daemon" not in keeper.output():
    time.sleep(0.01)
if sys.argv[3] == "forked" and not os.fork():
    time.sleep(1000)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["killed", "group killed", "forked"])
def test_nothing_outlives_its_holder(executable, mark, how):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, executable, DAEMON, how],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    copies = []
    try:
        assert holder.stdout.readline() == "ready\n"
        copies = [pid for pid in tree(-holder.pid) if os.getpgid(pid) == holder.pid]
        assert len(marked(mark)) >= 4 and len(copies) == (1 if how == "forked" else 0)
        (os.killpg if how == "group killed" else os.kill)(holder.pid, signal.SIGKILL)
        assert wire.eventually(lambda: set(marked(mark)) == set(copies), 10), marked(mark)
    finally:
        for pid in [*copies, holder.pid]:
            os.kill(pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()


def test_a_killed_keeper_takes_the_main_process_along(keep):
    keeper = keep("sleep", "1000")
    os.kill(-keeper.tree, signal.SIGKILL)
    assert wire.eventually(lambda: not keeper.alive() and not tree(keeper.pid))


def test_a_chatty_command_is_never_held_up_and_its_end_is_kept(keep):
    keeper = keep(*python("for i in range(300_000): print(i)"))
    assert wire.eventually(lambda: keeper.status() is not None, 60)
    expected = "".join(f"{i}\n" for i in range(290_000, 300_000))[-RING:]
    assert keeper.status() == 0 and keeper.output() == expected


def test_a_command_gets_a_clean_start(keep, tmp_path):
    source = """
        import os
        print(sorted(os.listdir("/proc/self/fd"))[:-1], os.readlink("/proc/self/fd/0"), os.getpgid(0) == os.getpid())
        print(os.environ["COLOUR"], os.getcwd())
        print([line.split()[1] for line in open("/proc/self/status") if line.startswith("SigBlk")])
        """
    with open("/dev/zero") as inherited:
        os.set_inheritable(inherited.fileno(), True)
        keeper = keep(*python(source), env={**os.environ, "COLOUR": "green"}, cwd=tmp_path)
        assert wire.eventually(lambda: keeper.status() == 0), keeper.output()
    first, second, third = keeper.output().splitlines()
    assert first == "['0', '1', '2'] /dev/null True"
    assert second == f"green {tmp_path}" and third == f"['{0:016x}']"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-program"], "no-such-program: not found on PATH"),
        (["./no-such-program", "-w"], "./no-such-program: No such file"),
        (["/etc/passwd"], "/etc/passwd: Permission denied"),
        ([""], "the command is empty; give a program and its arguments"),
        ([], "the command is empty; give a program and its arguments"),
    ],
)
def test_what_cannot_be_run_is_one_line(keep, words, message):
    with pytest.raises(KeeperError) as caught:
        keep(*words)
    assert str(caught.value) == message and caught.value.usage


def test_a_missing_interpreter_and_a_missing_folder_are_named(keep, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(KeeperError, match=r"script: the interpreter that its first line names is not there$"):
        keep(str(script))
    with pytest.raises(KeeperError, match=r"^/no/folder: cannot run a command in this folder: No such file"):
        keep("true", cwd="/no/folder")


@pytest.mark.parametrize(
    "words", [[], ["3"], ["3", "4", "5"], ["x", "4", "5", "true"], ["3", "4", "-1", "true"]]
)
def test_wrong_arguments_are_one_line_and_status_2(executable, words):
    ended = subprocess.run([executable, *words], capture_output=True, text=True, timeout=20, check=False)
    usage = "kneepoint-keeper: usage: kneepoint-keeper ALIVE PAGE GRACE COMMAND [WORD ...]\n"
    assert (ended.returncode, ended.stderr) == (2, usage)
