"""The questions of an interactive probe run: their order, their defaults, wrong answers, and leaving."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import pytest

from harness.probing import asking
from pyx import registry

ORDER = (
    "Which primitive",
    "Which form",
    "Processes or threads",
    "How many pairs, from",
    "How many pairs, to",
    "Which core position, or how many cores",
    "How many iterations",
    "How many repetitions",
    "Where to write",
)


class Person:
    """Gives answers in order, and keeps what was asked and said; the input ends after the last answer."""

    def __init__(self, answers: Iterable[str]) -> None:
        self.answers = iter(answers)
        self.prompts: list[str] = []
        self.said: list[str] = []

    def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        try:
            return next(self.answers)
        except StopIteration:
            raise EOFError from None

    def asked(self) -> list[str]:
        return [prompt.partition(" (")[0] for prompt in self.prompts]


def words(*answers: str) -> tuple[list[str], Person]:
    person = Person(answers)
    return asking.ask(person.read, person.said.append), person


def test_the_questions_come_in_the_original_order_each_with_its_default() -> None:
    found, person = words("pipe", *[""] * (len(ORDER) - 1))
    assert tuple(person.asked()) == ORDER
    assert found == ["pipe"]
    for prompt in person.prompts:
        assert re.search(r"\(.+\) \[.+\]: $", prompt), prompt


def test_all_defaults_measure_everything() -> None:
    found, person = words(*[""] * (len(ORDER) - 1))
    assert found == []
    assert tuple(person.asked()) == tuple(name for name in ORDER if name != "Which form")


def test_answers_become_the_words_of_the_command() -> None:
    found, _ = words("pipe", "calls", "threads", "1", "16", "2000", "3", "x.json")
    assert found == [
        *("pipe", "--variant", "calls", "--kind", "thread", "--pairs", "1:16"),
        *("--iterations", "2000", "--reps", "3", "--out", "x.json"),
    ]
    found, _ = words("pipe", "pingpong", "both", "4", "4", "l3", "", "", "")
    assert found == ["pipe", "--variant", "pingpong", "--pairs", "4", "--position", "l3"]


def test_cores_are_asked_for_instead_of_a_position() -> None:
    here = len(os.sched_getaffinity(0))
    found, person = words("pipe", "", "", "", "", "cores", "1", str(here), "", "", "")
    assert person.asked()[6:8] == ["How many cores, from", "How many cores, to"]
    assert found == ["pipe", "--cores", "1" if here == 1 else f"1:{here}"]
    _, person = words("pipe", "", "", "", "", "cores", "", str(here + 1), "", "", "", "")
    assert f"  {here + 1}: outside 1 to {here}" in person.said


def test_every_primitive_and_every_form_of_the_registry_is_offered() -> None:
    for name, row in registry.probes().items():
        person = Person([name, *[""] * 20])
        found = asking.ask(person.read, person.said.append)
        assert found == [name]
        assert re.search(rf"\b{name}\b", person.prompts[0])
        for knob in row["knobs"]:
            if knob["name"] == "variant":
                assert set(knob["allowed"].split("|")) <= set(re.findall(r"\w+", person.prompts[1]))


def test_one_end_alone_has_no_position() -> None:
    _, person = words("pipe", "calls", "", "", "", "", "", "")
    assert ORDER[5] not in person.asked()
    assert any("one end" in line for line in person.said)


@pytest.mark.parametrize(
    ("place", "wrong", "why"),
    [
        (0, "pip", "pip: not known; did you mean pipe?"),
        (1, "pingpongs", "pingpongs: not known; did you mean pingpong?"),
        (2, "neither", "neither: not known; there are: both, processes, threads"),
        (3, "0", "0: outside 1 to 512"),
        (3, "two", "two: not a whole number"),
        (5, "l4", "l4: not known"),
        (6, "-1", "-1: outside 1 to"),
        (7, "1.5", "1.5: not a whole number"),
        (8, "out.csv", "out.csv: the document's name, which ends in .json"),
    ],
)
def test_a_wrong_answer_is_asked_again_with_a_line_why(place: int, wrong: str, why: str) -> None:
    answers = ["pipe", *[""] * (len(ORDER) - 1)]
    answers.insert(place, wrong)
    found, person = words(*answers)
    assert found == ["pipe"]
    assert person.prompts[place] == person.prompts[place + 1]
    assert any(why in line for line in person.said), person.said


def test_the_end_of_a_range_is_not_below_its_beginning() -> None:
    found, person = words("pipe", "", "", "8", "4", "16", "", "", "", "")
    assert "  4: outside 8 to 512" in person.said
    assert found == ["pipe", "--pairs", "8:16"]


def test_a_question_mark_explains_and_asks_again() -> None:
    answers = [word for answer in ["pipe", *[""] * (len(ORDER) - 1)] for word in ("?", answer)]
    found, person = words(*answers)
    assert found == ["pipe"]
    said = "\n".join(person.said)
    assert len(person.said) == 1 + len(ORDER)
    for name, row in registry.probes().items():
        assert f"{name}: {row['summary']}" in said


@pytest.mark.parametrize("leave", [EOFError, KeyboardInterrupt])
@pytest.mark.parametrize("answered", range(len(ORDER)))
def test_leaving_at_any_question_is_an_interruption(answered: int, leave: type[BaseException]) -> None:
    answers = iter(["pipe", *[""] * len(ORDER)][:answered])

    def read(prompt: str) -> str:
        for answer in answers:
            return answer
        raise leave

    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        asking.ask(read, said.append)
    assert said[-1] == ""
