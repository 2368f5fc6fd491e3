"""Searching a limit: what is tried next, what a value's replicates show, and searches that are killed and go on."""

import copy
import json
import math
import random
import re
import uuid

import fakes
import pytest
import trials

import harness
from harness import document, durations, sweeping, table
from harness.cell import Replicate
from harness.cli import main
from harness.errors import HarnessError
from harness.limit import bracketing
from harness.limit import finding as finding_limit
from harness.limit.bracketing import BEYOND, UNDECIDED, WITHIN, Range, bracket, next_value
from harness.limit.trial import Criterion, Trial
from harness.plan import NULL
from harness.progress import Silent
from harness.request import Request
from harness.store import open_store
from models.scenario import Scenario

SYSTEM = {
    "service": "synthetic",
    "server": "select",
    "load": "closed",
    "options": (("demand", "0.00001"),),  # unlike the null server's
    "reps": 3,
    "window": 0.1,
    "warmup": 0.0,
}
WORDS = ["--service", "synthetic", "--server", "select", "--load", "closed", "--time", "0.1", "--reps", "3"]
SCENARIO = Scenario.of("synthetic", "select", "closed", 1, {"clients": 4})


def search(verdict, within, trials=None):
    """The trials that a search makes of these verdicts, in its order."""
    tried = {} if trials is None else trials
    while (value := next_value(tried, within)) is not None:
        assert value not in tried and within.low <= value <= within.high
        tried[value] = verdict(value)
    return tried


def test_a_bracket_closes_in_on_the_limit_wherever_it_is():
    draw = random.Random(3)
    for _ in range(300):
        limit = 10 ** draw.uniform(2.01, 6.9)
        tried = search(lambda x, limit=limit: WITHIN if x <= limit else BEYOND, Range(100.0, 1e7, False))
        found = bracket(tried)
        assert found.low <= limit < found.high and found.high / found.low <= 1.05
        assert len(tried) <= math.log2(limit / 100) + 8


def test_whole_numbers_close_in_to_neighbours():
    for limit in (1, 2, 3, 7, 19, 20, 100, 1000):
        tried = search(lambda x, limit=limit: WITHIN if x <= limit else BEYOND, Range(1.0, 20_000.0, True))
        found = bracket(tried)
        assert found.low <= limit < found.high and all(value == int(value) for value in tried)
        assert found.high - found.low == 1 or found.high / found.low <= 1.05


def test_what_cannot_be_told_from_the_limit_stays_between_and_both_its_sides_are_closed_in_upon():
    def verdict(value):
        return WITHIN if value < 900 else BEYOND if value > 1300 else UNDECIDED

    tried = search(verdict, Range(100.0, 1e6, False))
    found = bracket(tried)
    assert found.low < 900 <= found.between[0] and found.between[-1] <= 1300 < found.high
    assert found.between[0] / found.low <= 1.05 and found.high / found.between[-1] <= 1.05


def test_the_ends_of_the_range_end_a_search():
    assert search(lambda x: BEYOND, Range(100.0, 1e6, False)) == {100.0: BEYOND}
    tried = search(lambda x: WITHIN, Range(1.0, 100.0, True))
    assert sorted(tried) == [1, 2, 4, 8, 16, 32, 64, 100] and bracket(tried).high is None
    assert search(lambda x: UNDECIDED if x < 2 else BEYOND, Range(1.0, 100.0, True)) == {
        1.0: UNDECIDED,
        2.0: BEYOND,
    }


def test_a_value_beyond_is_confirmed_by_a_higher_one_and_a_contradiction_is_seen():
    tried = search(lambda x: BEYOND if x == 4 or x > 20 else WITHIN, Range(1.0, 100.0, True))
    found = bracket(tried)
    assert (found.low, found.high, found.against) == (3.0, 4.0, (8.0,))


def replicate(figure, block=0, **changes):
    """A replicate whose every response takes so many seconds."""
    record = fakes.record(SCENARIO, 4 / figure, 1.0)
    return Replicate(f"r{block}", 0.0, block, {**record, **changes})


def trial(*figures, **changes):
    return Trial(4.0, SCENARIO, [replicate(figure, b, **changes) for b, figure in enumerate(figures)])


