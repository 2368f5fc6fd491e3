"""nginx with one worker, as a peer of benchmarks."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CONFIGURATION = """
daemon off; master_process off; worker_processes 1;
pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000; default_type text/plain;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 "{page}"; }} }}
}}
"""


def need(*programs: str) -> None:
    """Skips where one is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


@contextmanager
def nginx(folder: Path, page: str, cpu: int) -> Iterator[tuple[int, int]]:
    """Gives its process and its port."""
    need("nginx", "wrk", "taskset")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings = folder / "nginx.conf"
    settings.write_text(CONFIGURATION.format(folder=folder, port=port, page=page))
    words = ["taskset", "-c", str(cpu), "nginx", "-p", str(folder), "-c", str(settings)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + 10
        while not _answers(port):
            assert time.monotonic() < limit, "nginx does not answer"
            time.sleep(0.01)
        yield process.pid, port
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0
