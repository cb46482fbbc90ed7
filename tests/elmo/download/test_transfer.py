import hashlib
import socket
import urllib.error
import urllib.request
from email.message import Message

import pytest

from elmo.download import transfer
from elmo.download.transfer import TransferError, fetch
from elmo.errors import InputError
from tests.serving import Site, serving

CONTENT = hashlib.shake_256(b"weights").digest(1_000_000)  # does not repeat itself: a piece out of place shows
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
    def run(size=SIZE, sha256=HASH, path=PATH):
        shown = []
        fetch(site.url + path, target, lambda done, total: shown.append((done, total)), size, sha256)
        return shown

    return run


def ranges(site):
    return [asked for _, asked in site.asked]


def test_a_file_comes(get, site, target):
    shown = get()
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert shown[0] == (0, SIZE)
    assert shown[-1] == (SIZE, SIZE)
    assert shown == sorted(shown)
    assert ranges(site) == [None]


def test_a_connection_that_is_closed_early_goes_on_where_it_stopped(get, site, target):
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


@pytest.mark.parametrize("seen", [None, "", "{", "[]", '{"other": 1}', '{"validator": null, "total": null}'])
def test_a_partial_file_of_unknown_origin_is_not_built_upon(get, site, target, seen):
    target.with_name("file.bin.partial").write_bytes(b"something else")
    if seen is not None:
        target.with_name("file.bin.partial.json").write_text(seen)
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == [None]


@pytest.mark.parametrize("known", [True, False])
def test_two_versions_are_never_spliced(get, site, target, monkeypatch, known):
    """Without a hash to check it by, too."""
    monkeypatch.setattr(transfer, "TRIES", 1)
    site.cuts = [400_000, 0]
    with pytest.raises(TransferError):
        get()
    site.files[PATH] = new = CONTENT[::-1]
    get(sha256=hashlib.sha256(new).hexdigest() if known else None)
    assert target.read_bytes() == new
    assert ranges(site)[-1] == "bytes=400000-"


def test_a_server_without_versions_starts_anew(get, site, target):
    site.validators = False
    site.cuts = [300_000]
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == [None, None]


def test_a_server_that_knows_no_ranges_starts_anew(get, site, target):
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


def test_tries_that_bring_nothing_come_to_an_end(get, site, target):
    site.cuts = [300_000] + [0] * 50
    with pytest.raises(TransferError, match="closed after 300,000"):
        get()
    assert len(site.asked) == 1 + transfer.TRIES
    assert target.with_name("file.bin.partial").read_bytes() == CONTENT[:300_000]


def test_a_server_that_asks_for_patience_is_asked_again(get, site, target):
    site.answers = [503, 429]
    get()
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [403, 404, 410])
def test_what_is_not_there_is_not_asked_for_twice(get, site, target, status):
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


def test_https_is_not_left():
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
    assert list(target.parent.iterdir()) == []  # the next try does not go on from it


def test_wrong_size_is_told_before_anything_is_sent(get, site, target):
    site.files[PATH] = b"<html>Please log in</html>"
    with pytest.raises(TransferError, match=r"expected a file of 1,000,000 bytes, the server offers 26"):
        get()
    assert list(target.parent.iterdir()) == []


def test_nobody_listens(target):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, and not listening: refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin"
        with pytest.raises(TransferError, match=rf"{url}: Connection refused"):
            fetch(url, target, lambda *_: None)


def test_somebody_listens_and_says_nothing(target, monkeypatch):
    monkeypatch.setattr(transfer, "PATIENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.bin"
        with pytest.raises(TransferError, match=rf"{url}: no answer within 0 seconds"):
            fetch(url, target, lambda *_: None)


def test_a_name_that_nobody_knows(target):
    with pytest.raises(TransferError, match=r"http://nowhere\.invalid/file\.bin: .+"):
        fetch("http://nowhere.invalid/file.bin", target, lambda *_: None)


def test_no_room(get, target, monkeypatch):
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 999_999}))
    with pytest.raises(InputError, match=r"needs room for 0\.0 GB, has 0\.0"):
        get()
    assert not target.exists()


def test_what_goes_wrong_here_is_not_taken_for_the_network(get, site, target):
    target.with_name("file.bin.partial").mkdir()
    with pytest.raises(InputError, match=r"file\.bin\.partial: cannot write: Is a directory"):
        get()
    assert len(site.asked) == 1
