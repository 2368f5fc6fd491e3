"""Every parser under libFuzzer for a moment, from seeds and from all that ever broke; `make fuzz` goes on for long."""

import subprocess

import fuzzing
import pytest

CASES = fuzzing.cases()
INPUTS = {"requests": 1000, "replies": 600, "settings": 4000}


@pytest.fixture(scope="session")
def programs():
    try:
        return fuzzing.build()
    except fuzzing.Missing as missing:
        pytest.skip(str(missing))


def fuzz(program, service, tmp_path, inputs):
    """A run that is the same each time."""
    seeds, corpus = tmp_path / "seeds", tmp_path / "corpus"
    seeds.mkdir(exist_ok=True)
    corpus.mkdir()
    return fuzzing.run(program, service, [corpus, seeds], tmp_path, "-seed=1", f"-runs={inputs}")


@pytest.mark.parametrize(("target", "service"), CASES, ids=["-".join(case) for case in CASES])
def test_no_input_breaks_a_promise(programs, tmp_path, target, service):
    fuzzing.write_seeds(target, service, tmp_path / "seeds")
    found = fuzz(programs[target], service, tmp_path, INPUTS[target])
    assert found.status == 0, found.said[-4000:]
    assert found.executed >= INPUTS[target] and found.edges > 50


def test_every_side_of_every_service_is_a_case():
    assert set(CASES) == {
        (target, name)
        for name, row in fuzzing.registry.services().items()
        for target in ("requests", "replies", "settings")
        if row["serves"] or target != "requests"
    }


def test_a_parser_that_looks_too_far_is_found_in_a_service_that_nothing_else_knows(programs, tmp_path):
    service = tmp_path / "faulty.o"
    words = ["clang", *fuzzing.FLAGS, "-fsanitize=fuzzer-no-link,address,undefined", "-c", "-o", service]
    subprocess.run([str(word) for word in (*words, fuzzing.SOURCES / "planted" / "faulty.c")], check=True)
    program = fuzzing.build(["requests"], service)["requests"]
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "near").write_bytes(fuzzing.plain(b"but"))
    found = fuzz(program, "faulty", tmp_path, 200_000)
    assert found.status != 0 and "heap-buffer-overflow" in found.said
    assert len(list(tmp_path.glob("requests-faulty-crash-*"))) == 1


@pytest.mark.parametrize(
    ("name", "target", "service"),
    [
        (path.name, folder.name, path.name.split("-")[0])
        for folder in sorted((fuzzing.SOURCES / "found").iterdir())
        for path in sorted(folder.iterdir())
    ],
)
def test_what_was_found_stays_mended(programs, tmp_path, name, target, service):
    path = fuzzing.SOURCES / "found" / target / name
    found = fuzzing.run(programs[target], service, [path], tmp_path)
    assert found.status == 0, found.said[-4000:]
