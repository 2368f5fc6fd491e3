"""Results of other tools: what is read of real ones, what is held against them, and what is said of wrong files."""

import json
from pathlib import Path

import pytest

from harness import importers, measuring
from harness.cli import main
from harness.importers import FormatError, Hints
from harness.judging import summaries
from harness.judging.marks import TABLE
from harness.store import open_store

DATA = Path(__file__).parent / "data" / "importers"
NOTHING = Hints()


def rows(name, **hints):
    return importers.read(DATA / name, Hints(**hints))[1]


def summary(throughput=1000.0, response=0.01, clients=10, **more):
    """A run that fits Little's law exactly."""
    return {"throughput": throughput, "response": response, "clients": clients, **more}


def marks_of(**changes):
    return {mark.check for mark in summaries.check(summary(**changes))}


def plain(tmp_path, text, name="figures.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "tool", "count"),
    [
        ("wrk_pool.txt", "wrk", 5),
        ("wrk_nginx.txt", "wrk", 5),
        ("locust_pool_stats_history.csv", "locust", 3),
        ("locust_nginx_stats.csv", "locust", 1),
        ("locust_nginx_stats_history.csv", "locust", 1),
        ("prime_findings.csv", "findings", 2),
        ("stock_clients.csv", "plain", 12),
    ],
)
def test_each_file_is_known_by_its_importer_alone(name, tool, count):
    text = (DATA / name).read_text()
    known = [key for key, module in importers.importers().items() if module.recognises(text)]
    assert known[0] == tool and set(known[1:]) <= {"plain"}
    assert importers.read(DATA / name, NOTHING)[0] == tool and len(rows(name)) == count


def test_wrk_is_read_to_the_last_figure():
    run = rows("wrk_pool.txt")[1]
    assert (run.variable, run.x, run.line) == ("clients", 2.0, 14)
    assert run.summary == {
        "clients": 2,
        "response": pytest.approx(20.64e-3),
        "max": pytest.approx(24.58e-3),
        "p50": pytest.approx(20.42e-3),
        "p90": pytest.approx(20.73e-3),
        "p99": pytest.approx(24.41e-3),
        "throughput": 96.65,
        "duration": 2.01,
        "errors": 0,
        "think": None,
        "resolution": 1e-5,
    }


def test_failures_that_wrk_counts_are_replies_that_failed(tmp_path):
    text = (DATA / "wrk_pool.txt").read_text().split("Running")[1]
    failed = (
        "  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 5\nRequests/sec:"
    )
    path = plain(tmp_path, "Running" + text.replace("Requests/sec:", failed), "wrk.txt")
    (row,) = importers.read(path, NOTHING)[1]
    assert row.summary["errors"] == 15 and {mark.check for mark in summaries.check(row.summary)} == {
        "replies"
    }


def test_stretches_of_users_are_told_apart_in_a_history():
    found = rows("locust_pool_stats_history.csv", think="0.1")
    assert [run.x for run in found] == [2.0, 8.0, 16.0]
    for run in found:
        # Four sleep 20 ms at a time, so nobody waits long: each user asks every 0.1 s + 20 to 35 ms.
        assert 0.020 <= run.summary["response"] <= 0.035
        assert run.summary["throughput"] == pytest.approx(run.x / (0.1 + run.summary["response"]), rel=0.05)
        assert not summaries.check(run.summary)


def test_a_locust_run_without_users_needs_their_number():
    (run,) = rows("locust_nginx_stats.csv")
    assert summaries.unknown(run.summary) == "no number of clients" and run.summary["p99"] == pytest.approx(
        0.034
    )
    (run,) = rows("locust_nginx_stats.csv", n="8")
    assert run.summary["throughput"] == pytest.approx(466.2, abs=0.1)
    assert {mark.check for mark in summaries.check(run.summary)} == {"unattributed"}


@pytest.mark.parametrize(
    ("heads", "fields", "expected"),
    [
        ("clients,throughput,response", "10,1000,0.01", {}),
        ("n;x;r", "10;1000;0.01", {}),
        ("Users\tRequests/s\tLatency (ms)", "10\t1000\t10", {}),
        ("concurrency,req_per_s,mean_ms", "10,1000,10", {}),
        ("connections,qps,avg_us", "10,1000,10000", {}),
        ("vus,rps,avgResponseTimeMs", "10,1000,10", {}),
        ("clients,throughput_per_ms,latency_ns", "10,1,10000000", {}),
        ("clients,x,r,z", "10,500,0.01,0.01", {"throughput": 500.0, "think": 0.01}),
        ("c,tps,rt_ms,think_ms", "10,500,10,10", {"throughput": 500.0, "think": 0.01}),
        (
            "clients,x,r,p50_ms,99%_ms,max_ms",
            "10,1000,0.01,9,30,40",
            {"p50": 0.009, "p99": 0.03, "max": 0.04},
        ),
    ],
)
def test_columns_are_known_by_their_names_and_units(tmp_path, heads, fields, expected):
    (run,) = importers.read(plain(tmp_path, f"# by somebody\n{heads}\n\n{fields}\n"), NOTHING)[1]
    found = {name: value for name, value in run.summary.items() if value is not None}
    assert found == pytest.approx(summary(**expected)) and run.line == 4
    assert not summaries.check(run.summary)


