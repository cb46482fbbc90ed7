"""Tests of the folder of downloads: checks of its files, and messages when a download fails."""

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from elmo.bilm.weight_files import load_bilm
from elmo.common.errors import InputError
from elmo.download import folder as downloads
from elmo.download.__main__ import main
from elmo.download.folder import content_hash, obtain
from tests.elmo.common.waiting import wait_for
from tests.elmo.download.mirror import EIGHT_FORTY, MEDIUM, OPTIONS, SIX, TEXT, WEIGHTS, names_in


class TestFirstDownloadCounts:
    """Files that are published without a hash."""

    def test_a_local_change_is_reported(self, site, cache):
        path = cache / WEIGHTS.lstrip("/")
        obtain("allennlp/medium")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"{path.name}: expected the content of sha256 .* Remove it"):
            obtain("allennlp/medium")
        path.unlink()
        obtain("allennlp/medium")
        assert path.read_bytes() == site.files[WEIGHTS]

    @pytest.mark.parametrize("note", ["", "[]", "[" * 100_000, '{"sha256": 5}'])
    def test_a_damaged_note_is_written_again(self, site, cache, note):
        obtain("allennlp/medium")
        path = cache / f"{WEIGHTS.lstrip('/')}.checked"
        right = path.read_text()
        path.write_text(note)
        obtain("allennlp/medium")
        assert path.read_text() == right

    def test_a_change_on_the_server_is_reported(self, site, cache):
        path = cache / WEIGHTS.lstrip("/")
        obtain("allennlp/medium")
        path.unlink()
        site.files[WEIGHTS] = site.files[WEIGHTS][:-1] + b"?"  # another value in the last tensor
        with pytest.raises(InputError, match=rf"(?s)expected the content of sha256 .*remove {path}\.checked"):
            obtain("allennlp/medium")
        assert not path.exists()
        path.with_name(f"{path.name}.checked").unlink()
        obtain("allennlp/medium")
        assert path.read_bytes() == site.files[WEIGHTS]

    def test_damage_that_leaves_size_and_time_is_found_by_the_command(self, site, cache, capsys):
        path = cache / WEIGHTS.lstrip("/")
        assert main(["allennlp/medium"]) == 0
        before = path.stat()
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert main(["allennlp/medium"]) == 1
        assert "expected the content of sha256" in capsys.readouterr().err

    def test_the_hash_is_remembered_for_as_long_as_the_file_is_the_same(self, site, cache, tmp_path):
        path = cache / WEIGHTS.lstrip("/")
        obtain("allennlp/medium")
        right = hashlib.sha256(site.files[WEIGHTS]).hexdigest()
        assert content_hash(path) == right
        path.write_bytes(b"other")
        assert content_hash(path) == hashlib.sha256(b"other").hexdigest()
        plain = tmp_path / "vectors.txt"
        plain.write_bytes(b"mine")
        assert content_hash(plain) == hashlib.sha256(b"mine").hexdigest()
        assert names_in(tmp_path) == {"cache", "vectors.txt"}  # notes only next to downloads


PAGE = b"<!DOCTYPE html><html>Please log in</html>" * 50
KINDS = [
    (OPTIONS, PAGE, "expected a .json file, found 2,050 bytes that begin with b'<!DOCTYPE html>"),
    (OPTIONS, b"[1]", "expected a .json file"),
    (WEIGHTS, PAGE, "expected a .hdf5 file, found 2,050 bytes that begin with b'<!DOCTYPE html>"),
    (WEIGHTS, b"", "expected a .hdf5 file"),
]


class TestKinds:
    """Files that are published without a hash: a wrong first download is not accepted."""

    @pytest.mark.parametrize(("path", "content", "message"), KINDS)
    @pytest.mark.parametrize("lengths", [True, False])
    def test_wrong_files_from_a_server(self, site, cache, path, content, message, lengths):
        right, site.files[path], site.lengths = site.files[path], content, lengths
        with pytest.raises(InputError, match=message):
            obtain("allennlp/medium")
        assert not list(cache.rglob(f"{Path(path).name}*"))
        site.files[path], site.lengths = right, True
        obtain("allennlp/medium")
        assert (cache / path.lstrip("/")).read_bytes() == right

    @pytest.mark.parametrize(("path", "content", "message"), KINDS)
    def test_wrong_files_copied_by_hand(self, site, cache, path, content, message):
        obtain("allennlp/medium")
        target = cache / path.lstrip("/")
        target.write_bytes(content)
        target.with_name(f"{target.name}.checked").unlink()
        with pytest.raises(InputError, match=rf"{target.name}: {message}(?s:.*)Remove it to download it again"):
            obtain("allennlp/medium")


