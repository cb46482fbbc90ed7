import hashlib
import shutil
import socket
from types import SimpleNamespace

import pytest

from elmo.common.errors import InputError
from elmo.download import folder as transfer
from elmo.download.folder import TransferError, fetch
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
    def run(size=SIZE, sha256=HASH, path=PATH):
        shown = []
        assert fetch(site.url + path, target, lambda *state: shown.append(state), size, sha256) == sha256 or HASH
        return shown

    return run


def ranges(site):
    return [asked for _, asked in site.asked]


def test_a_download(get, site, target):
    shown = get()
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
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
    with pytest.raises(TransferError, match=r"file\.bin: .*600000 more expected.*; the first 400,000 bytes are kept"):
        get()
    assert not target.exists()
    get()
    assert target.read_bytes() == CONTENT
    assert site.sent == len(CONTENT)


@pytest.mark.parametrize(
    "seen",
    [
        *(None, "", '"', "tag", 'W/"tag"', '"a"\n', '"a\\r\\nX-Other: b"', '"²"', '"another"'),
    ],
)
def test_a_partial_file_of_unknown_origin_is_not_continued(get, site, target, seen):
    target.with_name("file.bin.partial").write_bytes(b"something else")
    if seen is not None:
        target.with_name("file.bin.partial.etag").write_text(seen)
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == ["bytes=14-" if seen == '"another"' else None]


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
    target.with_name("file.bin.partial.etag").write_text(f'"{tag}"')
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == ["bytes=1000004-", None]


def test_tries_without_new_bytes_are_limited(get, site, target):
    site.cuts = [300_000] + [0] * 50
    with pytest.raises(TransferError, match="first 300,000 bytes are kept"):
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


def test_no_redirect_from_https_to_http(target):
    hops = [SimpleNamespace(url=f"{scheme}.example/file") for scheme in ("https://a", "http://b", "https://c")]
    response = SimpleNamespace(url="https://c.example/file", history=hops)
    with pytest.raises(TransferError, match=r"redirects to https://c\.example/file, which is not https"):
        transfer._start_of(response, hops[0].url, target, 0)


def test_right_size_and_wrong_content(get, site, target):
    damaged = bytearray(CONTENT)
    damaged[500_000] ^= 1
    site.files[PATH] = bytes(damaged)
    with pytest.raises(TransferError, match=rf"file\.bin: expected .* of sha256 {HASH}, found [0-9a-f]{{64}};"):
        get()
    assert list(target.parent.iterdir()) == []  # the next try does not continue it


def test_wrong_size(get, site, target):
    site.files[PATH] = b"Please log in"
    with pytest.raises(TransferError, match=r"expected 1,000,000 bytes, found 13; it was deleted"):
        get()
    assert list(target.parent.iterdir()) == []


def test_a_web_page_is_refused(get, site, target):
    site.content_type = "text/html; charset=utf-8"
    with pytest.raises(TransferError, match=r"file\.bin: expected a file, the server sends a web page"):
        get(size=None, sha256=None)
    assert list(target.parent.iterdir()) == []


class TestLinks:
    """A link in place of the partial file: its target is not touched."""

    @pytest.fixture
    def victim(self, tmp_path_factory):
        path = tmp_path_factory.mktemp("elsewhere") / "victim"
        path.write_bytes(CONTENT[:400_000])
        return path

    @pytest.mark.parametrize("end", [".partial", ".partial.etag"])
    def test_a_link_is_removed(self, get, target, victim, end):
        target.with_name(f"file.bin{end}").symlink_to(victim)
        get()
        assert victim.read_bytes() == CONTENT[:400_000]
        assert target.read_bytes() == CONTENT
        assert not target.is_symlink()

    def test_a_link_that_looks_like_the_beginning_is_not_continued(self, get, site, target, victim):
        target.with_name("file.bin.partial").symlink_to(victim)
        tag = hashlib.md5(CONTENT).hexdigest()
        target.with_name("file.bin.partial.etag").write_text(f'"{tag}"')
        get()
        assert ranges(site) == [None]
        assert victim.read_bytes() == CONTENT[:400_000]

    @pytest.mark.parametrize("begun", [False, True])
    def test_a_link_that_appears_after_the_check(self, get, site, target, victim, begun, monkeypatch):
        partial = target.with_name("file.bin.partial")
        if begun:
            site.cuts = [400_000]
        start_of = transfer._start_of

        def link_and_answer(*arguments):
            start = start_of(*arguments)
            if len(site.asked) == 1 + begun:
                partial.unlink(missing_ok=True)
                partial.symlink_to(victim)
            return start

        monkeypatch.setattr(transfer, "_start_of", link_and_answer)
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
        with pytest.raises(TransferError, match=rf"{url}: .*Connection refused"):
            fetch(url, target, lambda *_: None)


def test_a_silent_server(target, monkeypatch):
    monkeypatch.setattr(transfer, "PATIENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.bin"
        with pytest.raises(TransferError, match=rf"{url}: .*Read timed out"):
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
