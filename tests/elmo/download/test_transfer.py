import hashlib
import itertools
import shutil
import socket
import urllib.error
import urllib.request
from email.message import Message
from types import SimpleNamespace

import pytest

from elmo.common.errors import InputError
from elmo.download import transfer
from elmo.download.transfer import TransferError, fetch
from tests.serving import Site, serving

CONTENT = hashlib.shake_256(b"weights").digest(1_000_000)  # without repetition, so that misplaced bytes show
HASH = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)
PATH = "/file.bin"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(transfer, "PAUSE_S", 0.0)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def site():
    with serving(Site({PATH: CONTENT})) as site:
        yield site


@pytest.fixture
def target(tmp_path):
    return tmp_path / "file.bin"


@pytest.fixture
def get(site, target):
    def run(size=SIZE, sha256=HASH, path=PATH, most=None):
        shown = []
        fetch(site.url + path, target, lambda done, total: shown.append((done, total)), size, sha256, most)
        return shown

    return run


def clock(seconds):
    """A time module whose clock advances by this many seconds with every call."""
    readings = itertools.count(0.0, seconds)
    return SimpleNamespace(monotonic=lambda: next(readings), sleep=lambda _: None)


def ranges(site):
    return [asked for _, asked in site.asked]


def test_a_download(get, site, target):
    shown = get()
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert shown[0] == (0, SIZE)
    assert shown[-1] == (SIZE, SIZE)
    assert shown == sorted(shown)
    assert ranges(site) == [None]


def test_after_an_early_close_the_transfer_continues(get, site, target):
    site.cuts = [300_000, 1, 500_000]
    shown = get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=300000-", "bytes=300001-", "bytes=800001-"]
    assert site.sent == len(CONTENT)  # nothing twice
    assert shown == sorted(shown)


def test_a_partial_file_of_an_earlier_process_is_continued(get, site, target, monkeypatch):
    monkeypatch.setattr(transfer, "TRIES", 1)
    site.cuts = [400_000, 0]
    with pytest.raises(TransferError, match=r"file\.bin: the connection was closed after 400,000 of 1,000,000 bytes"):
        get()
    assert not target.exists()
    get()
    assert target.read_bytes() == CONTENT
    assert site.sent == len(CONTENT)


def test_killed_between_the_last_byte_and_the_name(get, site, target):
    site.cuts = [len(CONTENT) - 10]
    target.with_name("file.bin.partial").write_bytes(CONTENT)
    target.with_name("file.bin.partial.json").write_text(f'{{"validator": null, "total": {len(CONTENT)}}}')
    get()
    assert target.read_bytes() == CONTENT
    assert site.asked == []


@pytest.mark.parametrize(
    "seen",
    [
        *(None, "", "{", "[]", '{"other": 1}', '{"validator": null, "total": null}', "[" * 100_000),
        *('{"validator": "a\\r\\nX-Other: b"}', '{"validator": "²"}', '{"validator": 5, "total": "x"}'),
    ],
)
def test_a_partial_file_of_unknown_origin_is_not_continued(get, site, target, seen):
    target.with_name("file.bin.partial").write_bytes(b"something else")
    if seen is not None:
        target.with_name("file.bin.partial.json").write_text(seen)
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == [None]


@pytest.mark.parametrize("known", [True, False])
def test_two_versions_are_never_mixed(get, site, target, monkeypatch, known):
    """Also without a known hash."""
    monkeypatch.setattr(transfer, "TRIES", 1)
    site.cuts = [400_000, 0]
    with pytest.raises(TransferError):
        get()
    site.files[PATH] = new = CONTENT[::-1]
    get(sha256=hashlib.sha256(new).hexdigest() if known else None)
    assert target.read_bytes() == new
    assert ranges(site)[-1] == "bytes=400000-"


def test_another_version_starts_again(get, site, target, monkeypatch):
    """It has the same length and the server ignores If-Range: only the ETag shows it."""
    monkeypatch.setattr(transfer, "TRIES", 1)
    site.conditions = False
    site.cuts = [400_000, 0]
    with pytest.raises(TransferError):
        get()
    site.files[PATH] = new = CONTENT[::-1]
    monkeypatch.setattr(transfer, "TRIES", 5)
    get(sha256=None)
    assert target.read_bytes() == new
    assert ranges(site)[-2:] == ["bytes=400000-", None]


