"""The command line: what it prints where, its exit codes, and one clear line for everything that is wrong."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import fakes
import known_costs
import pytest

from harness import provenance, registries, sweeping
from harness.cli import main, names
from harness.progress import Bar, Lines, Reporting, Silent

ROOT = Path(__file__).parent.parent
HEAVY = ("numpy", "scipy", "plotly", "pandas", "simpy", "rich", "sqlite3")


def run(*words, **settings):
    return subprocess.run(
        [sys.executable, "-m", "harness", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        **settings,
    )


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return fakes.install(monkeypatch)


QUEUES = ["--service", "synthetic", "--server", "queues"]
SMALL = [*QUEUES, "--reps", "2", "--time", "0.1"]


@pytest.mark.parametrize("command", ["", *names()])
def test_help_shows_an_example_and_exits_with_0(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    shown = capsys.readouterr()
    assert "Example" in shown.out and "python -m harness" in shown.out and shown.err == ""


def test_help_loads_nothing_heavy():
    code = f"""
import sys
from harness.cli import main, names
assert not any(main([*name.split(), "--help"]) for name in ["", *names()])
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert shown.stderr == "[]\n", shown.stderr


def test_sweep_prints_tables_to_stdout_and_progress_to_stderr(fake, capsys):
    assert main(["sweep", "--var", "workers", *SMALL, "--out", "a"]) == 0
    shown = capsys.readouterr()
    for word in (
        "measured/s",
        "predicted/s",
        "error",
        "peak:",
        "Noise floor (A/A)",
        "page:  a.html",
        "store: a.sqlite",
    ):
        assert word in shown.out
    assert shown.err.count("measuring:") == 2 * 8 and "block 2/2" in shown.err and "workers=6" in shown.err
    assert Path("a.sqlite").exists() and "<html" in Path("a.html").read_text()[:200]