P99 = Criterion("p99", 0.005)


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ([0.002, 0.0021, 0.0019], WITHIN),
        ([0.009, 0.0091, 0.0088], BEYOND),
        ([0.004, 0.005, 0.006], UNDECIDED),
        ([0.001, 0.001, 0.2], UNDECIDED),
        ([0.002], UNDECIDED),
    ],
)
def test_a_value_is_told_from_the_limit_by_its_replicates_interval(figures, verdict):
    assert trial(*figures).verdict(P99) == verdict


def test_the_figure_is_that_of_all_replies_and_no_mean_of_the_replicates():
    # Four in a hundred of one run are slow, and none of two others: more than one in a hundred of all.
    runs = trial(0.001, 0.001, 0.001)
    slow = copy.deepcopy(runs.replicates[0].record)
    row, few = slow["histograms"]["work"], fakes.record(SCENARIO, 4 / 0.1, 1.0)["histograms"]["work"]
    late = row["count"] * 4 // 100
    row["buckets"] = [[row["buckets"][0][0], row["count"] - late], [few["buckets"][0][0], late]]
    row |= {"max": few["max"], "sum": row["sum"] + late * (few["max"] - row["min"])}
    runs.replicates[0] = Replicate("slow", 0.0, 0, slow)
    assert runs.figure(P99).value == pytest.approx(0.1, rel=0.01)
    assert runs.figure(P99).low < 0.005 < runs.figure(P99).high and runs.verdict(P99) == UNDECIDED


def test_errors_and_undelivered_requests_are_beyond_whatever_the_response():
    fast = [0.001, 0.001, 0.001]
    assert trial(*fast).verdict(P99) == WITHIN
    assert trial(*fast, errors={"reset": 1}).verdict(P99) == BEYOND
    assert trial(*fast, planned=1000, sent=995).verdict(P99) == WITHIN
    short = trial(*fast, planned=1000, sent=900)
    assert short.verdict(P99) == BEYOND and "90 %" in short.obstacles()[0]
    empty = {"work": {"count": 0, "sum": 0, "min": 0, "max": 0, "buckets": []}}
    assert trial(*fast, histograms=empty).verdict(P99) == BEYOND
    dead = trial(*fast)
    dead.failure = "server select was killed by signal 9"
    assert dead.verdict(P99) == BEYOND and not dead.needs(P99, 3)


def test_what_is_undecided_gets_more_replicates_up_to_a_bound():
    assert trial(0.002, 0.0021).needs(P99, 3) and not trial(0.002, 0.0021, 0.0019).needs(P99, 3)
    assert trial(0.004, 0.005, 0.006).needs(P99, 3)
    assert not trial(*[0.004, 0.005, 0.006] * 3).needs(P99, 3)


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return fakes.install(monkeypatch)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "s.sqlite"


def response(clients):
    """Mean response of the fake server, s."""
    return clients / fakes.usl(Scenario.of("synthetic", "select", "closed", 1, {"clients": clients}))


def find(out, criterion, resume=False, low=None, high=None, **changes):
    request = Request(**{**SYSTEM, **changes})
    store, found = finding_limit.open_for(request, criterion, low, high, out, resume)
    with store:
        return finding_limit.execute(store, found, Silent())


@pytest.mark.parametrize("figure", ["p50", "p90", "p99", "mean"])
def test_the_limit_of_a_closed_load_is_found(fake, out, figure):
    limit = (response(20) + response(21)) / 2
    found = find(out, Criterion(figure, limit))
    low, high = found["limit"]["low"], found["limit"]["high"]
    assert low <= 21 and high >= 20 and high - low <= 2  # noise of 1 % is about a third of a client here
    assert found["variable"] == "clients" and found["criterion"] == {"figure": figure, "limit": limit}
    assert found["monotone"] and found["limit"]["value"] == low
    for row in found["trials"]:
        assert (row["verdict"] == WITHIN) == (row["value"] <= low) or row["verdict"] == UNDECIDED
        assert row["replicates"] >= 3 and row["low"] <= row["figure"] <= row["high"]