def test_without_versions_the_download_starts_again(get, site, target):
    site.validators = False
    site.cuts = [300_000]
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == [None, None]


def test_without_range_support_the_download_starts_again(get, site, target):
    site.ranges = False
    site.cuts = [300_000, 200_000, 400_000]
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=300000-", "bytes=200000-", "bytes=400000-"]


def test_a_partial_file_that_is_longer_than_the_file(get, site, target):
    tag = hashlib.md5(CONTENT).hexdigest()
    target.with_name("file.bin.partial").write_bytes(CONTENT + b"more")
    target.with_name("file.bin.partial.json").write_text(f'{{"validator": "\\"{tag}\\"", "total": 2000000}}')
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == ["bytes=1000004-", None]


def test_tries_without_new_bytes_are_limited(get, site, target):
    site.cuts = [300_000] + [0] * 50
    with pytest.raises(TransferError, match="closed after 300,000"):
        get()
    assert len(site.asked) == 1 + transfer.TRIES
    assert target.with_name("file.bin.partial").read_bytes() == CONTENT[:300_000]


def test_a_busy_server_is_asked_again(get, site, target):
    site.answers = [503, 429]
    get()
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_missing_file_is_requested_once(get, site, target, status):
    site.answers = [status] * 9
    with pytest.raises(TransferError, match=rf"http://127\.0\.0\.1:\d+/file\.bin: the server answers {status}"):
        get()
    assert len(site.asked) == 1
    assert not target.exists()


def test_redirects_keep_the_range(get, site, target):
    site.redirects = {"/old.bin": PATH}
    site.cuts = [300_000]
    get(path="/old.bin")
    assert target.read_bytes() == CONTENT
    assert site.asked[-1] == (PATH, "bytes=300000-")


def test_no_redirect_from_https_to_http():
    request = urllib.request.Request("https://a.example/file")
    follow = transfer._NoDowngrade().redirect_request
    with pytest.raises(urllib.error.URLError, match=r"redirects to http://b\.example/file, which is not https"):
        follow(request, None, 302, "Found", Message(), "http://b.example/file")
    assert follow(request, None, 302, "Found", Message(), "https://b.example/file").full_url == "https://b.example/file"


def test_right_size_and_wrong_content(get, site, target):
    damaged = bytearray(CONTENT)
    damaged[500_000] ^= 1
    site.files[PATH] = bytes(damaged)
    with pytest.raises(TransferError, match=rf"file\.bin: expected content of sha256 {HASH}, found [0-9a-f]{{64}};"):
        get()
    assert list(target.parent.iterdir()) == []  # the next try does not continue it


def test_wrong_size_is_reported_before_anything_is_sent(get, site, target):
    site.files[PATH] = b"<html>Please log in</html>"
    with pytest.raises(TransferError, match=r"expected a file of 1,000,000 bytes, the server offers 26"):
        get()
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("known", [{"size": SIZE}, {"size": None, "most": SIZE}])
def test_an_endless_response_is_stopped(get, site, target, known):
    site.files[PATH] = CONTENT * 20
    site.lengths = False
    with pytest.raises(TransferError, match=r"expected at most 1,000,000 bytes, got more; it was deleted"):
        get(sha256=None, **known)
    assert list(target.parent.iterdir()) == []
    assert len(site.asked) == 1


def test_a_file_above_the_limit_is_refused_before_anything_is_sent(get, site, target):
    with pytest.raises(TransferError, match=r"expected a file of at most 999,999 bytes, the server offers 1,000,000"):
        get(size=None, sha256=None, most=SIZE - 1)
    assert list(target.parent.iterdir()) == []
    get(size=None, sha256=None, most=SIZE)
    assert target.read_bytes() == CONTENT


def test_a_web_page_is_refused(get, site, target):
    site.content_type = "text/html; charset=utf-8"
    with pytest.raises(TransferError, match=r"file\.bin: expected a file, the server sends a web page"):
        get(size=None, sha256=None)
    assert list(target.parent.iterdir()) == []


def test_a_very_slow_server_is_given_up(get, site, target, monkeypatch):
    """With a simulated clock."""
    with monkeypatch.context() as patched:
        patched.setattr(transfer, "time", clock(3600.0))
        patched.setattr(transfer, "CHUNK", 10_000)
        with pytest.raises(TransferError, match=r"fewer than 1,000 bytes a second in 3600 seconds; .* continues there"):
            get()
    assert len(site.asked) == 1
    partial = target.with_name("file.bin.partial")
    assert CONTENT.startswith(partial.read_bytes())  # the bytes so far are kept
    get()
    assert target.read_bytes() == CONTENT


