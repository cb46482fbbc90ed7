"""A real HTTP server on loopback: it serves bytes from memory, with ranges and, on request, with faults."""

import hashlib
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What is served, how, and what was asked for.

    Attributes:
        files: content by path.
        url: where it is.
        ranges: answer to Range with 206; otherwise all is sent, whatever is asked.
        validators: send ETags.
        conditions: heed If-Range; otherwise a part of whatever file is there now is sent.
        lengths: send Content-Length, or this text in its place; otherwise the end of the connection is its end.
        content_type: what the files are said to be.
        cuts: how many bytes to send before the connection is closed, one for each answer, the first first.
        answers: statuses to answer with in place of a file, one for each request, the first first.
        redirects: path to path.
        delay_s: before each answer.
        stop_at: path and how many bytes of it to send before waiting for `go_on`.
        go_on: lets go of what has stopped; nothing stops afterwards.
        asked: (path, Range header) of every request.
        sent: bytes of all bodies.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    ranges: bool = True
    validators: bool = True
    conditions: bool = True
    lengths: bool | str = True
    content_type: str | None = None
    cuts: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    stop_at: tuple[str, int] | None = None
    go_on: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    sent: int = 0


@contextmanager
def serving(site: Site):
    """The site, on a port of its own, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            asked = self.headers.get("Range")
            site.asked.append((self.path, asked))
            time.sleep(site.delay_s)
            if site.answers:
                self.empty(site.answers.pop(0))
            elif self.path in site.redirects:
                self.empty(302, Location=site.redirects[self.path])
            elif self.path not in site.files:
                self.empty(404)
            else:
                self.content(site.files[self.path], asked)

        def empty(self, status, **headers):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def content(self, content, asked):
            tag = f'"{hashlib.md5(content).hexdigest()}"'
            start = 0
            same = self.headers.get("If-Range") in (None, tag) or not site.conditions
            if asked and site.ranges and same:
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.empty(416)
                    return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            if site.validators:
                self.send_header("ETag", tag)
            if site.content_type is not None:
                self.send_header("Content-Type", site.content_type)
            if site.lengths:
                right = str(len(content) - start)
                self.send_header("Content-Length", site.lengths if isinstance(site.lengths, str) else right)
            self.end_headers()
            cut = site.cuts.pop(0) if site.cuts else len(content)
            body = content[start:][:cut]
            before = site.stop_at[1] if site.stop_at is not None and site.stop_at[0] == self.path else 0
            self.wfile.write(body[:before])
            if before:
                site.go_on.wait(60)
            site.sent += len(body)  # before the client has it all, and looks
            self.wfile.write(body[before:])
            self.close_connection = True

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            pass  # a client that was killed

    server = Server(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        site.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
