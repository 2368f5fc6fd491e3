"""A score as it is carried out: predictions before measurements, sealed, resumed, disturbed, kept, on the command line."""

import json
import sqlite3
import time

import fakes
import pytest

from harness import calibrate, predicting
from harness.cli import main
from harness.judging import marks
from harness.plan import CELL, CONTROL, NULL
from harness.scoring import drawing, exam, judging, running
from harness.scoring.exam import ALONE, LEAST_ROUNDS, STRIDE, Exam
from harness.store import StoreError, open_store
from models.metrics import Estimate, Metrics

WORDS = ["--configurations", "6", "--budget", "120", "--time", "0.1", "--out", "a"]


def rate_of(scenario):
    """Clients that think, on a server that gives 20,000/s at most."""
    return min(scenario.number("clients") / (0.0002 + scenario.number("think")), 20_000)


def metrics_of(scenario, costs=None):
    rate = rate_of(scenario) * 1.04
    return Metrics(
        Estimate(rate, rate / 1.1, rate * 1.1), Estimate(scenario.number("clients") / rate), p99=0.001
    )


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Measures and predicts by a formula; `order` lists what happened."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(exam, "MOST_ROUNDS", 4)
    stand_in = fakes.install(monkeypatch)
    stand_in.throughput, stand_in.order = rate_of, []
    stand_in.before = lambda scenario, block: stand_in.order.append(("measured", scenario.key))

    def predict_all(scenarios, costs, budget):
        for scenario in scenarios:
            stand_in.order.append(("predicted", scenario.key))
            yield scenario, metrics_of(scenario), None

    monkeypatch.setattr(predicting, "predict_all", predict_all)
    monkeypatch.setattr(calibrate, "costs", lambda progress, effort: None)
    return stand_in


