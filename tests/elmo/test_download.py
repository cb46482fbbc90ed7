import hashlib
import io
import os
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace

import pytest

from elmo import random_bilm, save_bilm
from elmo.download import BILMS, VECTORS, content_hash, files_of, obtain, transfer
from elmo.download import folder as downloads
from elmo.download.__main__ import main
from elmo.embed import main as embed
from elmo.errors import InputError
from elmo.weights import find_weights, load_bilm
from tests.serving import Site, serving

MEDIUM = "elmo_2x2048_256_2048cnn_1xhighway"  # of unknown size and hash, so that anything may be served in its place
OPTIONS, WEIGHTS = f"/allennlp/medium/{MEDIUM}_options.json", f"/allennlp/medium/{MEDIUM}_weights.hdf5"
TEXT = {dim: f"the {'0.5 ' * (dim - 1)}1\nat home {'0.25 ' * (dim - 1)}2\n".encode() for dim in (50, 100, 300)}


@pytest.fixture(scope="module")
def bilm():
    return random_bilm("tiny", seed=3)


@pytest.fixture(scope="module")
def bilm_files(bilm, tmp_path_factory):
    """The content of options and weights of a small biLM."""
    folder = tmp_path_factory.mktemp("bilm")
    save_bilm(bilm, folder / "weights.hdf5")
    return (folder / "options.json").read_bytes(), (folder / "weights.hdf5").read_bytes()


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


SIX = zipped({f"glove.6B.{dim}d.txt": TEXT[dim] for dim in (50, 100)})
EIGHT_FORTY = zipped({"glove.840B.300d.txt": TEXT[300]})


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(transfer, "PAUSE_S", 0.0)
    return tmp_path / "cache"


@pytest.fixture
def site(cache, bilm_files, monkeypatch):
    """A mirror with a biLM and both archives; the archives are known by size and hash."""
    for name, entry in VECTORS.items():
        content = EIGHT_FORTY if "840B" in name else SIX
        known = replace(entry.archive, size=len(content), sha256=hashlib.sha256(content).hexdigest())
        monkeypatch.setitem(VECTORS, name, replace(entry, archive=known))
    files = {
        OPTIONS: bilm_files[0],
        WEIGHTS: bilm_files[1],
        "/glove/glove.6B.zip": SIX,
        "/glove/glove.840B.300d.zip": EIGHT_FORTY,
    }
    with serving(Site(files)) as site:
        monkeypatch.setenv("ELMO_MIRROR", site.url)
        yield site


def names_in(folder):
    return {path.name for path in folder.iterdir()}


class TestTable:
    def test_every_address_is_https(self):
        urls = [url for name in [*BILMS, *VECTORS] for file in files_of(name) for url in file.folders]
        assert urls
        assert all(url.startswith("https://") for url in urls)

    def test_the_names_that_were_promised(self):
        assert list(BILMS) == [f"allennlp/{size}" for size in ("small", "medium", "original", "original-5.5b")]
        assert {name: entry.dim for name, entry in VECTORS.items()} == {
            f"glove/{corpus}.{dim}d": dim
            for corpus, dim in [("6B", 50), ("6B", 100), ("6B", 200), ("6B", 300), ("840B", 300)]
        }
        assert BILMS["allennlp/small"].weights.size == 54_402_456

    def test_the_addresses_without_a_mirror(self, cache, monkeypatch):
        monkeypatch.delenv("ELMO_MIRROR", raising=False)
        file = BILMS["allennlp/original-5.5b"].weights
        assert downloads._urls("allennlp/original-5.5b", file)[0] == (
            "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
            "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"
        )
        assert downloads._urls("glove/840B.300d", VECTORS["glove/840B.300d"].archive) == [
            "https://nlp.stanford.edu/data/glove.840B.300d.zip",
            "https://huggingface.co/stanfordnlp/glove/resolve/main/glove.840B.300d.zip",
        ]


