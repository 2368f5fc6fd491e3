"""How far a sweep's figures can be trusted, in sentences: noise, stopping, drift, the generator's certificate, time spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from models.wording import percent, rate, seconds

_REASONS = {
    "interval": "every interval was narrow enough",
    "budget": "the time allowed was spent",
    "blocks": "the most blocks allowed were measured",
}


def sentences(sweep: Mapping[str, Any]) -> list[str]:
    """All that a document's `sweep` knows of its own quality; what it does not hold is left out."""
    noise = sweep.get("noise") or {}
    return [
        *_noise(noise),
        *_stopping(sweep.get("stopping") or {}),
        *_drifted(noise.get("yardstick") or {}),
        *_certificate(sweep.get("certificate") or {}, noise),
        *_efficiency(sweep.get("efficiency") or {}),
    ]


def _noise(noise: Mapping[str, Any]) -> Iterator[str]:
    """How far two measurements of the same thing were apart in this very sweep."""
    found = [abs(x) for x in noise.get("aa") or () if x is not None]
    if not found:
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
    yield f"{text}."


def _stopping(stopping: Mapping[str, Any]) -> Iterator[str]:
    if not stopping:
        return
    reason, blocks, steady = (stopping.get(name) for name in ("reason", "blocks", "steady"))
    text = f"Stopped after {blocks} blocks"
    if steady is not None and steady != blocks:
        text += f", {steady} of them steady"
    text += f": {_REASONS.get(str(reason), reason)}" if reason else ""
    if stopping.get("widest") is not None:
        text += f"; the widest interval of a throughput is ±{percent(stopping['widest'])}"
    if stopping.get("coverage") is not None:
        text += f"; with this rule a 95 % interval holds the truth in {percent(stopping['coverage'])} of simulated sweeps"
    yield f"{text}."


def _drifted(yardstick: Mapping[str, Any]) -> Iterator[str]:
    """Blocks in which the machine was not as fast as usual, and what was done about them."""
    rows = yardstick.get("blocks") or ()
    drifted = [row for row in rows if row.get("drifted")]
    if not drifted:
        return
    several = len(drifted) != 1
    text = f"In {len(drifted)} of {len(rows)} blocks the machine's speed shifted by over {percent(yardstick['limit'])}"
    if yardstick.get("left_out"):
        text += f"; {'they are' if several else 'it is'} left out of the figures"
    else:
        text += f"; {'they are' if several else 'it is'} kept, as too few others remain"
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
