"""Tests of the folder of downloads: checks of its files, and messages when a download fails."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from elmo import download as downloads
from elmo.bilm.weight_files import load_bilm
from elmo.common.errors import InputError
from elmo.download import main, obtain
from tests.elmo.common.waiting import wait_for
from tests.elmo.download.mirror import EIGHT_FORTY, MEDIUM, OPTIONS, SIX, TEXT, WEIGHTS

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
        with pytest.raises(InputError, match=rf"{target.name}: {message}(?s:.*)Remove it to download it again"):
            obtain("allennlp/medium", thorough=True)


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
        monkeypatch.setattr(downloads.os, "access", lambda *_: False)
        assert load_bilm("allennlp/medium").fingerprint() == bilm.fingerprint()
        (folder / f"{MEDIUM}_weights.hdf5").unlink()
        with pytest.raises(InputError, match=r"medium: cannot be used: no permission to write; .* ELMO_CACHE"):
            obtain("allennlp/medium")


class TestNoNetwork:
    def test_the_message_says_what_to_place_where(self, cache, monkeypatch):
        monkeypatch.setattr(downloads, "fetch", refuse)
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
        monkeypatch.setattr(downloads, "fetch", refuse)
        monkeypatch.delenv("ELMO_MIRROR", raising=False)
        with pytest.raises(InputError) as raised:
            obtain("glove/6B.300d")
        assert f"{cache}/glove/glove.6B.zip  from  https://nlp.stanford.edu/data/glove.6B.zip" in str(raised.value)
        assert f"or, unpacked, {cache}/glove/glove.6B.300d.txt" in str(raised.value)

    def test_a_missing_file_on_the_server(self, site, capsys):
        del site.files[WEIGHTS]
        assert main(["allennlp/medium"]) == 1
        error = capsys.readouterr().err
        assert f"{site.url}{WEIGHTS}: 404 Client Error" in error
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
            wait_for(partial.exists)
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
        assert sum(path == WEIGHTS for path, _ in site.asked) == 2
        assert load_bilm("allennlp/medium").fingerprint() == bilm.fingerprint()
        assert not list(cache.rglob("*partial*"))