def test_unpacking_follows_no_link(site, cache, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (cache / "glove").mkdir(parents=True)
    (cache / "glove" / "glove.6B.50d.txt.partial").symlink_to(victim)
    assert obtain("glove/6B.50d").read_bytes() == TEXT[50]
    assert not (cache / "glove" / "glove.6B.50d.txt").is_symlink()
    assert victim.read_text() == "mine"


class TestByHand:
    """Files that a user copied into the folder."""

    def test_they_are_used_without_a_network(self, cache, bilm_files, bilm, monkeypatch):
        monkeypatch.setenv("ELMO_MIRROR", "http://nowhere.invalid")
        folder = cache / "allennlp" / "medium"
        folder.mkdir(parents=True)
        for path, content in zip((OPTIONS, WEIGHTS), bilm_files, strict=True):
            (cache / path.lstrip("/")).write_bytes(content)
        assert load_bilm("allennlp/medium").fingerprint() == bilm.fingerprint()

    def test_other_files_are_refused(self, site, cache):
        (cache / "glove").mkdir(parents=True)
        (cache / "glove" / "glove.6B.zip").write_bytes(EIGHT_FORTY)
        with pytest.raises(InputError, match=r"glove\.6B\.zip: expected .* bytes, found"):
            obtain("glove/6B.50d")
        (cache / "glove" / "glove.6B.zip").write_bytes(SIX[:-1] + b"?")
        with pytest.raises(InputError, match=r"glove\.6B\.zip: expected the content of sha256 .*, found .*Remove it"):
            obtain("glove/6B.50d")
        assert site.asked == []

    def test_a_folder_that_may_only_be_read(self, site, cache, bilm, monkeypatch):
        """Simulated, because root may write anywhere."""
        obtain("allennlp/medium")
        folder = cache / "allennlp" / "medium"
        for note in folder.glob("*.checked"):
            note.unlink()

        def denied(path):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(downloads, "replacing", denied)
        monkeypatch.setattr(downloads.os, "access", lambda *_: False)
        assert load_bilm("allennlp/medium").fingerprint() == bilm.fingerprint()
        assert not list(folder.glob("*.checked"))
        (folder / f"{MEDIUM}_weights.hdf5").unlink()
        with pytest.raises(InputError, match=r"medium: cannot be used: no permission to write; .* ELMO_CACHE"):
            obtain("allennlp/medium")


class TestNoNetwork:
    def test_the_message_says_what_to_place_where(self, cache, monkeypatch):
        monkeypatch.setattr(downloads, "_receive", refuse)
        monkeypatch.delenv("ELMO_MIRROR", raising=False)
        with pytest.raises(InputError) as raised:
            load_bilm("allennlp/small")
        text = str(raised.value)
        name = "elmo_2x1024_128_2048cnn_1xhighway"
        for end in ("options.json", "weights.hdf5"):
            url = f"https://allennlp.s3.amazonaws.com/models/elmo/2x1024_128_2048cnn_1xhighway/{name}_{end}"
            assert f"{cache}/allennlp/small/{name}_{end}  from  {url}" in text
        assert "https://s3-us-west-2.amazonaws.com/allennlp" in text  # the second URL was tried too
        assert "python -m elmo.download allennlp/small" in text
        assert "ELMO_CACHE" in text

    def test_of_vectors(self, cache, monkeypatch):
        monkeypatch.setattr(downloads, "_receive", refuse)
        monkeypatch.delenv("ELMO_MIRROR", raising=False)
        with pytest.raises(InputError) as raised:
            obtain("glove/6B.300d")
        assert f"{cache}/glove/glove.6B.zip  from  https://nlp.stanford.edu/data/glove.6B.zip" in str(raised.value)
        assert f"or, unpacked, {cache}/glove/glove.6B.300d.txt" in str(raised.value)

    def test_a_missing_file_on_the_server(self, site, capsys):
        del site.files[WEIGHTS]
        assert main(["allennlp/medium"]) == 1
        error = capsys.readouterr().err
        assert f"{site.url}{WEIGHTS}: the server answers 404" in error
        assert "Traceback" not in error

    def test_an_invalid_mirror(self, cache, monkeypatch):
        monkeypatch.setenv("ELMO_MIRROR", "/srv/mirror")
        with pytest.raises(
            InputError, match=r"ELMO_MIRROR: expected the URL of a server, https://\.\.\., found '/srv/mirror'"
        ):
            obtain("allennlp/small")


def refuse(url, *_):
    raise downloads.TransferError(f"{url}: Network is unreachable")


class TestSideBySide:
    def test_threads_share_one_download(self, site, cache, capsys):
        site.delay_s = 0.1
        found = []
        threads = [threading.Thread(target=lambda: found.append(obtain("glove/6B.50d").read_bytes())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [TEXT[50]] * 4
        assert len(site.asked) == 1
        assert "waiting for another process" in capsys.readouterr().err

    @pytest.mark.integration
    def test_one_process_downloads_and_when_it_is_killed_another_continues(self, site, cache, bilm):
        size = len(site.files[WEIGHTS])
        site.stop_at = (WEIGHTS, size // 2)
        command = [sys.executable, "-m", "elmo.download", "allennlp/medium"]

        def start():
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        with start() as first:
            partial = cache / f"{WEIGHTS.lstrip('/')}.partial"
            wait_for(lambda: partial.exists() and partial.stat().st_size)
            with start() as second, start() as third:
                for process in (second, third):
                    assert (
                        process.stderr.readline() == "allennlp/medium: waiting for another process that downloads it\n"
                    )
                first.kill()
                first.wait()
                site.go_on.set()
                for process in (second, third):
                    out, err = process.communicate(timeout=300)
                    assert (process.returncode, out) == (0, f"allennlp/medium: {cache / 'allennlp' / 'medium'}\n"), err
        asked = [asked for path, asked in site.asked if path == WEIGHTS]
        assert len(asked) == 2
        assert asked[0] is None
        assert 0 < int(asked[1].removeprefix("bytes=").removesuffix("-")) <= size // 2
        assert load_bilm("allennlp/medium").fingerprint() == bilm.fingerprint()
        assert not list(cache.rglob("*partial*"))
