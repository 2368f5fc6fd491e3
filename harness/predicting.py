"""Predicts many scenarios at once, each in a worker process that ends with this one, within a time limit.

A worker is `python -m harness.predicting`: it takes the costs and then scenarios, a line of JSON each, and
answers each with a line. Workers of our own rather than multiprocessing's, because those import the caller's
main script anew, which one without a guard does not survive, and because ours can be killed when time is up.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from models.forecasting import ENOUGH, REPLICATES
from models.metrics import Metrics
from models.scenario import Scenario

BUDGET = 20.0  # s for all predictions of a sweep
MOST_EACH = 2.0  # s for one of them
_PR_SET_PDEATHSIG = 1

Answer = tuple[Scenario, Metrics | None, str | None]


def predict_all(
    scenarios: Sequence[Scenario],
    costs: Mapping[str, Any],
    budget: float = BUDGET,
    workers: int | None = None,
    replicates: int = REPLICATES,
) -> Generator[Answer, None, None]:
    """Yields (scenario, metrics, None) or (scenario, None, why not) for every scenario, as they come.

    Parameters
    ----------
    scenarios : sequence of Scenario
    costs : mapping
        Of models.costs.Costs, as JSON has them.
    budget : float
        Seconds after which what is left is given up.
    workers : int, optional
        Processes; one for each CPU by default.
    replicates : int
        Runs that each will be measured in: the intervals are those of their mean (models.forecasting.forecast).
    """
    waiting = list(reversed(scenarios))
    size = min(workers or len(os.sched_getaffinity(0)), len(waiting))
    share = min(0.9 * budget * size / max(len(waiting), 1), MOST_EACH)
    crew = _Crew(json.dumps(costs), time.monotonic() + budget, {"seconds": share, "replicates": replicates})
    try:
        for _ in range(size):
            crew.hire(waiting.pop())
        while crew.busy:
            for scenario, answer in crew.answers():
                if waiting:
                    crew.hire(waiting.pop())
                yield scenario, *answer
            if time.monotonic() >= crew.deadline:
                break
        for scenario in [*crew.busy.values(), *reversed(waiting)]:
            yield scenario, None, f"not finished within the {budget:g} s that a sweep gives its predictions"
    finally:
        crew.dismiss()


class _Crew:
    """The worker processes: which are idle, and what each of the others works on."""

    def __init__(self, costs: str, deadline: float, settings: Mapping[str, Any]) -> None:
        self.deadline = deadline
        self._settings = settings
        self.busy: dict[subprocess.Popen[str], Scenario] = {}
        self._idle: list[subprocess.Popen[str]] = []
        self._costs = costs
        self._selector = selectors.DefaultSelector()

    def hire(self, scenario: Scenario) -> None:
        """Gives the scenario to an idle worker, or to a new one."""
        worker = self._idle.pop() if self._idle else self._start()
        self.busy[worker] = scenario
        with suppress(BrokenPipeError):  # it has died: answers() sees the end of its output
            _write(worker, json.dumps({"scenario": scenario.to_json(), **self._settings}))

    def _start(self) -> subprocess.Popen[str]:
        environment = dict(os.environ)
        here = str(Path(__file__).parent.parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, environment.get("PYTHONPATH")]))
        worker = subprocess.Popen(
            [sys.executable, "-m", "harness.predicting", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            env=environment,
            process_group=0,
        )
        self._selector.register(worker.stdout or sys.stdin, selectors.EVENT_READ, worker)
        with suppress(BrokenPipeError):
            _write(worker, self._costs)
        return worker

    def answers(self) -> Iterator[tuple[Scenario, tuple[Metrics | None, str | None]]]:
        """Waits for workers, until the deadline at most, and gives what has come."""
        for key, _ in self._selector.select(max(self.deadline - time.monotonic(), 0.0)):
            worker = key.data
            line = worker.stdout.readline()
            scenario = self.busy.pop(worker, None)
            if not line:
                self._selector.unregister(worker.stdout)
                _end(worker)
                if scenario is not None:
                    yield scenario, (None, f"the model's process ended with status {worker.returncode}")
                continue
            self._idle.append(worker)
            document = json.loads(line)
            if scenario is not None:
                metrics = document.get("metrics")
                yield scenario, (Metrics.from_json(metrics) if metrics else None, document.get("refusal"))

    def dismiss(self) -> None:
        """Ends every worker at once."""
        for key in list(self._selector.get_map().values()):
            _end(key.data)
        self._selector.close()


def _write(worker: subprocess.Popen[str], line: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(line + "\n")
    worker.stdin.flush()


def _end(worker: subprocess.Popen[str]) -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def end_with_parent(parent: int) -> None:
    """Has the kernel kill this process when the thread that started it ends, however it ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def _answer(line: str, costs: Any) -> dict[str, Any]:
    from models import des, forecasting

    try:
        task = json.loads(line)
        scenario, replicates = Scenario.from_json(task["scenario"]), task["replicates"]
        found = forecasting.forecast(
            des.prepared, scenario, costs, precision=ENOUGH, budget=task["seconds"], replicates=replicates
        )
        return {"metrics": found.metrics.to_json()}
    except Exception as error:  # a model's refusal and a model's fault are both the cell's, not the sweep's
        return {"refusal": " ".join(str(error).split()) or type(error).__name__}


def work(source: IO[str], sink: IO[str]) -> None:
    """A worker's life: costs from the first line, then an answer for each line."""
    from models.costs import Costs

    costs = Costs.from_json(json.loads(source.readline()))
    for line in source:
        print(json.dumps(_answer(line, costs)), file=sink, flush=True)


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    work(sys.stdin, sys.stdout)
