"""How far a sweep can be trusted, in sentences: noise, stopping, the generator's certificate, the time spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from models import imported
from models.wording import percent, rate, seconds


def sentences(sweep: Mapping[str, Any]) -> list[str]:
    """All that a document's `sweep` knows of its own quality; what it does not hold is left out."""
    noise = sweep.get("noise") or {}
    if sweep.get("server") == imported.NAME:
        return [
            "Another tool measured this: how noisy the machine was, and what the tool can do at most, is not known."
        ]
    return [
        *_noise(noise, str(sweep.get("load"))),
        *_stopping(sweep.get("stopping") or {}),
        *_certificate(sweep.get("certificate") or {}, noise),
        *_efficiency(sweep.get("efficiency") or {}),
    ]


def _noise(noise: Mapping[str, Any], load: str) -> Iterator[str]:
    """How far two measurements of the same thing were apart in this very sweep."""
    found = [abs(x) for x in noise.get("aa") or () if x is not None]
    if not found:
        yield "No configuration was measured twice, so that the noise is not known."
        return
    text = (
        "Noise floor (A/A): one configuration was measured twice in each block, and the two differed by "
        f"{percent(median(found))} in the median, {percent(max(found))} at most ({len(found)} pairs)"
    )
    different = noise.get("aa_different")
    if different is True:
        text += ", which is significant although nothing differed: distrust small differences in this sweep"
    elif different is False:
        text += ", which is not significant"
    if load == "open":
        text += "; the throughput of an open load is that of its schedule, so that this says nothing of its response"
    yield f"{text}."


def _stopping(stopping: Mapping[str, Any]) -> Iterator[str]:
    """Why no further block was measured, and what that does to the intervals."""
    says = str(stopping.get("says") or "")
    if not says:
        return
    text = says[0].upper() + says[1:]
    if stopping.get("coverage") is not None:
        text += f"; a 95 % interval holds the truth in {percent(stopping['coverage'])} of sweeps simulated with this rule"
    yield f"{text}."


def _certificate(certificate: Mapping[str, Any], noise: Mapping[str, Any]) -> Iterator[str]:
    """What the load generator itself can do, and costs."""
    ceiling = _value(certificate.get("ceiling")) or _value((noise.get("null") or {}).get("throughput"))
    if ceiling is not None:
        threads = certificate.get("threads")
        which = f" with {threads} thread{'s' if threads != 1 else ''}" if threads else ""
        yield f"Null server: the load generator{which} reached {rate(ceiling)} with a server that does nothing."
    parts = []
    if certificate.get("cpu_per_request") is not None:
        parts.append(f"{seconds(certificate['cpu_per_request'])} of CPU a request")
    lag = certificate.get("lag") or {}
    if lag.get("p99") is not None:
        named = [
            f"{name} {seconds(lag[name])}" for name in ("p50", "p99", "max") if lag.get(name) is not None
        ]
        parts.append(f"requests late by {', '.join(named)}")
    if certificate.get("clock_cost") is not None:
        parts.append(f"{seconds(certificate['clock_cost'])} a look at the clock")
    if parts:
        yield f"The generator's own cost there: {'; '.join(parts)}."


def _efficiency(efficiency: Mapping[str, Any]) -> Iterator[str]:
    if efficiency.get("share") is None:
        return
    yield (
        f"{percent(efficiency['share'])} of the time spent measuring ({seconds(efficiency['windows'])} of "
        f"{seconds(efficiency['wall'])}) lay inside measuring windows."
    )


def _value(found: Any) -> float | None:
    """A figure that may be an estimate with bounds."""
    value = found.get("value") if isinstance(found, Mapping) else found
    return None if value is None else float(value)