def test_every_replicate_is_a_cell_of_a_sweep_over_the_variable(fake, out):
    found = find(out, Criterion("mean", 0.001))
    assert len(set(fake.asked)) == len(fake.asked)
    with open_store(out) as store:
        result = document.document(store)
        assert len(store.replicates(NULL)) == 1
    assert [cell["value"] for cell in result["cells"]] == [row["value"] for row in found["trials"]]
    assert [len(c["replicates"]) for c in result["cells"]] == [row["replicates"] for row in found["trials"]]
    sweep = result["sweep"]
    assert sweep["complete"] and sweep["search"] == json.loads(json.dumps(found))
    assert (sweep["stopping"]["rule"], sweep["stopping"]["reason"]) == ("search", found["stopped"])
    assert sweep["certificate"]["ceiling"]["value"] > 0
    said = " ".join(table.text(result).split())
    assert f"Mean stays within 1 ms up to clients={found['limit']['low']:g}, and no longer at" in said


@pytest.mark.parametrize("killed", [0, 1, 4, 5, 11, 20])
def test_a_killed_search_goes_on_and_measures_nothing_twice(fake, out, killed):
    whole = find(out.with_name("whole.sqlite"), Criterion("mean", 0.001))
    fake.asked.clear()

    def kill(scenario, block):
        if len(fake.asked) == killed:
            fake.before = lambda scenario, block: None
            raise KeyboardInterrupt

    fake.before = kill
    with pytest.raises(KeyboardInterrupt):
        find(out, Criterion("mean", 0.001))
    with open_store(out) as store:
        assert not document.document(store)["sweep"]["complete"]
    found = find(out, None, resume=True, load=None)
    assert len(set(fake.asked)) == len(fake.asked)
    assert abs(found["limit"]["value"] - whole["limit"]["value"]) <= 1


def test_another_limit_can_be_asked_of_the_same_measurements(fake, out):
    fake.noise = 0.001
    find(out, Criterion("mean", (response(20) + response(21)) / 2))
    fake.asked.clear()
    found = find(out, Criterion("mean", (response(18) + response(19)) / 2), resume=True)
    assert (found["limit"]["low"], found["limit"]["high"]) == (18, 19)
    assert len(fake.asked) <= 3 * 4 and len(set(fake.asked)) == len(fake.asked)
    fake.asked.clear()
    assert find(out, None, resume=True) == found and fake.asked == []


def test_a_limit_that_the_lowest_load_exceeds_fails_with_a_line(fake, out, capsys):
    words = ["find-limit", "--mean", "10us", *WORDS, "--out", str(out)]
    assert main(words) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(
        "error: mean is not within 10 µs at all: at clients=1, the lowest load tried, mean is"
    )
    with open_store(out) as store:
        assert store.meta("search")["limit"]["value"] is None


