"""What a request comes to: which points, on which CPUs, and what is refused before anything is launched."""

import probes
import pytest

from harness.errors import HarnessError
from harness.probing.points import make
from harness.probing.wanted import Request


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    probes.install(monkeypatch)


def plan(here=probes.TWO, *names, **request):
    return make(Request(names, **request), here)


def cpus_of(point):
    """The CPUs of the ends, pair by pair, as a launch binds them."""
    ends = point.form.ends
    return [
        tuple(point.cpus[(p * ends + e) % len(point.cpus)] for e in range(ends)) for p in range(point.pairs)
    ]


def test_everything_in_every_form_at_every_position():
    found = plan()
    seen = {(point.probe, point.variant, point.kind, point.position) for point in found.points}
    both = {(kind, position) for kind in ("process", "thread") for position in ("same_cpu", "l3")}
    assert seen == {
        *(("pingpong", "blocking", *rest) for rest in both),
        *(("pingpong", "calls", kind, "alone") for kind in ("process", "thread")),
        *(("crowd", "", *rest) for rest in both),
        ("polling", "", "thread", "l3"),
    }
    (refused,) = found.refused
    assert (refused["probe"], refused["position"]) == ("polling", "same_cpu")
    assert refused["why"] == "its ends poll, so that each needs a CPU of its own: 2 ends, 1 CPU"


def test_quick_takes_default_variants_unless_a_probe_is_named():
    assert {point.variant for point in plan(quick=True).points} == {"blocking", ""}
    assert {point.variant for point in plan(probes.TWO, "pingpong", quick=True).points} == {
        "blocking",
        "calls",
    }


def test_several_pairs_take_the_pairs_of_cpus_in_turn():
    request = {"pairs": "1:5", "kind": "process", "variant": "blocking"}
    found = plan(probes.FOUR, "pingpong", position="l3", **request)
    assert [point.pairs for point in found.points] == [1, 2, 3, 4, 5]
    assert [point.cores for point in found.points] == [2, 4, 4, 4, 4]
    assert cpus_of(found.points[-1]) == [(0, 1), (2, 3), (0, 1), (2, 3), (0, 1)]
    found = plan(probes.FOUR, "pingpong", position="same_cpu", **request)
    assert cpus_of(found.points[-1]) == [(0, 0), (1, 1), (2, 2), (3, 3), (0, 0)]
    assert all(point.bound for point in found.points)


def test_more_ends_than_two_share_the_two_cpus_of_a_pair():
    (point,) = plan(probes.FOUR, "crowd", settings=("ends=3",), position="l3", kind="thread").points
    assert cpus_of(point) == [(0, 1, 0)]


def test_polling_ends_never_outnumber_their_cpus():
    found = plan(probes.FOUR, "polling", pairs="1:3", position="l3")
    assert [point.pairs for point in found.points] == [1, 2]
    assert [row["pairs"] for row in found.refused] == [3]
    assert found.refused[0]["why"].endswith("6 ends, 4 CPUs")


def test_cores_leave_the_ends_to_the_scheduler():
    found = plan(probes.FOUR, "pingpong", cores="1:N", kind="thread", variant="blocking")
    assert [(point.position, point.bound, point.cpus) for point in found.points] == [
        ("free", False, tuple(range(count))) for count in (1, 2, 3, 4)
    ]
    both = plan(probes.FOUR, "pingpong", cores="2", position="l3", kind="thread", variant="blocking")
    assert [point.position for point in both.points] == ["l3", "free"]


def test_one_end_is_alone_and_bound():
    (point,) = plan(probes.TWO, "pingpong", variant="calls", kind="process").points
    assert (point.position, point.bound, point.cores) == ("alone", True, 1)


def test_knobs_and_sizes_are_swept_where_a_probe_has_them():
    found = plan(settings=("ends=1,2:3",), size="8,64", kind="process", position="same_cpu")
    crowd = [(dict(point.options), point.size) for point in found.points if point.probe == "crowd"]
    assert crowd == [({"ends": ends}, size) for ends in "123" for size in (8, 64)]
    assert {point.size for point in plan(probes.TWO, "polling", size="8,64").points} == {0}, (
        "it sends nothing"
    )
    assert all(not point.options for point in found.points if point.probe != "crowd")


def test_native_settings_hold_the_variant():
    (point,) = plan(probes.TWO, "pingpong", variant="calls", kind="process").points
    assert point.native == {"variant": "calls"} and not point.options


@pytest.mark.parametrize(
    ("names", "request_", "said"),
    [
        (("pingpang",), {}, "pingpang: no such probe; did you mean pingpong?"),
        ((), {"variant": "call"}, "--variant call: not known; did you mean calls?"),
        (
            ("pingpong", "crowd"),
            {"variant": "calls"},
            "--variant calls: not one of probe crowd: it comes in one form",
        ),
        ((), {"kind": "fiber"}, "--kind fiber: not known; there are: all, process, thread"),
        ((), {"position": ""}, "--position : not known"),
        ((), {"settings": ("end=2",)}, "--set end: no such knob of these probes; did you mean ends?"),
        ((), {"settings": ("ends=65",)}, "ends=65: outside 1:64"),
        ((), {"settings": ("ends",)}, "write it as name=value"),
        ((), {"pairs": "0"}, "pairs=0: outside 1:512"),
        ((), {"cores": "3"}, "cores=3: outside 1:2 (the CPUs of this process)"),
        ((), {"size": "-1"}, "size=-1: outside"),
        ((), {"position": "smt,l2"}, "nothing to measure: smt is absent: none; l2 is absent: none"),
        (("polling",), {"position": "same_cpu"}, "nothing to measure: polling: its ends poll"),
        (("polling",), {"kind": "process"}, "nothing to measure: polling: its ends must be threads"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(names, request_, said):
    with pytest.raises(HarnessError) as caught:
        plan(probes.TWO, *names, **request_)
    assert caught.value.usage and said in str(caught.value) and "\n" not in str(caught.value)


def test_positions_that_are_absent_leave_the_others():
    found = plan(probes.TWO, "pingpong", position="smt,l3", variant="blocking", kind="process")
    assert [point.position for point in found.points] == ["l3"]