def test_sweep_json_is_one_document_and_nothing_else(fake, capsys):
    assert main(["sweep", "--var", "workers", *SMALL, "--out", "a", "--json", "--no-report"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == 1 and len(found["cells"]) == 6
    command = "python -m harness sweep --var workers --service synthetic --server queues --reps 2 --time 0.1"
    assert found["sweep"]["provenance"]["command"] == f"{command} --out a --json --no-report"
    assert not Path("a.html").exists()


def test_the_newest_store_is_resumed_without_a_name(fake, capsys):
    fake.fail = lambda scenario, block: "died" if scenario.get("workers") == 3 else None
    assert main(["sweep", "--var", "workers", *SMALL]) == 1
    shown = capsys.readouterr()
    assert [line for line in shown.err.splitlines() if line.startswith("error: ")] == [
        "error: workers=3: died (2 times)"
    ]
    fake.fail = lambda scenario, block: None
    fake.asked.clear()
    assert main(["sweep", "--resume"]) == 0
    assert len(fake.asked) == 2 and len(list(Path("results").glob("*.sqlite"))) == 1


def test_score_sets_predictions_beside_measurements_and_the_naive_bound(fake, capsys):
    assert main(["sweep", "--var", "workers", "--values", "1,2", *SMALL, "--out", "a", "--no-report"]) == 0
    assert main(["sweep", "--var", "workers", *SMALL, "--out", "b", "--no-report", "--no-predict"]) == 0
    capsys.readouterr()
    assert main(["score", "a.sqlite", "b.sqlite"]) == 0
    shown = capsys.readouterr().out
    assert "workers=2" in shown and "naive/s" in shown and "nan" not in shown
    assert main(["score", "a.sqlite", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ratios = [cell["predicted"] / cell["measured"]["value"] for cell in found["cells"]]
    assert ratios == pytest.approx([1.05, 1.05], rel=0.1) and all(cell["naive"] for cell in found["cells"])


def test_report_makes_the_page_anew(fake, capsys):
    assert main(["sweep", "--var", "workers", *SMALL, "--out", "a", "--no-report"]) == 0
    before = capsys.readouterr().out.split("store:")[0]
    assert main(["report", "a.sqlite"]) == 0
    assert capsys.readouterr().out.split("page:")[0].strip() == before.strip()
    assert Path("a.html").exists()


def test_dry_run_says_what_and_how_long_and_writes_nothing(fake, capsys):
    assert main(["sweep", "--var", "workers", *SMALL, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "6 cells in 2 blocks" in out and "16 measurements of 0.1 s" in out and "about 25 s at most" in out
    assert main(["sweep", "--var", "workers", *SMALL, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["visits"] == 16
    assert fake.asked == [] and list(Path().iterdir()) == []


def test_measure_and_predict_print_one_cell_each(fake, monkeypatch, capsys):
    from harness import calibrate
    from models import des

    engine = {"name": "simpy", "jobs_per_second": 1e5}
    monkeypatch.setattr(
        des, "prepared", lambda s, costs: lambda costs, **told: (fakes.predicted(s, costs), engine)
    )
    monkeypatch.setattr(
        calibrate, "costs_for", lambda scenarios, progress=None: known_costs.costs(scenarios[0])
    )
    words = [
        "--service",
        "synthetic",
        "--server",
        "queues",
        "--set",
        "workers=3",
        "--set",
        "seed=5",
        "--json",
    ]
    assert main(["measure", *words, "--reps", "2", "--time", "0.1"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert main(["predict", *words, "--reps", "2", "--time", "0.1"]) == 0
    predicted = json.loads(capsys.readouterr().out)
    assert measured["scenario"] == predicted["scenario"]
    assert measured["scenario"]["options"]["workers"] == 3 and measured["scenario"]["seed"] == 5
    assert measured["predicted"] is None and len(measured["replicates"]) == 2
    assert predicted["measured"] is None and predicted["engine"] == engine and predicted["replicates"] == []
    assert measured["measured"].keys() == predicted["predicted"].keys()
    assert main(["measure", *words[:-1]]) == 0 and "response p99" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("swep", "swep: no such command; did you mean sweep?"),
        ("sweep", "give --var NAME"),
        ("sweep --vra workers", "--vra"),
        ("sweep --var wrkers --service prime", "wrkers: no such knob; did you mean workers?"),
        ("sweep --var workers --values 0:4", "workers=0: outside 1:256 threads"),
        ("sweep --var workers --values 4,x", "workers=x: not a whole number"),
        ("sweep --var workers --service prme", "prme: no such service; did you mean prime?"),
        ("sweep --var workers --set steal", "--set steal: write it as name=value"),
        ("sweep --var workers --reps many", "'many' is not a valid integer"),
        ("sweep --resume --out none.sqlite", "none.sqlite: nothing to resume there"),
        ("sweep --resume", "results: no store to resume"),
        ("sweep --var workers --out /proc/none/x.sqlite", "/proc/none/x.sqlite: cannot be written"),
        ("measure --server sbuff", "sbuff: no such server; did you mean sbuf?"),
        ("measure --service synthetic --server select --set workers=2", "no such knob (it belongs to"),
        ("measure --set workers=2 --set workers=3", "given twice"),
        ("measure --set demand_dist=gauss --service synthetic", "not one of constant|exponential"),
        ("measure --reps 0", "--reps 0: outside 1:1000"),
        ("measure --seed -1", "seed=-1: outside"),
        ("serve synthetic --server selekt", "selekt: no such server; did you mean select?"),
        ("serve nothing", "nothing: no such service"),
        ("serve synthetic --set clients=2", "clients: synthetic on queues has no such knob"),
        ("serve synthetic --set demand=11", "demand=11: outside 0:10 s"),
        ("serve synthetic --port 70000", "70000"),
        ("list serverz", "serverz: no such registry; did you mean servers?"),
        ("run nothing", "nothing: no such experiment"),
        ("report none.sqlite", "none.sqlite: no such file"),
    ],
)
def test_bad_usage_is_one_line_and_2(words, says, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.strip().split("\n")
    assert says in line and line.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_every_error_of_a_request_is_said_at_once(capsys):
    assert main(["measure", *QUEUES, "--set", "workers=0", "--set", "steal=x", "--set", "nope=1"]) == 2
    lines = capsys.readouterr().err.strip().split("\n")
    assert len(lines) == 3 and all(line.startswith("error: ") for line in lines)


def test_too_many_clients_for_the_descriptors_are_refused_with_the_limit():
    shown = run(
        *["measure", *QUEUES, "--set", "clients=500", "--reps", "1", "--time", "0.05"],
        preexec_fn=lambda: __import__("resource").setrlimit(7, (256, 256)),
    )
    assert shown.returncode == 2 and shown.stdout == ""
    assert (
        shown.stderr.strip().split("\n")[-1].startswith("error: clients=500: needs ")
        and "256" in shown.stderr
    )


def test_work_that_fails_is_1_and_never_a_traceback(fake, capsys):
    fake.fail = lambda scenario, block: "server select died with status -9"
    assert main(["measure", *SMALL]) == 1
    assert capsys.readouterr().err.strip().split("\n")[-1] == "error: server select died with status -9"

    def bug(scenario, block):
        raise ZeroDivisionError("division by zero")

    fake.before = bug
    assert main(["measure", *SMALL]) == 1
    (line,) = capsys.readouterr().err.strip().split("\n")
    assert "ZeroDivisionError" in line and "KNEEPOINT_DEBUG=1" in line


def test_debugging_shows_where(fake, monkeypatch):
    def bug(scenario, block):
        raise ZeroDivisionError

    fake.before = bug
    monkeypatch.setenv("KNEEPOINT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["measure", *SMALL])


def test_an_interrupt_is_130(fake, capsys):
    def interrupt(scenario, block):
        raise KeyboardInterrupt

    fake.before = interrupt
    assert main(["measure", *SMALL]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_a_reader_that_goes_away_is_no_traceback():
    shown = subprocess.run(
        f"{sys.executable} -m harness list --json | head -c 10",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert shown.stderr == "" and len(shown.stdout) == 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_where_and_stops_cleanly(number):
    words = ["serve", "synthetic", "--server", "select", "--port", "0", "--set", "demand=0.001"]
    server = subprocess.Popen(
        [sys.executable, "-m", "harness", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        line = server.stdout.readline()
        assert line.startswith("listening on 127.0.0.1:")
        socket.create_connection(("127.0.0.1", int(line.rsplit(":", 1)[1])), timeout=5).close()
        server.send_signal(number)
        assert server.wait(10) == 0
    finally:
        server.kill()
        server.communicate()


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shown = run("serve", "synthetic", "--server", "select", "--port", str(port))
    assert shown.returncode == 1 and shown.stdout == ""
    (line,) = shown.stderr.strip().split("\n")
    assert str(port) in line and "in use" in line


def test_list_has_every_registry_and_every_field(capsys):
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert tuple(found) == registries.KINDS
    kinds = {"servers", "services", "loads", "models", "laws", "experiments", "probes", "importers"}
    assert set(found) == kinds
    for kind in ("servers", "services", "loads", "models", "probes"):
        assert found[kind], kind
    for entries in found.values():
        for entry in entries:
            assert entry["name"] and entry["summary"]
            for knob in entry["knobs"]:
                assert {"name", "type", "default", "allowed", "unit", "of"} <= knob.keys()
                assert isinstance(knob["default"], {"int": int, "real": float}.get(knob["type"], str))
    assert main(["list"]) == 0 and "queue_slots" in capsys.readouterr().out


EXPERIMENT = '''"""Where does it stop?"""

SYSTEM = {"service": "synthetic", "server": "queues"}
SWEEPS = {"one": {"variables": "workers", "values": "1,2,4", "reps": 3, **SYSTEM}}


def answer(results):
    return f"At {results['one']['series'][0]['peak']['value']} workers."
'''


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    import experiments

    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "toy_question.py").write_text(EXPERIMENT)
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(folder)])
    yield "toy_question"
    sys.modules.pop("experiments.toy_question", None)


def test_run_answers_an_experiments_question(fake, experiment, capsys):
    assert main(["run", experiment, "--out", "x"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Where does it stop?") and out.strip().endswith("At 4 workers.")
    assert Path("x/one.sqlite").exists() and Path("x/one.html").exists()
    fake.asked.clear()
    assert main(["run", experiment, "--out", "x", "--resume", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (
        fake.asked == []
        and found["answer"] == "At 4 workers."
        and found["results"]["one"]["schema_version"] == 1
    )


def test_run_quickly_is_short(fake, experiment, capsys):
    assert main(["run", experiment, "--out", "x", "--quick"]) == 0
    assert len(fake.asked) == 2 * (3 + 2)


def test_provenance_has_no_names_and_null_for_what_is_absent(monkeypatch):
    monkeypatch.setattr(provenance, "_CPU", Path("/nowhere"))
    monkeypatch.setattr(provenance, "ROOT", Path("/nowhere"))
    found = provenance.collect(["sweep", "--out", "a b"])
    assert found["command"] == "python -m harness sweep --out 'a b'"
    assert found["governor"] is None and found["git"] is None and found["smt"] is None
    assert found["cpus"] == len(os.sched_getaffinity(0)) and found["kernel"].startswith("Linux")
    assert "-O2" in found["build"]["flags"] and 0 < found["clock_cost_at_most"] < 1e-4
    assert provenance.collect()["command"] is None


def test_progress_is_lines_or_a_bar_and_ends_after_an_error(capsys):
    for form in (Lines(), Bar(), Silent()):
        form.begin("measuring", 2.0)
        form.step("first", 1.0)
        form.note("a note")
        form.begin("next", 1.0)
        form.step("second")
        form.end()
        form.end()
    lines = capsys.readouterr().err
    assert "measuring:  50% first" in lines and "next: 100% second" in lines
    with pytest.raises(ZeroDivisionError), Reporting() as progress:
        assert isinstance(progress, Lines)  # no terminal here
        raise ZeroDivisionError


def test_a_page_that_cannot_be_written_takes_nothing_else_with_it(fake, capsys):
    Path("a.html").mkdir()
    assert main(["sweep", "--var", "workers", *SMALL, "--out", "a"]) == 1
    shown = capsys.readouterr()
    assert "measured/s" in shown.out and "page:" not in shown.out
    assert shown.err.strip().split("\n")[-1].startswith("error: a.html: the page cannot be written")
    assert main(["sweep", "--var", "workers", *SMALL, "--out", "b.html"]) == 2


def test_a_stage_told_by_shares_has_its_title_even_when_it_does_not_begin_at_nought(capsys):
    report = sweeping.shares(Lines(), "calibrating")
    report("ladder", 0.001)
    report("ladder", 0.5)
    first, second = capsys.readouterr().err.splitlines()
    assert "calibrating:   0% ladder" in first and "calibrating:  50% ladder" in second