class TestBilm:
    def test_a_name_is_as_good_as_a_path(self, site, cache, bilm):
        loaded = load_bilm("allennlp/medium")
        assert loaded.fingerprint() == bilm.fingerprint()
        folder = cache / "allennlp" / "medium"
        assert find_weights("allennlp/medium") == folder
        assert {path.lstrip("/") for path, _ in site.asked} == {
            f"allennlp/medium/{MEDIUM}_{end}" for end in ("options.json", "weights.hdf5")
        }
        assert len(site.asked) == 2  # and not once more

    def test_embed_takes_it(self, site, tmp_path, capsys):
        (tmp_path / "in.txt").write_text("a b\n", encoding="utf-8")
        arguments = [str(tmp_path / "in.txt"), str(tmp_path / "out.hdf5"), "--weights", "allennlp/medium"]
        assert embed([*arguments, "--device", "cpu"]) == 0
        captured = capsys.readouterr()
        assert "2 tokens" in captured.out
        lines = captured.err.splitlines()  # no terminal: a line a file
        assert len(lines) == 2
        assert lines[1].startswith(f"allennlp/medium: downloading {site.url}{WEIGHTS}, ")

    def test_a_folder_of_that_name_goes_before(self, site, tmp_path, monkeypatch, bilm):
        save_bilm(bilm, tmp_path / "allennlp" / "medium" / "weights.hdf5")
        monkeypatch.chdir(tmp_path)
        assert find_weights("allennlp/medium").absolute() == tmp_path / "allennlp" / "medium"
        assert site.asked == []

    def test_a_broken_transfer_goes_on(self, site, bilm):
        size = len(site.files[WEIGHTS])
        site.cuts = [10_000, size // 4, 0, size // 4]  # the first is that of the options
        assert load_bilm("allennlp/medium").fingerprint() == bilm.fingerprint()
        assert sum(path == WEIGHTS for path, _ in site.asked) == 4
        assert site.sent == size + len(site.files[OPTIONS])

    def test_another_size_than_the_known_one_is_refused(self, site):
        for path, content in ((OPTIONS, b"{}"), (WEIGHTS, b"<html>Please log in</html>")):
            path = path.replace("medium", "small").replace("2x2048_256", "2x1024_128")
            site.files[path] = content
        with pytest.raises(InputError, match=r"expected a file of 54,402,456 bytes, the server offers 26"):
            load_bilm("allennlp/small")

    def test_an_unknown_name_is_told_which_there_are(self):
        with pytest.raises(InputError) as raised:
            find_weights("allennlp/large")
        for name in ("small", *BILMS):
            assert name in str(raised.value)

    @pytest.mark.parametrize("command", ["elmo.embed", "elmo.neighbours"])
    def test_help_lists_the_names(self, command, capsys):
        module = __import__(command, fromlist=["main"])
        with pytest.raises(SystemExit):
            module.main(["--help"])
        text = " ".join(capsys.readouterr().out.split()).replace("- ", "-")  # argparse breaks lines at hyphens
        assert all(name in text for name in ("small", *BILMS))

    def test_further_training_is_refused_before_anything_is_downloaded(self, site):
        from elmo.pretrain.output import load_model

        with pytest.raises(InputError, match=r"allennlp/medium: published without an output layer"):
            load_model("allennlp/medium")
        assert site.asked == []


class TestFirstDownloadCounts:
    """Of files that are published without a hash."""

    def test_a_file_that_changed_here_is_told(self, site, cache):
        path = cache / WEIGHTS.lstrip("/")
        obtain("allennlp/medium")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"{path.name}: has changed since it came here, .* Remove it"):
            obtain("allennlp/medium")
        path.unlink()
        obtain("allennlp/medium")
        assert path.read_bytes() == site.files[WEIGHTS]

    def test_a_file_that_changed_there_is_told(self, site, cache):
        path = cache / WEIGHTS.lstrip("/")
        obtain("allennlp/medium")
        path.unlink()
        site.files[WEIGHTS] = site.files[WEIGHTS][::-1]
        with pytest.raises(InputError, match=rf"(?s)expected content of sha256 .*remove {path}\.checked"):
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
        assert "has changed since it came here" in capsys.readouterr().err

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
        assert names_in(tmp_path) == {"cache", "vectors.txt"}  # notes only beside downloads


