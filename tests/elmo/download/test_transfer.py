import hashlib
import shutil
import socket

import pytest
from rich.console import Console

from elmo import download as transfer
from elmo.common.errors import InputError
from elmo.download import TransferError, fetch
from elmo.published import PublishedFile
from tests.serving import Site, serving

CONTENT = hashlib.shake_256(b"weights").digest(1_000_000)  # without repetition, so that misplaced bytes show
HASH = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)
PATH = "/file.bin"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setitem(transfer.BUSY, "backoff_factor", 0.0)
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
        download(site.url + path, target, size, sha256)

    return run


def download(url, target, size=None, sha256=None):
    fetch(url, target, PublishedFile(target.name, (), size, sha256), Console(quiet=True), "file")


def ranges(site):
    return [asked for _, asked in site.asked]


def test_a_download(get, site, target):
    get()
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert ranges(site) == [None]


def test_after_an_early_close_the_transfer_continues(get, site, target):
    site.cuts = [300_000, 1, 500_000]
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site) == [None, "bytes=300000-", "bytes=300001-", "bytes=800001-"]
    assert site.sent == len(CONTENT)  # nothing twice


def test_a_partial_file_of_an_earlier_process_is_continued(get, site, target):
    site.cuts = [400_000, 0]
    with pytest.raises(TransferError, match=r"file\.bin: "):
        get()
    assert not target.exists()
    kept = target.with_name("file.bin.partial").stat().st_size
    assert kept > 0
    get()
    assert target.read_bytes() == CONTENT
    assert ranges(site)[-1] == f"bytes={kept}-"


@pytest.mark.parametrize("length", [14, SIZE, SIZE + 1])
def test_other_bytes_in_a_partial_file(get, site, target, length):
    """They are found by the hash, and deleted; the next try has the file."""
    target.with_name("file.bin.partial").write_bytes(b"?" * length)
    if length <= SIZE:
        with pytest.raises(TransferError, match=r"expected the content of sha256 .*; it was deleted"):
            get()
    get()
    assert target.read_bytes() == CONTENT


def test_without_a_known_hash_the_download_starts_again(get, site, target):
    target.with_name("file.bin.partial").write_bytes(CONTENT[:400_000])
    site.cuts = [300_000]
    get(sha256=None)
    assert target.read_bytes() == CONTENT
    assert ranges(site) == [None, None]


def test_without_range_support_the_download_starts_again(get, site, target):
    site.ranges = False
    site.cuts = [300_000]
    get()
    assert target.read_bytes() == CONTENT
    assert len(site.asked) == 2


def test_a_busy_server_is_asked_again(get, site, target):
    site.answers = [503, 429]
    get()
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_missing_file_is_requested_once(get, site, target, status):
    site.answers = [status] * 9
    with pytest.raises(TransferError, match=rf"http://127\.0\.0\.1:\d+/file\.bin: {status} Client Error"):
        get()
    assert len(site.asked) == 1
    assert not target.exists()


def test_redirects_keep_the_range(get, site, target):
    site.redirects = {"/old.bin": PATH}
    site.cuts = [300_000]
    get(path="/old.bin")
    assert target.read_bytes() == CONTENT
    assert site.asked[-1][0] == PATH
    assert site.asked[-1][1] is not None


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


def test_connection_refused(target):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin"
        with pytest.raises(TransferError, match=rf"{url}: .*Connection refused"):
            download(url, target)


def test_a_silent_server(target, monkeypatch):
    monkeypatch.setattr(transfer, "PATIENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.bin"
        with pytest.raises(TransferError, match=rf"{url}: .*Read timed out"):
            download(url, target)


def test_an_unknown_host(target):
    with pytest.raises(TransferError, match=r"http://nowhere\.invalid/file\.bin: .+"):
        download("http://nowhere.invalid/file.bin", target)


def test_not_enough_disk_space(get, target, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 999_999}))
    with pytest.raises(InputError, match=r"the download needs about 1\.0 MB, 1\.0 MB are free"):
        get()
    assert not target.exists()
