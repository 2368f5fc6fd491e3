"""Makes a PNG of a page by a browser without a window."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LIMIT = 30.0  # s for a picture
SIZE = re.compile(r'<meta name="picture" content="([0-9]+)x([0-9]+)">')
# Waits for the browser's process group, then for the end of its input, and leaves nothing of either.
SWEEP = """PATH=/bin:/usr/bin
read -r group; read -r end
[ "$group" ] && kill -KILL "-$group"
rm -rf "$0" || { sleep 0.3; rm -rf "$0"; }"""
USUAL = ("1200", "1600")  # px, of a page that does not say its size


def write_png(page: Path, png: Path, limit: float = LIMIT) -> str | None:
    """Makes the picture of a page; one that was there is replaced at once or not at all.

    Parameters
    ----------
    page : path
        HTML; its head may say the picture's size, and its style what PAGE#picture shows.
    png : path
        Of the picture.
    limit : float
        s after which the browser and all that it has started are ended.

    Returns
    -------
    str or None
        One line on why there is no picture; None where there is one.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return f"no browser found: open {page}; install chromium for a PNG"
    try:
        found = SIZE.search(page.read_text(encoding="utf-8"))
        with _swept() as (folder, sweeper):
            draft = Path(folder, "picture.png")
            words = _words(browser, page, draft, folder, found.groups() if found else USUAL)
            why = _run(words, folder, sweeper, limit)
            if why is None and not draft.exists():
                why = "it ended without one"
            if why is None:
                beside = png.with_name(f".{png.name}.{os.getpid()}")
                shutil.move(draft, beside)
                beside.replace(png)
    except OSError as error:
        why = f"{error.filename or png}: {error.strerror}"
    return f"no picture by {Path(browser).name} ({why}): open {page}" if why else None


def _words(browser: str, page: Path, draft: Path, folder: str, size: Sequence[str]) -> list[str]:
    words = [
        browser,
        "--headless",
        "--disable-gpu",
        "--disable-breakpad",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={folder}/profile",
        f"--window-size={size[0]},{size[1]}",
        f"--screenshot={draft}",
    ]
    # Chromium refuses to run in its sandbox as root; the page is ours and may load nothing.
    words += ["--no-sandbox"] if os.geteuid() == 0 else []
    return [*words, f"{page.resolve().as_uri()}#picture"]


@contextmanager
def _swept() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A folder, and the process that removes it at the end of this or of our own process, however that comes."""
    folder = tempfile.mkdtemp(prefix="kneepoint-picture-")
    with subprocess.Popen(
        ["/bin/sh", "-c", SWEEP, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as sweeper:
        yield folder, sweeper


def _run(words: Sequence[str], folder: str, sweeper: subprocess.Popen[bytes], limit: float) -> str | None:
    """Runs the browser in a process group of its own, which the sweeper ends; why it failed, or None."""
    started = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=folder,
        env={**os.environ, "TMPDIR": "."},  # a whole path could be too long for its socket
    )
    assert sweeper.stdin is not None
    os.write(sweeper.stdin.fileno(), b"%d\n" % started.pid)
    try:
        status = started.wait(limit)
    except subprocess.TimeoutExpired:
        return f"it took more than {limit:g} s"
    return f"it ended with status {status}" if status else None
