"""Makes a PNG of a page by a browser without a window."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LIMIT = 30.0  # s for a picture
SIZE = re.compile(r'<meta name="picture" content="([0-9]+)x([0-9]+)">')
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
        with tempfile.TemporaryDirectory(prefix="kneepoint-picture-", ignore_cleanup_errors=True) as folder:
            draft = Path(folder, "picture.png")
            why = _run(_words(browser, page, draft, folder, found.groups() if found else USUAL), limit)
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


def _run(words: Sequence[str], limit: float) -> str | None:
    """Runs the browser in a process group of its own, which is ended whatever happens; why it failed, or None."""
    started = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        status = started.wait(limit)
    except subprocess.TimeoutExpired:
        return f"it took more than {limit:g} s"
    finally:
        _end(started)
    return f"it ended with status {status}" if status else None


def _end(started: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # the usual end: nothing is left of it
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()