def test_a_limit_that_is_never_reached_is_said(fake, out, capsys):
    assert main(["find-limit", "--p99", "9s", *WORDS, "--high", "50", "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["limit"] == {"value": 50.0, "low": 50.0, "high": None}
    assert found["stopped"] == "not reached up to clients=50"
    assert main(["find-limit", "--p99", "9s", *WORDS, "--out", str(out.with_name("t.sqlite"))]) == 0
    shown = capsys.readouterr().out
    assert "not reached up to clients=512; more is refused" in shown and "FD_SETSIZE" in shown


def test_a_value_that_cannot_be_measured_is_beyond_and_says_why(fake, out, capsys):
    fake.fail = lambda scenario, block: "server select died" if scenario.get("clients", 0) > 50 else None
    assert main(["find-limit", "--p99", "9s", *WORDS, "--out", str(out)]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert re.match(
        r"p99 stays within 9 s up to clients=\d+, and no longer at clients=5\d \(failed: server", first
    )


def test_the_text_is_a_sentence_and_a_table(fake, out, capsys):
    assert main(["find-limit", "--mean", "1ms", *WORDS, "--out", str(out)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("mean stays within 1 ms up to clients=")
    assert shown[3].split()[:5] == ["clients", "mean", "interval", "runs", "verdict"]
    assert shown[-1] == f"store: {out}"


def test_an_interrupt_says_how_to_go_on(fake, out, capsys):
    def stop(scenario, block):
        if len(fake.asked) == 5:
            raise KeyboardInterrupt

    fake.before = stop
    assert main(["find-limit", "--mean", "1ms", *WORDS, "--out", str(out)]) == 130
    assert f"5 measurements are kept; go on with: python -m harness find-limit --resume --out {out}" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no limit given; give one of --p50, --p90, --p99, --mean"),
        (["--p99", "5"], "--p99 5: not a duration"),
        (["--p99", "-5ms"], "--p99 -5ms: not a duration"),
        (["--p99", "5ms", "--mean", "1ms"], "--p99 and --mean: one limit at a time"),
        (["--p99", "5ms", "--load", "forked"], "--load forked: a limit is searched with open or closed"),
        (["--p99", "5ms", "--set", "clients=4"], "--set clients: is what is searched"),
        (["--p99", "5ms", "--set", "demand=0", "--set", "demand=1"], "--set demand: given twice"),
        (["--p99", "5ms", "--low", "0"], "clients=0.0: outside 1:20000"),
        (["--p99", "5ms", "--low", "8", "--high", "4"], "--high 4: not over --low 8"),
        (["--p99", "5ms", "--reps", "0"], "--reps 0: outside"),
    ],
)
def test_a_wrong_request_is_said_before_anything_is_written(fake, out, capsys, words, says):
    assert main(["find-limit", *WORDS, *words, "--out", str(out)]) == 2
    assert says in capsys.readouterr().err and not out.exists()


def test_searches_and_sweeps_are_not_mixed(fake, tmp_path):
    sought, swept = tmp_path / "search.sqlite", tmp_path / "sweep.sqlite"
    find(sought, Criterion("mean", 0.001))
    with pytest.raises(HarnessError, match="go on with find-limit --resume"):
        sweeping.open_for(Request(), sought, resume=True)
    harness.sweep("clients", values="1,2", out=swept, predict=False, **{**SYSTEM, "options": {}})
    with pytest.raises(HarnessError, match="holds no search"):
        find(swept, None, resume=True)
    with pytest.raises(HarnessError, match="holds another sweep"):
        find(sought, None, resume=True, window=0.2)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5ms", 0.005), ("200us", 2e-4), ("0.1s", 0.1), ("3 µs", 3e-6), ("7ns", 7e-9)]
)
def test_durations_are_read_with_their_unit(text, seconds):
    assert durations.parse(text, "--p99") == pytest.approx(seconds)


def test_a_real_server_of_two_sleeping_workers_holds_five_clients_within_its_limit(tmp_path):
    trials.patiently(lambda: check_five_clients(stores(tmp_path)))


def test_a_real_open_load_is_searched_by_its_rate(tmp_path, monkeypatch):
    monkeypatch.setattr(bracketing, "NEAR", 1.5)  # a wide bracket does, and takes few runs near the limit
    trials.patiently(lambda: check_rate(stores(tmp_path)))


def stores(folder):
    """The path of a new store at every call."""
    return folder / f"{uuid.uuid4().hex}.sqlite"


def check_five_clients(path):
    """Two workers that sleep 20 ms for each request: n clients wait n / 2 × 20 ms, so that 5 of them keep 55 ms."""
    options = (("demand", "0.02"), ("demand_kind", "sleep"), ("workers", "2"))
    how = {"server": "queues", "options": options, "window": 0.25, "warmup": 0.1}
    found = found_unless_spoiled(path, Criterion("mean", 0.055), low=4, high=8, **how)
    assert found["limit"]["low"] in (4, 5) and found["limit"]["high"] in (5, 6)


def check_rate(path):
    """One worker that sleeps 5 ms serves under 200 requests a second; well below that it answers in 5 ms and waiting."""
    options = (("demand", "0.005"), ("demand_kind", "sleep"), ("workers", "1"))
    how = {"server": "queues", "options": options, "window": 0.3, "load": "open"}
    found = found_unless_spoiled(path, Criterion("mean", 0.03), low=80, high=280, **how)
    assert found["variable"] == "arrival_rate" and 80 <= found["limit"]["low"] < found["limit"]["high"]


def found_unless_spoiled(path, criterion, **how):
    """What is found, unless others on the machine spoil the lowest value, which does not count as an answer."""
    try:
        return find(path, criterion, **how)
    except HarnessError as error:
        raise AssertionError(error) from error