class TestByHand:
    """Files that somebody copied into the folder."""

    def test_they_are_taken_without_a_network(self, cache, bilm_files, bilm, monkeypatch):
        monkeypatch.setenv("ELMO_MIRROR", "http://nowhere.invalid")
        folder = cache / "allennlp" / "medium"
        folder.mkdir(parents=True)
        for path, content in zip((OPTIONS, WEIGHTS), bilm_files, strict=True):
            (cache / path.lstrip("/")).write_bytes(content)
        assert load_bilm("allennlp/medium").fingerprint() == bilm.fingerprint()

    def test_something_else_is_refused(self, site, cache):
        (cache / "glove").mkdir(parents=True)
        (cache / "glove" / "glove.6B.zip").write_bytes(EIGHT_FORTY)
        with pytest.raises(InputError, match=r"glove\.6B\.zip: expected the published file of .* bytes, found"):
            obtain("glove/6B.50d")
        (cache / "glove" / "glove.6B.zip").write_bytes(SIX[:-1] + b"?")
        with pytest.raises(
            InputError, match=r"glove\.6B\.zip: expected the published file of sha256 .*, found .*Remove it"
        ):
            obtain("glove/6B.50d")
        assert site.asked == []

    def test_a_folder_that_may_only_be_read(self, site, cache, bilm, monkeypatch):
        """As root sees it too, who may write anywhere: what the system would say is said in its place."""
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
        monkeypatch.setattr(transfer, "_open", refuse)
        monkeypatch.delenv("ELMO_MIRROR", raising=False)
        with pytest.raises(InputError) as raised:
            load_bilm("allennlp/small")
        text = str(raised.value)
        name = "elmo_2x1024_128_2048cnn_1xhighway"
        for end in ("options.json", "weights.hdf5"):
            url = f"https://allennlp.s3.amazonaws.com/models/elmo/2x1024_128_2048cnn_1xhighway/{name}_{end}"
            assert f"{cache}/allennlp/small/{name}_{end}  from  {url}" in text
        assert "https://s3-us-west-2.amazonaws.com/allennlp" in text  # the second address was tried, too
        assert "python -m elmo.download allennlp/small" in text
        assert "ELMO_CACHE" in text

    def test_of_vectors(self, cache, monkeypatch):
        monkeypatch.setattr(transfer, "_open", refuse)
        monkeypatch.delenv("ELMO_MIRROR", raising=False)
        with pytest.raises(InputError) as raised:
            obtain("glove/6B.300d")
        assert f"{cache}/glove/glove.6B.zip  from  https://nlp.stanford.edu/data/glove.6B.zip" in str(raised.value)
        assert f"or, unpacked, {cache}/glove/glove.6B.300d.txt" in str(raised.value)

    def test_what_is_not_there(self, site, capsys):
        del site.files[WEIGHTS]
        assert main(["allennlp/medium"]) == 1
        error = capsys.readouterr().err
        assert f"{site.url}{WEIGHTS}: the server answers 404" in error
        assert "Traceback" not in error

    def test_a_mirror_that_is_none(self, cache, monkeypatch):
        monkeypatch.setenv("ELMO_MIRROR", "/srv/mirror")
        with pytest.raises(
            InputError, match=r"ELMO_MIRROR: expected the URL of a server, https://\.\.\., found '/srv/mirror'"
        ):
            obtain("allennlp/small")


def refuse(url, *_):
    raise transfer._NoAnswerError(f"{url}: Network is unreachable")