def test_columns_and_constants_are_named_by_options(tmp_path):
    path = plain(tmp_path, "load,done,took_ms\n10,500,10\n")
    (run,) = importers.read(path, Hints(n="load", x="done", r="took_ms", think="0.01"))[1]
    assert run.summary == pytest.approx(summary(throughput=500.0, think=0.01))
    (run,) = importers.read(plain(tmp_path, "x,r,p99\n1000,5,6\n"), Hints(n="10", r="none"))[1]
    assert run.summary == {"throughput": 1000.0, "clients": 10.0} and run.variable == "clients"
    with pytest.raises(FormatError, match="p9: no such column; did you mean p99"):
        importers.read(path, Hints(r="p9"))


def test_workers_are_no_clients_and_the_mean_of_repetitions_no_response(tmp_path):
    """64 clients ask 4 workers: X(R+Z) is 64, and no fault of anybody's."""
    (run,) = importers.read(plain(tmp_path, "workers,throughput,response\n4,1000,0.064\n"), NOTHING)[1]
    assert (run.variable, run.x, summaries.unknown(run.summary)) == ("workers", 4.0, "no number of clients")
    assert all(summaries.unknown(run.summary) == "no response time" for run in rows("stock_clients.csv"))
    text = "clients,workers,throughput\n8,1,10\n8,2,20\n"
    assert [run.series for run in importers.read(plain(tmp_path, text), NOTHING)[1]] == [
        "workers=1",
        "workers=2",
    ]


def test_the_published_findings_are_brought_to_requests():
    first, second = rows("prime_findings.csv")
    assert first.summary == pytest.approx(summary(throughput=7457e3 / 50, response=1.341))
    assert second.summary == pytest.approx(summary(throughput=25120e3 / 200, response=1.592, clients=13))
    assert (first.series, second.series) == ("default", "tuned")


CASES = [
    ({}, set()),
    ({"response": 0.0104}, set()),
    ({"response": 0.0107}, {"over_unity"}),
    ({"response": 0.0107, "duration": 0.1}, set()),  # under way at the end: a tenth of the whole
    ({"response": 0.0092}, set()),
    ({"response": 0.0088}, {"unattributed"}),
    ({"response": 0.0088, "think": 0.0012}, set()),
    ({"think": 0.001}, {"over_unity"}),
    ({"clients": 9}, {"over_unity"}),
    ({"errors": 3, "duration": 10.0}, {"replies"}),
    ({"p50": 0.01, "p90": 0.009}, {"order_statistics"}),
    ({"p50": 0.01, "p90": 0.0099}, set()),  # two digits
    ({"max": 0.009}, {"order_statistics"}),
    ({"min": 0.011}, {"order_statistics"}),
    ({"p50": 0.02, "p90": 0.03, "p99": 0.04}, {"order_statistics"}),  # mean at least 11.1 ms
    ({"p50": 0.001, "p90": 0.002, "p99": 0.003, "max": 0.1}, {"order_statistics"}),  # mean at most 2.57 ms
    ({"p50": 0.001, "p90": 0.002, "p99": 0.003, "max": 0.9}, set()),  # and 10.6 ms: above p99, but possible
]


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_each_mark_is_given_on_its_evidence_only(changes, expected):
    assert marks_of(**changes) == expected


def test_what_is_not_known_is_held_against_nothing():
    for name in ("throughput", "response", "clients"):
        assert marks_of(**{name: None, "errors": None}) == set()
    assert summaries.unknown({"clients": 3}) == "no throughput and no response time"


def test_the_published_findings_fail_the_audit_with_the_reason(capsys):
    assert main(["audit", str(DATA / "prime_findings.csv")]) == 1
    shown = capsys.readouterr().out
    assert "BROKEN over_unity" in shown and TABLE["over_unity"].says in " ".join(shown.split())
    assert "7457 numbers/ms at 50 numbers a request are 149,140 requests/s" in shown
    assert "200,000 requests under way, where 10 clients can have 10" in shown
    assert shown.splitlines()[-1].startswith("0 of 2 judged cells are sound")


