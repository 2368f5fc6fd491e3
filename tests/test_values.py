"""How the values of a variable are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.values import MOST_VALUES, STANDARD, ValuesError, parse
from models.knobs import Knob

WORKERS = Knob("workers", "int", 4, "1:256", "threads", "queues", "")
DEMAND = Knob("demand", "real", 0.0, "0:10", "s", "synthetic", "")
STEAL = Knob("steal", "choice", "none", "none|next", "", "queues", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2,4", (1, 2, 4)),
        ("1:4", (1, 2, 3, 4)),
        ("1:64:x2", (1, 2, 4, 8, 16, 32, 64)),
        ("1:60:x2", (1, 2, 4, 8, 16, 32)),
        ("1:100:10", (1, 11, 21, 31, 41, 51, 61, 71, 81, 91)),
        ("1,2,4:6,5", (1, 2, 4, 5, 6)),
        ("7:7", (7,)),
        (" 1 , 2 ", (1, 2)),
    ],
)
def test_whole_numbers(text, expected):
    assert parse(WORKERS, text) == expected


def test_real_numbers_meet_their_end():
    assert parse(DEMAND, "0:1:0.1") == pytest.approx([i / 10 for i in range(11)], abs=1e-15)
    assert parse(DEMAND, "0.001:0.1:x10") == (0.001, 0.01, 0.1)


def test_words_of_a_choice():
    assert parse(STEAL, "next,none") == ("next", "none")
    assert parse(STEAL) == ("none", "next")


@pytest.mark.parametrize(
    ("knob", "text", "says"),
    [
        (WORKERS, "", "empty value"),
        (WORKERS, "1,,2", "empty value"),
        (WORKERS, "0,1", "outside 1:256"),
        (WORKERS, "1:300", "outside 1:256"),
        (WORKERS, "1.5", "not a whole number"),
        (WORKERS, "1:2:0.5", "not a whole number"),
        (WORKERS, "a:b", "not a range of numbers"),
        (WORKERS, "4:1", "low end first"),
        (WORKERS, "1:4:0", "a step needs to be over 0"),
        (WORKERS, "1:4:-1", "a step needs to be over 0"),
        (WORKERS, "1:4:x1", "a factor needs to be over 1"),
        (WORKERS, "1:2:3:4", "too many colons"),
        (WORKERS, "1:nan", "finite"),
        (WORKERS, "1:inf", "finite"),
        (DEMAND, "0:1:x2", "its low end over 0"),
        (DEMAND, "0:10:0.001", f"more than {MOST_VALUES} values"),
        (STEAL, "nxt", "did you mean next"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(knob, text, says):
    with pytest.raises(ValuesError) as caught:
        parse(knob, text)
    assert says in str(caught.value) and knob.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_knob_without_standard_values_asks_for_some():
    with pytest.raises(ValuesError, match="--values"):
        parse(Knob("timeout", "real", 10.0, "0.001:3600", "s", "closed", ""))


def test_standard_values_keep_to_the_knob():
    narrow = Knob("workers", "int", 1, "1:3", "threads", "some", "")
    assert parse(narrow) == (1, 2, 3)
    assert "workers" in STANDARD and "clients" in STANDARD


@given(st.text(alphabet="0123456789:x,.- en", max_size=14))
def test_any_text_gives_allowed_values_or_one_line(text):
    try:
        found = parse(WORKERS, text)
    except ValuesError as error:
        assert "\n" not in str(error)
    else:
        assert found and len(set(found)) == len(found)
        assert all(isinstance(value, int) and 1 <= value <= 256 for value in found)