def scored(capsys, *words, status=0):
    capsys.readouterr()
    assert main(["score", *words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_everything_is_predicted_before_anything_is_measured(fake, capsys):
    found = scored(capsys, *WORDS)
    kinds = [kind for kind, _ in fake.order]
    assert kinds == ["predicted"] * 6 + ["measured"] * (len(kinds) - 6) and len(kinds) > 6
    with open_store(running.Path("a.sqlite")) as store:
        begun = [
            r.started for kind in running.KINDS for rows in store.replicates(kind).values() for _, r in rows
        ]
        assert found["predictions"]["at"] <= min(begun)
        assert store.costs(1) == fakes.NoCosts().to_json()


def test_the_document_has_what_other_programs_rely_on(fake, capsys):
    found = scored(capsys, *WORDS, "--draw", "7")
    assert (found["seed"], found["configurations"], found["dropped"]) == (7, 6, 0)
    parts = [found, *found["regimes"].values()]
    assert set(found["regimes"]) == {"saturated", "think-limited", "between"}
    for part in parts:
        for quantity in ("throughput", "response", "p99"):
            assert set(part[quantity]) == {"median", "low", "high", "p90", "naive_median", "floor_median"}
    assert sum(part["cells"] for part in found["regimes"].values()) == 6 == len(found["cells"])
    assert set(found["coverage"]) == {"50", "80", "95"} == set(found["half_width"])
    assert found["throughput"]["median"] == pytest.approx(0.04, abs=0.02)
    assert found["throughput"]["floor_median"] < 0.03 and found["coverage"]["95"] == 1
    assert found["half_width"]["95"] == pytest.approx((1.1 - 1 / 1.1) / 2)
    assert all(cell["naive"]["throughput"] > 0 for cell in found["cells"])


def test_a_sealed_prediction_cannot_be_changed(fake, capsys):
    scored(capsys, *WORDS)
    path = running.Path("a.sqlite")
    with open_store(path, write=True) as store:
        scenario = running.exam_of(store).scenarios[0]
        with pytest.raises(StoreError, match="its predictions are sealed"):
            store.set_prediction(scenario, metrics_of(scenario), "changed")
            with store._transaction() as db:
                db.execute("UPDATE cells SET refusal = 'changed'")


def test_a_prediction_that_was_changed_all_the_same_is_found(fake, capsys):
    scored(capsys, *WORDS)
    with sqlite3.connect("a.sqlite") as db:
        db.execute("DROP TRIGGER no_UPDATE")
        db.execute("UPDATE cells SET prediction = replace(prediction, '0.001', '0.002')")
    for words in (["a.sqlite"], ["--resume", "--out", "a"]):
        assert main(["score", *words]) == 1
        assert "changed after they were sealed" in capsys.readouterr().err


def test_measurements_older_than_the_predictions_are_found(fake, capsys):
    scored(capsys, *WORDS)
    with sqlite3.connect("a.sqlite") as db:
        db.execute("UPDATE replicates SET started = 1")
    assert main(["score", "a.sqlite"]) == 1
    assert "older than its predictions" in capsys.readouterr().err


@pytest.mark.parametrize("moment", [0, 1, 17, 40])
def test_a_killed_score_goes_on_with_what_it_has(fake, capsys, moment):
    scored(capsys, *WORDS)
    whole, costs = sorted(fake.asked), []
    fake.asked.clear()

    def die(scenario, block):
        if len(fake.asked) >= moment:
            raise KeyboardInterrupt

    fake.before = die
    words = [word if word != "a" else "b" for word in WORDS]
    assert main(["score", *words]) == 130
    assert "--resume --out b.sqlite" in capsys.readouterr().err
    fake.before = lambda scenario, block: costs.append(block)
    found = scored(capsys, "--resume", "--out", "b")
    planned = [row for row in whole if row[1] < LEAST_ROUNDS * STRIDE]
    assert [row for row in sorted(fake.asked) if row[1] < LEAST_ROUNDS * STRIDE] == planned
    assert found["dropped"] == 0


def test_a_score_killed_while_it_predicts_goes_on_with_the_same_costs(fake, capsys, monkeypatch):
    known, asked = predicting.predict_all, []

    def three(scenarios, costs, budget):
        yield from list(known(scenarios, costs, budget))[:3]
        raise KeyboardInterrupt

    monkeypatch.setattr(predicting, "predict_all", three)
    assert main(["score", *WORDS]) == 130
    assert main(["score", "a.sqlite"]) == 1 and "go on with --resume" in capsys.readouterr().err

    def rest(scenarios, costs, budget):
        asked.append((len(scenarios), costs))
        return known(scenarios, costs, budget)

    monkeypatch.setattr(predicting, "predict_all", rest)
    monkeypatch.setattr(
        calibrate, "costs_for", lambda scenarios, progress=None: pytest.fail("calibrated again")
    )
    scored(capsys, "--resume", "--out", "a")
    assert asked == [(3, fakes.NoCosts().to_json())]


def test_measuring_ends_within_the_budget_however_slow_it_is(fake, capsys, monkeypatch):
    clock = SlowClock()
    monkeypatch.setattr(running, "time", clock)
    fake.before = lambda scenario, block: clock.pass_by(8.0)
    found = scored(capsys, *WORDS, status=1)
    assert 100 < clock.passed < 120 + 8.0 * (exam.STRETCH + 1)
    assert {cell["dropped"] for cell in found["cells"]} >= {"not measured often enough within the budget"}


class SlowClock:
    """A clock on which each measurement takes long; the machine is as fast as ever."""

    def __init__(self):
        self.passed = 0.0

    def pass_by(self, seconds):
        self.passed += seconds

    def monotonic(self):
        return 1000.0 + self.passed

    def time(self):
        return time.time()


def test_the_machine_is_compared_with_how_it_was_when_the_costs_were_measured(fake, capsys, monkeypatch):
    costs = {**fakes.NoCosts().to_json(), "provenance": {"yardstick": 0.0008}}
    monkeypatch.setattr(fakes.NoCosts, "to_json", lambda self: dict(costs))
    assert scored(capsys, *WORDS)["slower"] == pytest.approx(0.25)
    assert main(["score", "a.sqlite"]) == 0 and "25 % slower than when the costs" in capsys.readouterr().out


def disturb(fake, share):
    """Others have the CPUs during the first so many measurements of each configuration."""
    plain = fakes.record

    def record(scenario, rate, window):
        found = plain(scenario, rate, window)
        met = sum(key == scenario.key for key, _ in fake.asked)
        return {**found, "neighbours": 1.0 if met <= share else 0.0}

    return record


def test_disturbed_measurements_are_made_again(fake, capsys, monkeypatch):
    monkeypatch.setattr(fakes, "record", disturb(fake, 2))
    found = scored(capsys, *WORDS)
    assert found["dropped"] == 0
    with open_store(running.Path("a.sqlite")) as store:
        planned = store.meta("rounds")["planned"]
        again = [b for kind, _, b in store.done() if kind == CELL and b >= planned * STRIDE]
    assert again


def test_too_many_dropped_is_no_score_and_says_why(fake, capsys, monkeypatch):
    monkeypatch.setattr(fakes, "record", disturb(fake, 10**9))
    found = scored(capsys, *WORDS, status=1)
    assert found["dropped"] == 6 and {cell["dropped"] for cell in found["cells"]} == {"broken: neighbours"}
    assert main(["score", "--resume", "--out", "a"]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "6 of 6 configurations dropped" in line and "6: broken: neighbours" in line
    assert main(["score", "--history", "--out", "a"]) == 0
    assert "no score is kept there" in capsys.readouterr().out


def test_what_could_not_be_predicted_is_dropped_with_its_reason(fake, capsys, monkeypatch):
    known = predicting.predict_all

    def refusing(scenarios, costs, budget):
        for k, (scenario, metrics, _) in enumerate(known(scenarios, costs, budget)):
            yield scenario, metrics if k else None, None if k else "the model is tired"

    monkeypatch.setattr(predicting, "predict_all", refusing)
    found = scored(capsys, *WORDS)
    assert [cell["dropped"] for cell in found["cells"] if cell["dropped"]] == [
        "not predicted: the model is tired"
    ]
    assert found["dropped"] == 1 and sum(part["cells"] for part in found["regimes"].values()) == 5


def test_a_configuration_that_cannot_be_measured_is_dropped_and_the_rest_is_scored(fake, capsys):
    broken = drawing.draw(drawing.SEED, 6)[2].key
    fake.fail = lambda scenario, block: "the server died" if scenario.key == broken else None
    found = scored(capsys, *WORDS)
    assert [cell["dropped"] for cell in found["cells"] if cell["key"] == broken] == ["the server died"]
    assert found["dropped"] == 1


def test_text_shows_regimes_coverage_and_the_worst_and_history_keeps_each_score_once(fake, capsys):
    assert main(["score", *WORDS]) == 0
    shown = capsys.readouterr().out
    for word in (
        "think-limited",
        "error of p99",
        "naive",
        "A/A",
        "50 %",
        "95 %",
        "reached",
        "worst:",
        "store: a.sqlite",
    ):
        assert word in shown
    assert "nan" not in shown and main(["score", "a.sqlite"]) == 0
    assert capsys.readouterr().out == shown
    scored(capsys, *WORDS[:-1], "b", "--draw", "3")
    scored(capsys, "--resume", "--out", "a")
    rows = scored(capsys, "--history", "--out", "a")
    assert [row["seed"] for row in rows] == [drawing.SEED, 3]
    assert main(["score", "--history", "--out", "a"]) == 0
    assert len(capsys.readouterr().out.strip().splitlines()) == 3


def test_a_round_measures_all_once_some_twice_in_its_own_order_and_a_null_server_in_each_stretch():
    whole = Exam(1, drawing.draw(1, 40))
    first, second = whole.stretches(0), whole.stretches(1)
    orders = [
        [v for _, visits in stretches for v in visits if v.kind == CELL] for stretches in (first, second)
    ]
    assert orders[0] != orders[1] and all(
        sorted(v.scenario.key for v in order) == sorted(s.key for s in whole.scenarios) for order in orders
    )
    assert all(visits[0].kind == NULL for _, visits in (*first, *second))
    kinds = [[v.kind for _, visits in stretches for v in visits] for stretches in (first, second)]
    assert kinds[0].count(CONTROL) == 8 == kinds[1].count(CONTROL)
    assert ALONE in kinds[0] and ALONE not in kinds[1]
    assert Exam.from_json(json.loads(json.dumps(whole.to_json()))) == whole


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--budget 100", "60 configurations take"),
        ("--configurations 2", "--configurations"),
        ("--resume", "no score to resume"),
        ("--resume --draw 3", "--resume: goes on with what its store holds"),
        ("--resume --out none", "nothing to resume there"),
        ("--time -1", "--time -1"),
        ("none.sqlite", "none.sqlite: no such file"),
    ],
)
def test_bad_usage_is_one_line_and_2(fake, capsys, words, says):
    assert main(["score", *words.split()]) == 2
    (line,) = capsys.readouterr().err.strip().split("\n")
    assert says in line and line.startswith("error: ") and list(running.Path().iterdir()) == []


def test_a_score_and_a_sweep_do_not_go_on_with_each_others_stores(fake, capsys):
    scored(capsys, *WORDS)
    assert main(["sweep", "--resume", "--out", "a", "--var", "clients"]) == 2
    assert "go on with score --resume" in capsys.readouterr().err
    small = [
        "--var",
        "workers",
        "--service",
        "synthetic",
        "--server",
        "queues",
        "--values",
        "1",
        "--no-predict",
    ]
    assert main(["sweep", *small, "--reps", "1", "--time", "0.1", "--out", "b", "--no-report"]) == 0
    assert main(["score", "--resume", "--out", "b"]) == 2
    assert "holds no score" in capsys.readouterr().err


def test_limits_of_a_score_are_those_of_the_method():
    assert judging.MOST_DROPPED == 0.25 and judging.BUSY == 0.95
    assert drawing.CONFIGURATIONS >= 60 and "neighbours" in marks.TABLE
