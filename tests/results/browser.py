"""A real browser for the report's tests, and for its screenshot:

python -m tests.results.browser results/report.html results/report.png
"""

import argparse
import json
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# The page stands in a frame, because no browser window is as narrow as a phone; what was measured ends in the title.
PROBE = """<!doctype html><meta charset="utf-8"><title>waiting</title>
<style>body{{margin:0}}iframe{{border:0;width:{width}px;height:{height}px}}</style>
<iframe {source}></iframe>
<script>
addEventListener("load", async () => {{
  const page = document.querySelector("iframe").contentDocument, root = page.documentElement;
  const until = async (done) => {{ while (!done()) await new Promise(next => setTimeout(next, 20)); }};
  const wide = [...page.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > {width} + 1
    && !e.closest("pre, .scores, .wide, .chips, svg"));  // these have room of their own to scroll
  const all = (selector) => [...page.querySelectorAll(selector)];
  document.title = JSON.stringify({{width: root.scrollWidth, height: root.scrollHeight,
    drawings: all("svg").length, too_wide: wide.slice(0, 5).map(e => e.outerHTML.slice(0, 80)),
    found: await (async () => {{ {script} }})() ?? null}});
}});
</script>"""


@dataclass(frozen=True)
class Seen:
    """What the browser made of a page.

    Attributes:
        width: Of the page, in pixels.
        height: Of the page, in pixels.
        drawings: The number of SVG drawings.
        too_wide: Elements that are not within the screen's width.
        found: What the script returned.
        console: What the browser said on its console.
    """

    width: int
    height: int
    drawings: int
    too_wide: list[str]
    found: Any
    console: list[str]


def browser() -> str | None:
    """The browser's command, or None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def look(page: Path, width: int, *, dark: bool = False, script: str = "") -> Seen:
    """Opens the page as wide as this and measures it.

    Args:
        page: The file.
        width: Of the screen, in pixels.
        dark: Whether the reader's system is dark.
        script: Statements to run in it that return something; `all(selector)` finds elements.
    """
    with tempfile.TemporaryDirectory() as folder:
        probe = _probe(page, Path(folder), width, 3000, script)
        return _seen(folder, dark, probe.as_uri())


def visit(
    site: Path, page: str, width: int, *, dark: bool = False, script: str = "", files: Sequence[Path] = ()
) -> Seen:
    """Serves a folder on this machine alone, opens one of its pages as wide as this and measures it.

    Args:
        site: The folder.
        page: The page below it, as in an address.
        width: Of the screen, in pixels.
        dark: Whether the reader's system is dark.
        script: As in `look`, but it may wait: `await until(() => ...)`.
        files: Further files to serve, by their names.
    """
    probe = PROBE.format(width=width, height=3000, source=f'src="{escape(page)}"', script=script).encode()
    others = {"/probe.html": probe, **{f"/{path.name}": path.read_bytes() for path in files}}

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in others:
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Type", self.guess_type(self.path))
            self.end_headers()
            self.wfile.write(others[self.path])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with tempfile.TemporaryDirectory() as folder:
                place = f"http://127.0.0.1:{server.server_port}/probe.html"
                return _seen(folder, dark, "--virtual-time-budget=60000", place)
        finally:
            server.shutdown()


def _seen(folder: str, dark: bool, *arguments: str) -> Seen:
    done = _run(folder, dark, "--dump-dom", "--enable-logging=stderr", *arguments)
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert title, done.stderr
    assert title.group(1) != "waiting", console
    return Seen(**json.loads(unescape(title.group(1))), console=console)


def screenshot(page: Path, out: Path, width: int, height: int, *, dark: bool = False) -> None:
    """Paints the top of the page into a PNG."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        probe, shot = _probe(page, Path(folder), width, height), Path(folder, "shot.png")
        _run(folder, dark, f"--window-size={max(width, 500)},{height}", f"--screenshot={shot}", probe.as_uri())
        with Image.open(shot) as image:
            image.convert("RGB").crop((0, 0, width, height)).save(out, optimize=True)


def _probe(page: Path, folder: Path, width: int, height: int, script: str = "") -> Path:
    path = folder / "probe.html"
    source = f'srcdoc="{escape(page.read_text(encoding="utf-8"))}"'
    text = PROBE.format(width=width, height=height, source=source, script=script)
    path.write_text(text, encoding="utf-8")
    return path


def _run(folder: str, dark: bool, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = browser()
    assert command, f"expected one of {', '.join(NAMES)} on the path"
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile"]
    return subprocess.run(
        [command, *fixed, scheme, *arguments], capture_output=True, text=True, check=True, timeout=120
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Screenshot of the report's top, for the README.")
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=1500)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    screenshot(options.page, options.out, options.width, options.height, dark=options.dark)
