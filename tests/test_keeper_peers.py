"""Real servers under a keeper: started, asked, stopped, and none of their processes left."""

import shutil
import socket
import sys
import textwrap

import pytest
import wire
from pyx.sampling import tree, tree_cpu

from pyx.keeper import Keeper

NGINX = """
    daemon {daemon};
    worker_processes 2;
    pid {folder}/pid;
    error_log {folder}/error.log;
    events {{}}
    http {{
        access_log off;
        server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello"; }} }}
    }}
    """
APPLICATION = """
    def app(environ, start):
        start("200 OK", [("Content-Length", "5")])
        return [b"hello"]
    """


def needs(program):
    found = shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/bin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def nginx(folder, port, daemon):
    (folder / "conf").write_text(NGINX.format(folder=folder, port=port, daemon=daemon))
    return [needs("nginx"), "-p", str(folder), "-c", str(folder / "conf"), "-e", str(folder / "error.log")]


def gunicorn(folder, port):
    pytest.importorskip("gunicorn")
    (folder / "app.py").write_text(textwrap.dedent(APPLICATION))
    words = ["-w", "2", "-b", f"127.0.0.1:{port}", "--chdir", str(folder), "app:app"]
    return [sys.executable, "-m", "gunicorn", *words]


def redis(folder, port):
    return [needs("redis-server"), "--port", str(port), "--dir", str(folder), "--save", ""]


HTTP = b"GET / HTTP/1.0\r\n\r\n", b"hello"
PEERS = {
    "nginx": (lambda folder, port: nginx(folder, port, "off"), HTTP, 3),
    "nginx as a daemon": (lambda folder, port: nginx(folder, port, "on"), HTTP, 3),
    "gunicorn": (gunicorn, HTTP, 3),
    "redis": (redis, (b"PING\r\n", b"+PONG\r\n"), 1),
}


def answers(port, request, reply):
    try:
        with wire.connect(port) as peer:
            peer.sendall(request)
            got = b""
            while not got.endswith(reply) and (more := peer.recv(4096)):
                got += more
            return got.endswith(reply)
    except OSError:
        return False


@pytest.mark.parametrize("peer", PEERS)
def test_a_real_server_is_started_asked_and_stopped(peer, tmp_path, port):
    words, (request, reply), processes = PEERS[peer]
    with Keeper(words(tmp_path, port)) as keeper:
        assert wire.eventually(lambda: answers(port, request, reply), 30), keeper.output()
        assert keeper.alive()
        assert wire.eventually(lambda: len(tree(keeper.tree)) == processes), tree(keeper.tree)
        running, used = tree(keeper.tree), tree_cpu(keeper.tree)
        assert all(answers(port, request, reply) for _ in range(300))
        assert tree_cpu(keeper.tree) > used
    assert not any(tree(pid) for pid in running)
    assert not answers(port, request, reply)
    assert keeper.status() is not None and keeper.status() != -9
