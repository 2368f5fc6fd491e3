"""What a scenario accepts, what it says of what it does not, and that its key never changes by itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import knobs
from models.scenario import Scenario, ScenarioError
from pyx import registry

ROOT = Path(__file__).parents[1]


def errors_of(*names, **options):
    with pytest.raises(ScenarioError) as caught:
        Scenario.of(*names, options=options)
    return str(caught.value).splitlines()


def test_defaults_are_the_knobs_own():
    scenario = Scenario.of("stock", "sbuf")
    assert (scenario["workers"], scenario["lock"], scenario["clients"], scenario["think"]) == (
        4,
        "mutex",
        10,
        0.0,
    )
    assert [name for name, _ in scenario.options] == sorted(name for name, _ in scenario.options)
    assert Scenario.of() == Scenario.of("prime", "queues", "closed")


def test_text_and_numbers_give_the_same_scenario():
    text = Scenario.of("prime", "queues", options={"workers": "3", "think": "1e-3", "wait": "spin"})
    numbers = Scenario.of("prime", "queues", options={"wait": "spin", "think": 0.001, "workers": 3.0})
    assert text == numbers and hash(text) == hash(numbers) and text.key == numbers.key
    assert isinstance(numbers["workers"], int) and isinstance(text["think"], float)


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (("stok", "select"), "stok: no such service; did you mean stock?"),
        (("stock", "slect"), "slect: no such server; did you mean select?"),
        (("stock", "select", "close"), "close: no such load; did you mean closed?"),
        (("stock", "zzz"), f"zzz: no such server; there are: {', '.join(sorted(registry.servers()))}"),
    ],
)
def test_unknown_parts_offer_the_nearest(names, line):
    assert errors_of(*names) == [line]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"worker": 3}, ["worker: no such knob", "did you mean workers?"]),
        ({"workers": 0}, ["workers=0", "outside 1:256"]),
        ({"workers": 1000}, ["workers=1000", "outside 1:256"]),
        ({"workers": "two"}, ["workers=two", "not a whole number"]),
        ({"workers": 2.5}, ["workers=2.5", "not a whole number"]),
        ({"workers": True}, ["not a whole number"]),
        ({"think": "nan"}, ["think=nan", "not a number"]),
        ({"think": "-1"}, ["think=-1", "outside"]),
        ({"think": "inf"}, ["think=inf"]),
        ({"wait": "spinn"}, ["wait=spinn", "did you mean spin?"]),
        ({"hold": "request"}, ["hold", "belongs to server sbuf"]),
        ({"lock": "mutex"}, ["lock", "belongs to service stock"]),
    ],
)
def test_a_bad_option_is_one_clear_line(option, words):
    (line,) = errors_of("prime", "queues", **option)
    assert all(word in line for word in words), line


def test_all_errors_are_said_at_once():
    assert len(errors_of("stok", "slect", "close")) == 3
    lines = errors_of("prime", "queues", worker=3, chunk=0, wait="maybe")
    assert len(lines) == 3 and [line.split(":")[0].split("=")[0] for line in lines] == [
        "worker",
        "chunk",
        "wait",
    ]


def test_a_server_that_holds_too_few_connections_refuses_more():
    most = registry.servers()["select"]["max_connections"]
    assert Scenario.of("stock", "select", options={"clients": most})["clients"] == most
    (line,) = errors_of("stock", "select", clients=most + 1)
    assert str(most) in line and "select" in line


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_out_of_range(seed):
    with pytest.raises(ScenarioError, match="seed="):
        Scenario.of(seed=seed)


def test_changes_are_checked_and_leave_the_first_alone():
    first = Scenario.of("prime", "queues")
    second = first.with_options(workers=7, seed=9)
    assert (first["workers"], first.seed, second["workers"], second.seed) == (4, 1, 7, 9)
    assert first.key != second.key
    with pytest.raises(ScenarioError):
        first.with_options(workers=0)
    with pytest.raises(AttributeError):
        first.seed = 3


def test_each_part_is_given_its_own_knobs():
    scenario = Scenario.of("stock", "sbuf", options={"think": 0.25})
    server = scenario.native_options("service", "server")
    assert server["lock"] == "mutex" and server["hold"] == "request" and "clients" not in server
    load = scenario.native_options("load")
    assert load["think"] == "0.25" and "hold" not in load
    assert set(scenario.native_options("service", "server", "load")) == dict(scenario.options).keys()


def test_the_key_is_the_same_in_another_process():
    scenario = Scenario.of("stock", "sbuf", seed=5, options={"think": 0.1, "workers": 3})
    program = "import sys, json; from models.scenario import Scenario; "
    program += "print(Scenario.from_json(json.load(sys.stdin)).key)"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(scenario.to_json()),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.stdout.strip() == scenario.key, ended.stderr


@st.composite
def scenarios(draw):
    service = draw(st.sampled_from(sorted(n for n, row in registry.services().items() if row["serves"])))
    server = draw(st.sampled_from(sorted(registry.servers())))
    options = {}
    for name, knob in knobs.of_parts(service, server, "closed").items():
        if name == "clients" or draw(st.booleans()):
            continue
        if knob.type == "choice":
            options[name] = draw(st.sampled_from(knob.allowed.split("|")))
        elif knob.type == "int":
            low, high = (int(bound) for bound in knob.allowed.split(":"))
            options[name] = draw(st.integers(low, high))
        elif knob.type == "real":
            low, high = (float(bound) for bound in knob.allowed.split(":"))
            options[name] = draw(st.floats(low, high))
    return Scenario.of(service, server, seed=draw(st.integers(0, 2**63 - 1)), options=options)


@given(scenarios())
def test_json_gives_the_same_scenario_back(scenario):
    again = Scenario.from_json(json.loads(json.dumps(scenario.to_json())))
    assert again == scenario and again.key == scenario.key


@given(scenarios(), scenarios())
def test_keys_differ_exactly_where_scenarios_do(first, second):
    assert (first.key == second.key) == (first == second)


@given(scenarios())
def test_options_survive_the_way_to_the_native_core(scenario):
    table = knobs.of_parts(scenario.service, scenario.server, scenario.load)
    for name, text in scenario.native_options("service", "server", "load").items():
        assert table[name].parse(text) == scenario[name]
