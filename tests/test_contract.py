"""Every registered server with every registered service: what each pair must do, whatever its knobs say."""

import re
import socket
import time

import pytest
import trials
import wire
from pyx.load import Load

from pyx import registry
from pyx.server import STOP_TIMEOUT, Server

CLIENTS = 8


def settings_of(server: str) -> list[dict[str, str]]:
    """The defaults, then every other value of every choice, alone."""
    found: list[dict[str, str]] = [{}]
    for knob in registry.servers()[server]["knobs"]:
        if knob["type"] == "choice":
            found += [{knob["name"]: word} for word in knob["allowed"].split("|") if word != knob["default"]]
    for settings in found:
        if settings.get("wait") == "spin":
            # Threads that spin keep the processors from those with work: few of them, so that work gets done.
            settings["workers"] = "2"
    return found


def clients_of(server: str, settings: dict[str, str]) -> int:
    """As many as are served at once where connections are kept: the rest would starve."""
    if settings.get("connection") == "per_request":
        return CLIENTS
    return min(CLIENTS, registry.serves_at_once(server, settings) or CLIENTS)


SERVED = [name for name, row in registry.services().items() if row["serves"]]
CASES = [
    pytest.param(service, server, settings, id="-".join([service, server, *settings.values()]))
    for service in SERVED
    for server in registry.servers()
    for settings in settings_of(server)
]
PAIRS = [(service, server) for service in SERVED for server in registry.servers()]
KEPT = [case for case in CASES if case.values[2].get("connection") != "per_request"]


def tasks_of_request(service: str, server: str) -> int:
    knobs = {
        knob["name"]: knob["default"]
        for table in (registry.services()[service], registry.servers()[server])
        for knob in table["knobs"]
    }
    if service == "prime" and "chunk" in knobs:
        return -(-int(knobs["array"]) // int(knobs["chunk"]))
    return 1


def test_every_choice_of_every_server_is_tried():
    tried = {(case.values[1], name, word) for case in CASES for name, word in case.values[2].items()}
    for server, table in registry.servers().items():
        for knob in table["knobs"]:
            if knob["type"] == "choice":
                words = set(knob["allowed"].split("|")) - {knob["default"]}
                assert words and {(server, knob["name"], word) for word in words} <= tried


def test_every_service_has_its_bytes_written_down():
    assert set(SERVED) == set(wire.EXCHANGES) == set(wire.UNFINISHED)


@pytest.mark.parametrize(("service", "server", "settings"), CASES)
def test_answers_a_load_and_accounts_for_it(service, server, settings):
    ours, clients = wire.descriptors(), clients_of(server, settings)
    running = Server(service, server, settings)
    try:
        assert running.alive() and 0 < running.port < 65536
        its = wire.descriptors(running.pid)
        options = {**settings, "clients": str(clients)}
        window = 0.4 if settings.get("wait") == "spin" else 0.1
        load = Load(
            "closed", service, options, running.host, running.port, 1, 0.0, window, running.pid, running.page
        )
        raw = load.run()
        assert not any(raw["errors"].values()), raw["errors"]
        assert not any(raw["errors_outside"].values()), raw["errors_outside"]
        assert raw["clients"] == clients
        replies = trials.answered(raw)
        assert replies > 0
        del load
        assert wire.eventually(lambda: trials.total(running, "closed") == trials.total(running, "accepted"))
        count = {name: trials.total(running, name) for name in ("accepted", "requests", "tasks", "cpu_ns")}
        # At the window's end each client has at most one reply unread, and may have asked once more since.
        assert replies <= count["requests"] <= replies + 2 * clients
        if settings.get("connection") == "per_request":
            assert count["requests"] <= count["accepted"] <= count["requests"] + 2 * clients
        else:
            assert count["accepted"] == clients
        each = tasks_of_request(service, server)
        assert count["requests"] * each <= count["tasks"] <= (count["requests"] + 2 * clients) * each
        assert 0 < count["cpu_ns"] * 1e-9 <= wire.processor_seconds(running.pid) + 0.05
        assert wire.eventually(lambda: wire.descriptors(running.pid) == its), "descriptors leak in the server"
    finally:
        stopping = time.monotonic()
        status = running.stop()
    assert status == 0
    assert time.monotonic() - stopping < STOP_TIMEOUT
    assert not wire.process_exists(running.pid)
    assert wire.descriptors().keys() == ours.keys(), "descriptors leak in the test's own process"
    with Server(service, server, settings, port=running.port) as again:
        assert again.port == running.port


@pytest.mark.parametrize(("service", "server"), PAIRS)
def test_stops_while_requests_are_under_way(service, server):
    trials.stops_under_load(trials.Trial(service, server, {}))


@pytest.mark.parametrize(("service", "server", "settings"), KEPT)
def test_takes_requests_byte_by_byte(service, server, settings):
    with Server(service, server, settings) as running, wire.connect(running.port) as peer:
        for known in wire.EXCHANGES[service]:
            for byte in known.request:
                peer.sendall(bytes([byte]))
                time.sleep(0.0002)
            wire.take(peer, known.reply)
        assert trials.total(running, "errors") == 0


@pytest.mark.parametrize(("service", "server", "settings"), KEPT)
def test_answers_requests_sent_in_one_piece_in_their_order(service, server, settings):
    rounds = 50
    known = wire.EXCHANGES[service] * rounds
    pattern = re.compile(b"".join(b"(?:" + each.reply.pattern + b")" for each in wire.EXCHANGES[service]))
    with Server(service, server, settings) as running, wire.connect(running.port) as peer:
        peer.sendall(b"".join(each.request for each in known))
        peer.shutdown(socket.SHUT_WR)
        taken = b""
        while got := peer.recv(65536):
            taken += got
        assert len(pattern.findall(taken)) == rounds and not pattern.sub(b"", taken)
        assert wire.eventually(lambda: trials.total(running, "requests") == len(known))


@pytest.mark.parametrize(("service", "server"), PAIRS)
def test_per_request_closes_after_one_reply(service, server):
    known = wire.EXCHANGES[service][0]
    with Server(service, server, {"connection": "per_request"}) as running:
        for _ in range(3):
            with wire.connect(running.port) as peer:
                peer.sendall(known.request)
                wire.take(peer, known.reply)
                assert peer.recv(1) == b""
        assert wire.eventually(lambda: trials.total(running, "closed") == 3)


@pytest.mark.parametrize(("service", "server", "settings"), KEPT)
def test_clients_that_vanish_leave_nothing_and_hold_up_nobody(service, server, settings):
    known = wire.EXCHANGES[service][0]
    with Server(service, server, settings) as running:
        its = wire.descriptors(running.pid)
        for turn in range(30):
            peer = wire.connect(running.port)
            if turn % 3:
                peer.sendall(wire.UNFINISHED[service] if turn % 3 == 1 else known.request)
            (wire.reset if turn % 2 else socket.socket.close)(peer)
        with wire.connect(running.port) as peer:
            peer.sendall(known.request)
            wire.take(peer, known.reply)
        assert wire.eventually(lambda: trials.total(running, "closed") == trials.total(running, "accepted"))
        assert wire.eventually(lambda: wire.descriptors(running.pid) == its)
        assert trials.total(running, "accepted") <= 31
