"""Servers that are not ours: what a scenario takes, how they are reached and started, and what is said of them."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import wire

from harness import calibrate, measuring, subjects, sweeping, table
from harness.cli import main
from harness.errors import HarnessError, MeasureError
from harness.outside import outsiders, reaching
from harness.request import Request
from harness.subjects import _processes
from models import outside
from models.scenario import Scenario, ScenarioError
from pyx.server import EXECUTABLE, Server

OURS = f"{EXECUTABLE} stock sbuf --port {{port}} workers={{workers}}"  # a server of ours as if it were somebody's
HERE = "127.0.0.1:{port}"


def stock(command=OURS, target=HERE, **options):
    pool = {"workers": 2} if "{workers}" in command else {}
    options = {"command": command, "target": target, "clients": 4, **pool, **options}
    return Scenario.of("stock", "command", options=options)


@pytest.fixture
def script(tmp_path):
    """Makes a command that runs Python text."""

    def made(text):
        path = tmp_path / "server.py"
        path.write_text(text)
        return f"{sys.executable} {path}"

    return made


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("http://127.0.0.1:8000/", ("127.0.0.1", "8000", "/")),
        ("http://localhost", ("localhost", "80", "/")),
        ("HTTP://a-b.example:81/x?y=1#z", ("a-b.example", "81", "/x?y=1")),
        ("http://127.0.0.1:{port}/{size}", ("127.0.0.1", "{port}", "/{size}")),
        ("127.0.0.1:6379", ("127.0.0.1", "6379", None)),
        ("localhost:{port}", ("localhost", "{port}", None)),
    ],
)
def test_a_target_is_read(target, place):
    found = outside.place(target)
    assert (found.host, found.port, found.path) == place


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("https://127.0.0.1/", "https is not spoken"),
        ("ftp://127.0.0.1/", "ftp is not spoken"),
        ("127.0.0.1", "HOST:PORT"),
        ("127.0.0.1/x:80", "HOST:PORT"),
        ("http://127.0.0.1:0/", "port 0"),
        ("127.0.0.1:65536", "port 65536"),
        ("127.0.0.1:{workers}", "port {workers}"),
        ("http://127.0.0.1:x/", "port x"),
        ("http://[::1]:80/", "IPv6"),
        ("::1:80", "IPv6"),
        ("http://me:secret@127.0.0.1/", "not sent"),
        ("http://127.0.0.1/a b", "%XX"),
        ("http://127.0.0.1/é", "%XX"),
        ("http:///x", "not a host"),
    ],
)
def test_a_target_that_cannot_be_is_refused(target, word):
    with pytest.raises(ValueError, match="target=") as caught:
        outside.place(target)
    assert word in str(caught.value) and "\n" not in str(caught.value)


def test_placeholders_and_doubled_braces():
    assert outside.placeholders("a {x} {{y}} {z} {x}") == ("x", "z")
    assert outside.fill("a {x} {{y}}", {"x": 3}) == "a 3 {y}"
    for text in ("{a b}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:>3}", "{", "}", "{}"):
        with pytest.raises(ValueError, match="brace"):
            outside.placeholders(text)


def test_every_placeholder_is_a_knob_of_any_type():
    scenario = Scenario.of(
        "stock",
        "command",
        options={"command": "x {a} {b} {c} {d} {clients} {port} {seed}", "target": HERE}
        | {"a": "3", "b": "0.5", "c": "007", "d": "fast"},
    )
    assert [scenario[name] for name in "abcd"] == [3, 0.5, "007", "fast"]
    assert scenario.outside and not Scenario.of().outside
    assert scenario == Scenario.from_json(json.loads(json.dumps(scenario.to_json())))
    assert scenario.key != scenario.with_options(a=4).key
    assert {"a", "target", "command"}.isdisjoint(scenario.native_options("service", "server", "load"))
    assert scenario.native_options("server") == {"connection": "keep", "closer": "client"}


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, ["target: where"]),
        ({"target": HERE}, ["command: what starts"]),
        ({"target": HERE, "command": "x {port}", "port": 80}, ["port: {port} is a free port"]),
        ({"target": HERE, "command": "x {port} {a} {b}", "b": 1}, ["a: {a} has no value"]),
        ({"target": HERE, "command": "x"}, ["{port}: does not stand in the command"]),
        ({"target": "127.0.0.1:80", "command": "x {port}"}, ["{port}: does not stand in the target"]),
        ({"target": "127.0.0.1:80", "command": "x {a", "a": 1}, ["x {a: "]),
        ({"target": "127.0.0.1:80", "command": "x", "a": 1}, ["a: neither a knob of stock or closed, nor"]),
        ({"target": "http://127.0.0.1:80/", "command": "x"}, ["a URL is for http, not for stock"]),
    ],
)
def test_a_command_that_cannot_be_is_one_clear_line_each(options, lines):
    with pytest.raises(ScenarioError) as caught:
        Scenario.of("stock", "command", options=options)
    found = str(caught.value).splitlines()
    assert len(found) == len(lines) and all(word in line for word, line in zip(lines, found, strict=True)), (
        found
    )


def test_a_port_to_be_chosen_is_for_servers_that_are_started():
    with pytest.raises(ScenarioError, match="for servers that --command starts"):
        Scenario.of("stock", "target", options={"target": HERE})


def test_a_url_says_path_and_host():
    scenario = Scenario.of("http", "target", options={"target": "http://localhost:8000/a?b=1"})
    assert (scenario["path"], scenario["host"]) == ("/a?b=1", "localhost:8000")
    moved = scenario.with_options(target="http://127.0.0.1/c")
    assert (moved["path"], moved["host"]) == ("/c", "127.0.0.1")
    assert Scenario.from_json(scenario.to_json()) == scenario
    with pytest.raises(ScenarioError, match="path=/z: the target says /a"):
        Scenario.of("http", "target", options={"target": "http://localhost:8000/a", "path": "/z"})


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"target": "127.0.0.1:1"}, "give --protocol, one of"),
        ({"command": "x"}, "--target: where"),
        ({"protocol": "stock"}, "give --target too"),
        ({"target": "127.0.0.1:1", "server": "select", "protocol": "stock"}, "a server of ours"),
        ({"target": "127.0.0.1:1", "service": "stock", "protocol": "prime"}, "give one"),
        ({"target": "http://192.0.2.1/"}, "--allow-remote"),
        ({"target": "http://0.0.0.0/"}, "--allow-remote"),
    ],
)
def test_what_contradicts_itself_is_bad_usage(asked, word):
    with pytest.raises(HarnessError, match=word) as caught:
        outsiders.settled(Request(**asked))
    assert caught.value.usage and "\n" not in str(caught.value)


def test_what_was_said_becomes_service_server_and_options():
    asked = Request(target="http://127.0.0.1:{port}/", command="x {port}", options=(("clients", "3"),))
    found = outsiders.settled(asked)
    assert (found.service, found.server) == ("http", "command")
    assert dict(found.options) == {"target": asked.target, "command": asked.command, "clients": "3"}
    assert outsiders.settled(found) == found
    assert outsiders.settled(Request(variables=("workers",))) == Request(variables=("workers",))


def test_a_name_that_leads_off_loopback_is_refused_unless_allowed(monkeypatch, capsys):
    row = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *words: [row])
    reaching.address.cache_clear()
    try:
        assert main(["measure", "--target", "http://inside.example/"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "inside.example (192.0.2.7)" in line and "--allow-remote" in line
        options = {"target": "http://inside.example/"}
        with (
            pytest.raises(MeasureError, match="loopback"),
            subjects.open(Scenario.of("http", "target", options=options)),
        ):
            pass  # as when the store of a sweep is resumed
        allowed = Scenario.of("http", "target", options={**options, "remote": "allow"})
        assert reaching.host_of(allowed) == "192.0.2.7"
    finally:
        reaching.address.cache_clear()


def test_a_command_is_measured_and_leaves_no_process():
    with subjects.open(stock()) as subject:
        assert subject.alive() and subject.tree and subject.page is None
        assert reaching.connects(subject.host, subject.port)
        pid = subject.pid
    assert not wire.process_exists(pid) and reaching.is_free(subject.host, subject.port)
    cell = measuring.measure(stock(), reps=1, window=0.2, warmup=0.05)
    found = cell.measured
    assert found.throughput.value > 0 and not any(cell.replicates[0].record["errors"].values())
    assert found.utilisation["server_cpu"] > 0 and found.counters["server_threads"] >= 3
    # What only counters inside the server tell is absent, not 0.
    assert "worker" not in found.utilisation
    assert {"busy", "lock_wait", "steals", "queue_peak"}.isdisjoint(found.counters)


def test_the_words_of_a_command_are_split_before_they_are_filled():
    from harness.subjects import command

    scenario = Scenario.of(
        "stock",
        "command",
        options={"command": "run '{name} x' {name} {port}", "target": HERE, "name": "a; b 'c"},
    )
    assert command.words_of(scenario, 7) == ["run", "a; b 'c x", "a; b 'c", "7"]


def test_a_taken_port_is_not_measured():
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        scenario = stock(f"{EXECUTABLE} stock sbuf --port {port} workers={{workers}}", f"127.0.0.1:{port}")
        with pytest.raises(MeasureError, match=f"port {port} of 127.0.0.1 is taken"), subjects.open(scenario):
            pass


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise KeyError('lost')", ["ended with status 1 before it answered", "KeyError: 'lost'"]),
        ("import os; os.kill(os.getpid(), 9)", ["was killed by signal 9"]),
        ("pass", ["server.py ended with status 0 before"]),
        (
            "print('[ERROR] no memory'); print('one', 'two', 'three', sep='\\n'); raise SystemExit(4)",
            ["status 4 before it answered: [ERROR] no memory | two | three"],
        ),
        ("import time; time.sleep(60)", ["did not answer at 127.0.0.1:", "within 0.5 s", "--ready-timeout"]),
        (
            "import os, socket, sys, time\n"
            "s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
            "if os.fork(): os._exit(0)\n"
            "os.setsid()\ntime.sleep(60)",
            ["goes into the background", "foreground"],
        ),
    ],
)
def test_a_command_that_does_not_serve_is_said(script, text, words):
    scenario = stock(f"{script(text)} {{port}}", ready_timeout=0.5 if "within 0.5 s" in words else 40)
    began = time.monotonic()
    with pytest.raises(MeasureError) as caught, subjects.open(scenario):
        pass
    assert all(word in str(caught.value) for word in words), caught.value
    assert "\n" not in str(caught.value) and time.monotonic() - began < 30


def test_a_program_that_is_not_there_is_bad_usage():
    with (
        pytest.raises(MeasureError, match="no-such-program") as caught,
        subjects.open(stock("no-such-program {port}")),
    ):
        pass
    assert caught.value.usage


def test_a_server_that_dies_while_it_is_measured_is_named(script):
    text = (
        "import os, sys, time\n"
        "pid = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])\n"
        "def sockets():\n"
        "    links = (f'/proc/{pid}/fd/{name}' for name in os.listdir(f'/proc/{pid}/fd'))\n"
        "    try: return sum(os.readlink(link).startswith('socket') for link in links)\n"
        "    except OSError: return 0\n"  # one was closed meanwhile
        "while sockets() < 5: time.sleep(0.01)\n"  # it listens, and has four clients
        "time.sleep(0.1)\n"
        "os.kill(pid, 9)\n"
        "raise SystemExit(3)\n"
    )
    scenario = stock(f"{script(text)} {EXECUTABLE} stock select --port {{port}}")
    with pytest.raises(MeasureError, match="ended with status 3 while it was measured"):
        measuring.measure_once(scenario, window=1.0, warmup=0.1)


def test_a_running_server_is_found_and_left_alone():
    with Server("stock", "select") as server:
        scenario = Scenario.of(
            "stock", "target", options={"target": f"127.0.0.1:{server.port}", "clients": 3}
        )
        with subjects.open(scenario) as subject:
            assert (subject.pid, subject.port) == (server.pid, server.port) and subject.alive()
        cell = measuring.measure(scenario, reps=1, window=0.1, warmup=0.02)
        assert cell.measured.utilisation["server_cpu"] > 0
        assert server.alive()
    with (
        pytest.raises(MeasureError, match="start the server first"),
        subjects.open(scenario.with_options(ready_timeout=0.1)),
    ):
        pass


def test_a_tree_that_holds_whoever_measures_is_nobody():
    with closing(socket.create_server(("127.0.0.1", 0))) as mine:
        assert _processes.root_of("127.0.0.1", mine.getsockname()[1]) == 0
    assert os.getppid() in _processes.ancestors(os.getpid())
    assert _processes.root_of("127.0.0.1", reaching.free_port("127.0.0.1")) == 0


def test_a_server_that_cannot_be_found_among_the_processes_has_no_figures_of_its_own(monkeypatch):
    monkeypatch.setattr(_processes, "root_of", lambda host, port: 0)
    with Server("stock", "select") as server:
        scenario = Scenario.of("stock", "target", options={"target": f"127.0.0.1:{server.port}"})
        cell = measuring.measure(scenario, reps=1, window=0.1, warmup=0.02)
    assert cell.measured.throughput.value > 0
    assert math.isnan(cell.measured.utilisation["cpu"]) and math.isnan(cell.measured.counters["server_cpu"])
    assert cell.measured.utilisation["load_cpu"] > 0


def test_free_ports_lie_where_no_connection_can_meet_itself():
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(reaching.free_port("127.0.0.1") < low for _ in range(20))


def test_a_sweep_over_a_command(monkeypatch, tmp_path):
    """Refused predictions without a calibration; fit, explanation and table; resumed with more values."""

    def never(*words, **settings):
        raise AssertionError("nothing can be predicted, so that nothing is to be calibrated")

    monkeypatch.setattr(calibrate, "costs_for", never)
    asked = {"command": OURS, "target": HERE, "protocol": "stock", "quick": True, "reps": 2, "window": 0.1}
    path = tmp_path / "s.sqlite"
    found = sweeping.sweep("workers", values="1,2", out=path, **asked)
    assert found["sweep"]["complete"] and [cell["value"] for cell in found["cells"]] == [1, 2]
    assert {cell["refusal"] for cell in found["cells"]} == {outside.NO_MODEL}
    explanation = found["series"][0]["explanation"]
    assert "locks, queues and workers cannot be seen from outside" in explanation["text"]
    assert any(
        item["name"].startswith("unseen") and item["value"] is None for item in explanation["evidence"]
    )
    assert EXECUTABLE.name in table.text(found)
    more = sweeping.sweep("workers", values="1,2,3", out=path, resume=True, **asked)
    kept = [row["id"] for cell in found["cells"] for row in cell["replicates"]]
    now = [row["id"] for cell in more["cells"] for row in cell["replicates"]]
    assert set(kept) < set(now) and len(now) == 6 and more["sweep"]["complete"]


def test_a_command_that_fails_leaves_no_store(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--command", "false {port} {workers}", "--target", HERE, "--protocol", "stock"]
    assert main(["sweep", "--var", "workers", *words, "--out", "a"]) == 1
    assert "false ended with status 1 before it answered" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_cause_that_names_other_numbers_each_time_is_said_once(script, tmp_path, capsys):
    server = script(
        "import os, sys\n"
        "if sys.argv[1] == '2': sys.exit(f'process {os.getpid()} cannot have two')\n"
        f"os.execv({str(EXECUTABLE)!r}, ['server', 'stock', 'select', '--port', sys.argv[2]])\n"
    )
    words = ["--command", f"{server} {{workers}} {{port}}", "--target", HERE, "--protocol", "stock"]
    words += ["--quick", "--reps", "2", "--time", "0.1", "--no-report", "--out", str(tmp_path / "s.sqlite")]
    assert main(["sweep", "--var", "workers", "--values", "2,3,4", *words]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and said[0].endswith("cannot have two (2 times)")


def test_a_dry_run_starts_nothing_and_counts_the_longest_windows(capsys):
    command = ["--command", "no-such-program {port} {workers}", "--target", HERE, "--protocol", "stock"]
    words = ["sweep", "--var", "workers", "--values", "1,2", "--dry-run", *command]
    assert main(words) == 0
    assert "measurements of 1 to 10 s" in capsys.readouterr().out
    assert main([*words, "--time", "1"]) == 0
    assert "measurements of 1 s" in capsys.readouterr().out


def test_a_grid_over_two_placeholders(capsys):
    command = f"{EXECUTABLE} stock sbuf --port {{port}} workers={{workers}} queue_slots={{slots}}"
    words = ["--command", command, "--target", HERE, "--protocol", "stock", "--dry-run", "--json"]
    assert (
        main(["sweep", "--var", "workers", "--var", "slots", "--values", "1,2", "--values", "1:4:x2", *words])
        == 0
    )
    cells = [cell["options"] for cell in json.loads(capsys.readouterr().out)["cells"]]
    assert sorted((cell["slots"], cell["workers"]) for cell in cells) == [
        (s, w) for s in (1, 2, 4) for w in (1, 2)
    ]
    assert main(["sweep", "--var", "slots", *words, "--set", "workers=1"]) == 2
    assert "no standard values" in capsys.readouterr().err