class TestVectors:
    def test_only_the_wanted_member_is_unpacked_and_the_archive_serves_the_others(self, site, cache):
        path = obtain("glove/6B.50d")
        assert path.read_bytes() == TEXT[50]
        assert obtain("glove/6B.100d").read_bytes() == TEXT[100]
        assert len(site.asked) == 1
        assert names_in(cache / "glove") - {".lock"} == {
            *("glove.6B.zip", "glove.6B.zip.checked"),
            *(f"glove.6B.{dim}d.txt{end}" for dim in (50, 100) for end in ("", ".checked")),
        }
        assert content_hash(path) == hashlib.sha256(TEXT[50]).hexdigest()

    def test_an_archive_of_one_member_goes_when_it_is_unpacked(self, site, cache):
        assert obtain("glove/840B.300d").read_bytes() == TEXT[300]
        assert names_in(cache / "glove") == {".lock", "glove.840B.300d.txt", "glove.840B.300d.txt.checked"}

    def test_an_archive_that_was_put_there_stays(self, site, cache):
        (cache / "glove").mkdir(parents=True)
        (cache / "glove" / "glove.840B.300d.zip").write_bytes(EIGHT_FORTY)
        obtain("glove/840B.300d")
        assert (cache / "glove" / "glove.840B.300d.zip").read_bytes() == EIGHT_FORTY
        assert site.asked == []

    def test_a_damaged_transfer(self, site, cache):
        content = bytearray(SIX)
        content[len(SIX) // 2] ^= 1
        site.files["/glove/glove.6B.zip"] = bytes(content)
        with pytest.raises(InputError, match=r"expected content of sha256 .*, found .*; it was thrown away"):
            obtain("glove/6B.50d")
        assert names_in(cache / "glove") == {".lock"}

    def test_the_second_address_helps_out(self, site, monkeypatch):
        monkeypatch.delenv("ELMO_MIRROR")
        entry = VECTORS["glove/6B.50d"]
        folders = (f"{site.url}/away", f"{site.url}/glove")
        monkeypatch.setitem(VECTORS, "glove/6B.50d", replace(entry, archive=replace(entry.archive, folders=folders)))
        assert obtain("glove/6B.50d").read_bytes() == TEXT[50]
        assert [path for path, _ in site.asked] == ["/away/glove.6B.zip", "/glove/glove.6B.zip"]

    def test_a_member_that_is_missing(self, site, cache):
        with pytest.raises(InputError, match=r"glove\.6B\.zip: cannot take glove\.6B\.200d\.txt out of it"):
            obtain("glove/6B.200d")
        assert "glove.6B.200d.txt.partial" not in names_in(cache / "glove")

    def test_a_kill_while_unpacking_leaves_nothing_that_counts(self, site, cache):
        (cache / "glove").mkdir(parents=True)
        (cache / "glove" / "glove.6B.50d.txt.partial").write_bytes(b"the 0.5 0.")
        assert obtain("glove/6B.50d").read_bytes() == TEXT[50]
        assert "glove.6B.50d.txt.partial" not in names_in(cache / "glove")

    def test_no_room(self, site, cache, monkeypatch):
        (cache / "glove").mkdir(parents=True)
        (cache / "glove" / "glove.6B.zip").write_bytes(SIX)
        monkeypatch.setattr(downloads.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10}))
        with pytest.raises(InputError, match=r"glove\.6B\.50d\.txt: takes 0\.0 GB, and there is room for 0\.0"):
            obtain("glove/6B.50d")


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
    def test_one_process_downloads_and_when_it_is_killed_another_goes_on(self, site, cache, bilm):
        size = len(site.files[WEIGHTS])
        site.stop_at = (WEIGHTS, size // 2)
        command = [sys.executable, "-m", "elmo.download", "allennlp/medium"]

        def start():
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        with start() as first:
            partial = cache / f"{WEIGHTS.lstrip('/')}.partial"
            deadline = time.monotonic() + 60
            while not (partial.exists() and partial.stat().st_size) and time.monotonic() < deadline:
                time.sleep(0.02)
            with start() as second, start() as third:
                for process in (second, third):
                    assert (
                        process.stderr.readline() == "allennlp/medium: waiting for another process that downloads it\n"
                    )
                first.kill()
                first.wait()
                site.go_on.set()
                for process in (second, third):
                    out, err = process.communicate(timeout=60)
                    assert (process.returncode, out) == (0, f"allennlp/medium: {cache / 'allennlp' / 'medium'}\n"), err
        asked = [asked for path, asked in site.asked if path == WEIGHTS]
        assert len(asked) == 2
        assert asked[0] is None
        assert 0 < int(asked[1].removeprefix("bytes=").removesuffix("-")) <= size // 2
        assert load_bilm("allennlp/medium").fingerprint() == bilm.fingerprint()
        assert not list(cache.rglob("*partial*"))


class TestCommand:
    def test_names_are_listed(self, site, cache, capsys):
        obtain("glove/6B.50d")
        capsys.readouterr()
        with pytest.raises(SystemExit) as exited:
            main(["--help"])
        assert exited.value.code == 0
        lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
        assert set(lines) >= {*BILMS, *VECTORS}
        assert lines["allennlp/small"].split()[1:] == ["54", "MB"]
        assert lines["allennlp/medium"].split()[1:] == ["size", "unknown"]
        assert lines["glove/6B.50d"].endswith("here")
        assert not lines["glove/6B.100d"].endswith("here")

    def test_one_name_that_fails_leaves_the_others_alone(self, site, cache, capsys):
        assert main(["glove/7B", "glove/840B.300d"]) == 1
        captured = capsys.readouterr()
        assert captured.out == f"glove/840B.300d: {cache}/glove/glove.840B.300d.txt\n"
        assert "glove/7B: nothing is published under this name; known: allennlp/small, " in captured.err

    def test_on_a_terminal_there_is_a_bar(self, site, monkeypatch, capsys):
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
        monkeypatch.setenv("COLUMNS", "120")
        obtain("glove/6B.50d")
        shown = capsys.readouterr().err
        assert "━" in shown
        assert "downloading" not in shown  # no line beside the bar

    def test_a_bar_needs_something_to_show(self, site, monkeypatch, capsys):
        monkeypatch.setenv("FORCE_COLOR", "1")
        site.files.clear()
        with pytest.raises(InputError):
            obtain("glove/6B.50d")
        assert capsys.readouterr().err == ""

    def test_ctrl_c(self, site, monkeypatch, capsys):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(downloads, "fetch", interrupted)
        assert main(["glove/6B.50d"]) == 130
        assert "the same command goes on from here" in capsys.readouterr().err