@pytest.mark.parametrize(
    ("name", "status", "says"),
    [
        ("wrk_pool.txt", 0, "5 of 5 judged cells are sound, 100 %"),
        ("wrk_nginx.txt", 1, "over_unity"),
        ("locust_nginx_stats_history.csv", 1, "unattributed"),
        ("stock_clients.csv", 0, "none of 12 cells can be judged"),
    ],
)
def test_the_audit_of_other_tools_results(name, status, says, capsys):
    assert main(["audit", str(DATA / name)]) == status
    assert says in capsys.readouterr().out


def test_over_unity_and_time_unattributed_are_said_differently(tmp_path, capsys):
    path = plain(tmp_path, "n,x,r\n10,1000,0.02\n10,1000,0.005\n")
    assert main(["audit", str(path), "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)["cells"]
    assert first["broken"][0]["check"] == "over_unity" and "cannot be" in first["broken"][0]["says"]
    assert second["broken"][0]["check"] == "unattributed" and "think" in second["broken"][0]["todo"]


GOOD = "clients,throughput,response\n1,100,0.01\n"
WRONG = [
    (GOOD + "2,abc,0.01\n", "line 3: throughput=abc: not a number"),
    (GOOD + "2,-5,0.01\n", "line 3: throughput=-5: not a finite number"),
    (GOOD + "2,nan,0.01\n", "line 3: throughput=nan: not a finite number"),
    (GOOD + "2,inf,0.01\n", "line 3: throughput=inf: not a finite number"),
    (GOOD + "0,100,0.01\n", "line 3: clients is 0; give a number above 0"),
    (GOOD + "2,,0.01\n", "line 3: throughput is empty"),
    (GOOD + "2,100,0\n", "line 3: response is 0"),
    (GOOD + "2,100\n", "line 3: 2 fields where the heading has 3"),
    (GOOD + '2,"100,0.01\n', "line 3: unexpected end of data"),
    ("n;x;r\n1;100;0,01\n", "line 2: r=0,01: a decimal comma; write 0.01"),
    ('n,x,r\n1,"1,000",0.01\n', "line 2: x=1,000: a comma in a number; write 1000 if it parts thousands"),
    ("n,x,n\n1,2,3\n", "line 1: two columns are called 'n'"),
    ("clients,throughput\n", "holds no results, only headings"),
    ("", "is empty"),
    ("\n\n", "is empty"),
    ("# nothing\n", "neither a store nor a result of a known tool"),
    ("some prose about servers\n", "neither a store nor a result of a known tool"),
    ("variable,finding,value,unit\na,throughput,5,apples\n", "line 2: unit apples: not a throughput"),
    ("variable,finding,value,unit\na,throughput,x,requests/s\n", "line 2: throughput=x: not a number"),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
@pytest.mark.parametrize("command", ["audit", "import"])
def test_a_malformed_file_is_told_its_line_and_the_reason(tmp_path, command, text, says, capsys):
    path = plain(tmp_path, text)
    more = ["--out", str(tmp_path / "out.sqlite")] if command == "import" else []
    assert main([command, str(path), *more]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ") and says in shown.err and str(path) in shown.err
    assert shown.err.count("\n") == 1 and shown.out == ""
    assert [left.name for left in tmp_path.iterdir()] == [path.name]


def cut_off_wrk(tmp_path):
    return plain(tmp_path, (DATA / "wrk_pool.txt").read_text()[:-60], "wrk.txt")


def cut_off_in_a_number(tmp_path):
    return plain(tmp_path, (DATA / "wrk_pool.txt").read_text().rpartition("3.49")[0], "wrk.txt")


def cut_off_locust(tmp_path):
    return plain(tmp_path, (DATA / "locust_pool_stats_history.csv").read_text()[:-20], "h.csv")


def binary(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(range(256)))
    return path


def other_encoding(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(GOOD.encode() + "# größer\n".encode("latin-1"))
    return path


def huge(tmp_path):
    path = tmp_path / "x.csv"
    with path.open("wb") as file:
        file.truncate(importers.LARGEST + 1)
    return path


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (cut_off_wrk, "line 53: the run that begins here has no 'Requests/sec'"),
        (cut_off_in_a_number, "line 53: the run that begins here has 18 requests/s where"),
        (cut_off_locust, "line 86: 23 fields where the heading has 24"),
        (binary, "neither a store nor text"),
        (other_encoding, "line 3: not UTF-8"),
        (huge, "larger than 64 MiB"),
        (lambda tmp_path: tmp_path, "is a folder"),
        (lambda tmp_path: tmp_path / "none.csv", "No such file"),
        (lambda tmp_path: Path("/proc/self/mem"), "cannot be read"),
    ],
)
def test_files_that_are_cut_off_or_no_text(tmp_path, make, says, capsys):
    assert main(["audit", str(make(tmp_path))]) == 2
    shown = capsys.readouterr().err
    assert says in shown and shown.count("\n") == 1


def brought_in(tmp_path, capsys, *words):
    out = tmp_path / "imported.sqlite"
    assert main(["import", *words, "--out", str(out), "--json"]) == 0
    return out, json.loads(capsys.readouterr().out)


def test_imported_results_get_laws_page_and_explanation(tmp_path, capsys):
    out, found = brought_in(tmp_path, capsys, str(DATA / "wrk_pool.txt"))
    assert [cell["value"] for cell in found["cells"]] == [1, 2, 4, 8, 16]
    assert [round(cell["measured"]["throughput"]["value"]) for cell in found["cells"]] == [
        48,
        97,
        191,
        186,
        183,
    ]
    (series,) = found["series"]
    assert (
        series["variable"] == "clients"
        and series["law"] in ("amdahl", "usl")
        and series["peak"]["value"] == 4
    )
    assert "no resource's use was recorded" in series["explanation"]["text"]
    assert (
        found["sweep"]["provenance"]["imported"]["tool"] == "wrk"
        and found["sweep"]["provenance"]["cpus"] is None
    )
    assert "wrk_pool.txt" in out.with_suffix(".html").read_text()
    assert main(["audit", str(out)]) == 0 and "5 of 5 judged" in capsys.readouterr().out
    assert main(["report", str(out)]) == 0


def test_runs_with_the_same_value_are_repetitions(tmp_path, capsys):
    path = plain(tmp_path, "clients,throughput,p99_ms\n1,90,3\n1,110,5\n2,200,4\n1,100,9\n")
    _, found = brought_in(
        tmp_path, capsys, str(path), str(plain(tmp_path, "clients,throughput\n2,210\n", "b.csv"))
    )
    first, second = found["cells"]
    assert len(first["replicates"]) == 3 and len(second["replicates"]) == 2
    assert first["measured"]["response"]["p99"] == pytest.approx(0.005), "the median run's"
    assert (
        first["measured"]["throughput"]["low"] < 90 and first["measured"]["response"]["mean"]["value"] is None
    )


def test_other_columns_can_be_the_axis_and_words_make_series(tmp_path, capsys):
    path = plain(tmp_path, "server,chunk,throughput\na,10,100\na,20,150\nb,10,90\nb,20,95\n")
    _, found = brought_in(tmp_path, capsys, str(path))
    assert [series["fixed"]["series"] for series in found["series"]] == ["a", "b"]
    assert {cell["scenario"]["options"]["column"] for cell in found["cells"]} == {"chunk"}
    _, found = (tmp_path / "imported.sqlite").unlink(), None
    _, found = brought_in(tmp_path, capsys, str(DATA / "stock_clients.csv"))
    assert [row["fixed"]["series"] for row in found["series"]] == ["select", "sbuf"]
    assert all(row["law"] for row in found["series"])


def test_imported_results_are_not_measured_on(tmp_path, capsys):
    out, _ = brought_in(tmp_path, capsys, str(DATA / "wrk_pool.txt"))
    assert main(["sweep", "--resume", "--out", str(out)]) == 2
    assert "results of another tool cannot be measured on" in capsys.readouterr().err
    with open_store(out) as store:
        scenario = store.plan().cells()[0].scenario
    with pytest.raises(measuring.MeasureError, match="cannot be measured again"):
        measuring.measure_once(scenario, window=0.1, warmup=0.0)
    assert main(["import", str(DATA / "wrk_pool.txt"), "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_what_cannot_be_imported_is_said(tmp_path, capsys):
    out = ["--out", str(tmp_path / "x.sqlite")]
    for words, says in (
        (
            [str(DATA / "locust_nginx_stats.csv")],
            "no number of clients and no other setting; say it with --n",
        ),
        ([str(plain(tmp_path, "clients,p99\n1,2\n"))], "line 2: no throughput; name its column with --x"),
        ([str(DATA / "wrk_pool.txt"), str(DATA / "stock_clients.csv")], "files of wrk and plain"),
        ([str(DATA / "wrk_pool.txt"), "--n", "5"], "--n 5: wrk says that itself"),
        (
            [str(DATA / "locust_nginx_stats.csv"), "--n", "users"],
            "--n users: Locust's file has no columns to name",
        ),
    ):
        assert main(["import", *words, *out]) == 2
        assert says in capsys.readouterr().err
    assert not (tmp_path / "x.sqlite").exists()