def test_a_slow_server_above_the_limit_is_not_given_up(get, target, monkeypatch):
    monkeypatch.setattr(transfer, "time", clock(61.0))
    monkeypatch.setattr(transfer, "SLOWEST", 0.001)
    get()
    assert target.read_bytes() == CONTENT


def test_a_server_that_sends_a_byte_at_a_time_is_given_up(get, site):
    site.cuts = [1] * 100
    with pytest.raises(TransferError, match=r"the connection was closed after 5 of 1,000,000 bytes"):
        get()
    assert len(site.asked) == transfer.TRIES


@pytest.mark.parametrize("length", ["²", "9" * 5000, "-5", "many"])
def test_a_length_that_is_none(get, site, length):
    site.lengths = length
    with pytest.raises(TransferError, match=r"file\.bin: expected a Content-Length, the server sends '.{1,85}$"):
        get()


def test_a_redirect_to_no_url(get, site):
    site.redirects = {PATH: "http://[::1"}
    with pytest.raises(TransferError, match=r"file\.bin: Invalid IPv6 URL"):
        get()


class TestLinks:
    """A link in place of the partial file: its target is not touched."""

    @pytest.fixture
    def victim(self, tmp_path_factory):
        path = tmp_path_factory.mktemp("elsewhere") / "victim"
        path.write_bytes(CONTENT[:400_000])
        return path

    @pytest.mark.parametrize("end", [".partial", ".partial.json"])
    def test_a_link_is_removed(self, get, target, victim, end):
        target.with_name(f"file.bin{end}").symlink_to(victim)
        get()
        assert victim.read_bytes() == CONTENT[:400_000]
        assert target.read_bytes() == CONTENT
        assert not target.is_symlink()

    def test_a_link_that_looks_like_the_beginning_is_not_continued(self, get, site, target, victim):
        target.with_name("file.bin.partial").symlink_to(victim)
        tag = hashlib.md5(CONTENT).hexdigest()
        target.with_name("file.bin.partial.json").write_text(f'{{"validator": "\\"{tag}\\"", "total": {SIZE}}}')
        get()
        assert ranges(site) == [None]
        assert victim.read_bytes() == CONTENT[:400_000]

    @pytest.mark.parametrize("begun", [False, True])
    def test_a_link_that_appears_after_the_check(self, get, site, target, victim, begun, monkeypatch):
        partial = target.with_name("file.bin.partial")
        if begun:
            site.cuts = [400_000]
        answer = transfer._open

        def link_and_answer(*arguments):
            response = answer(*arguments)
            if len(site.asked) == 1 + begun:
                partial.unlink(missing_ok=True)
                partial.symlink_to(victim)
            return response

        monkeypatch.setattr(transfer, "_open", link_and_answer)
        if begun:
            with pytest.raises(InputError, match=r"file\.bin\.partial: cannot write: Too many levels of symbolic"):
                get()
        else:
            get()
            assert target.read_bytes() == CONTENT
        assert victim.read_bytes() == CONTENT[:400_000]


def test_connection_refused(target):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin"
        with pytest.raises(TransferError, match=rf"{url}: Connection refused"):
            fetch(url, target, lambda *_: None)


def test_a_silent_server(target, monkeypatch):
    monkeypatch.setattr(transfer, "PATIENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.bin"
        with pytest.raises(TransferError, match=rf"{url}: no answer within 0 seconds"):
            fetch(url, target, lambda *_: None)


def test_an_unknown_host(target):
    with pytest.raises(TransferError, match=r"http://nowhere\.invalid/file\.bin: .+"):
        fetch("http://nowhere.invalid/file.bin", target, lambda *_: None)


def test_not_enough_disk_space(get, target, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 999_999}))
    with pytest.raises(InputError, match=r"the download needs about 1\.0 MB, 1\.0 MB are free"):
        get()
    assert not target.exists()


def test_local_errors_are_not_network_errors(get, site, target):
    target.with_name("file.bin.partial").mkdir()
    with pytest.raises(InputError, match=r"file\.bin\.partial: cannot write: Is a directory"):
        get()
    assert len(site.asked) == 1
