"""Tests of published names in place of paths: biLMs, vectors, and the command."""

import re
import shutil
from dataclasses import replace

import pytest

from elmo import download as downloads
from elmo import save_bilm
from elmo.bilm.weight_files import find_weights, load_bilm
from elmo.common.errors import InputError
from elmo.download import main, obtain
from elmo.embed.__main__ import main as embed
from elmo.published import BILMS, PUBLISHED, VECTORS
from tests.elmo.download.mirror import EIGHT_FORTY, MEDIUM, OPTIONS, SIX, TEXT, WEIGHTS, names_in


class TestTable:
    def test_every_url_is_https(self):
        urls = [url for name in [*BILMS, *VECTORS] for file in PUBLISHED[name] for url in file.folders]
        assert urls
        assert all(url.startswith("https://") for url in urls)

    def test_the_published_names(self):
        assert list(BILMS) == [f"allennlp/{size}" for size in ("small", "medium", "original", "original-5.5b")]
        assert {name: entry.dim for name, entry in VECTORS.items()} == {
            f"glove/{corpus}.{dim}d": dim
            for corpus, dim in [("6B", 50), ("6B", 100), ("6B", 200), ("6B", 300), ("840B", 300)]
        }
        assert BILMS["allennlp/small"][1].size == 54_402_456

    def test_the_urls_without_a_mirror(self, cache, monkeypatch):
        monkeypatch.delenv("ELMO_MIRROR", raising=False)
        file = BILMS["allennlp/original-5.5b"][1]
        assert downloads._urls("allennlp/original-5.5b", file)[0] == (
            "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
            "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"
        )
        assert downloads._urls("glove/840B.300d", VECTORS["glove/840B.300d"].archive) == [
            "https://nlp.stanford.edu/data/glove.840B.300d.zip",
            "https://huggingface.co/stanfordnlp/glove/resolve/main/glove.840B.300d.zip",
        ]


class TestBilm:
    def test_a_name_works_like_a_path(self, site, cache, bilm):
        loaded = load_bilm("allennlp/medium")
        assert loaded.fingerprint() == bilm.fingerprint()
        folder = cache / "allennlp" / "medium"
        assert find_weights("allennlp/medium").parent == folder
        assert {path.lstrip("/") for path, _ in site.asked} == {
            f"allennlp/medium/{MEDIUM}_{end}" for end in ("options.json", "weights.hdf5")
        }
        assert len(site.asked) == 2  # and not once more

    def test_embed_accepts_it(self, site, tmp_path, capsys):
        (tmp_path / "in.txt").write_text("a b\n", encoding="utf-8")
        arguments = [str(tmp_path / "in.txt"), str(tmp_path / "out.hdf5"), "--weights", "allennlp/medium"]
        assert embed([*arguments, "--device", "cpu"]) == 0
        captured = capsys.readouterr()
        assert "2 tokens" in captured.out
        lines = captured.err.splitlines()  # no terminal: a line a file
        assert len(lines) == 2
        assert lines[1].startswith(f"allennlp/medium: downloading {site.url}{WEIGHTS}")

    def test_a_folder_of_that_name_takes_precedence(self, site, tmp_path, monkeypatch, bilm):
        save_bilm(bilm, tmp_path / "allennlp" / "medium" / "weights.hdf5")
        monkeypatch.chdir(tmp_path)
        assert find_weights("allennlp/medium").absolute().parent == tmp_path / "allennlp" / "medium"
        assert site.asked == []

    def test_an_interrupted_transfer_continues(self, site, bilm):
        size = len(site.files[WEIGHTS])
        site.cuts = [10_000, size // 4]  # the first is that of the options
        assert load_bilm("allennlp/medium").fingerprint() == bilm.fingerprint()
        assert sum(path == WEIGHTS for path, _ in site.asked) == 2

    def test_another_size_than_the_known_one_is_refused(self, site):
        for path, content in ((OPTIONS, b'{"lstm": {}}'), (WEIGHTS, b"<html>Please log in</html>")):
            path = path.replace("medium", "small").replace("2x2048_256", "2x1024_128")
            site.files[path] = content
        with pytest.raises(InputError, match=r"expected 54,402,456 bytes, found 26"):
            load_bilm("allennlp/small")

    def test_the_error_for_an_unknown_name_lists_the_names(self):
        with pytest.raises(InputError) as raised:
            find_weights("allennlp/large")
        for name in ("small", *BILMS):
            assert name in str(raised.value)

    @pytest.mark.parametrize("command", ["elmo.embed.__main__", "elmo.neighbours"])
    def test_help_lists_the_names(self, command, capsys):
        module = __import__(command, fromlist=["main"])
        with pytest.raises(SystemExit):
            module.main(["--help"])
        text = " ".join(capsys.readouterr().out.split()).replace("- ", "-")  # argparse breaks lines at hyphens
        assert all(name in text for name in ("small", *BILMS))

    @pytest.mark.parametrize("key", ["init", "vocabulary_of"])
    def test_further_training_is_refused_before_anything_is_downloaded(self, site, key, tmp_path):
        from elmo.pretrain.run import pretrain
        from tests.elmo.pretrain.training_text import QUIET, settings

        given = settings(tmp_path / "text.txt", tmp_path / "out", **{key: "allennlp/medium"})
        with pytest.raises(InputError, match=r"allennlp/medium: published without .* with an output layer: small$"):
            pretrain(given, [], QUIET)
        assert site.asked == []


class TestVectors:
    def test_only_the_wanted_member_is_unpacked_and_the_archive_serves_the_others(self, site, cache):
        path = obtain("glove/6B.50d")
        assert path.read_bytes() == TEXT[50]
        assert obtain("glove/6B.100d").read_bytes() == TEXT[100]
        assert len(site.asked) == 1
        assert names_in(cache / "glove") - {".lock"} == {
            *("glove.6B.zip", "glove.6B.50d.txt", "glove.6B.100d.txt"),
        }

    def test_an_archive_of_one_member_is_removed_after_unpacking(self, site, cache):
        assert obtain("glove/840B.300d").read_bytes() == TEXT[300]
        assert names_in(cache / "glove") == {".lock", "glove.840B.300d.txt"}

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
        with pytest.raises(InputError, match=r"expected the content of sha256 .*, found .*; it was deleted"):
            obtain("glove/6B.50d")
        assert names_in(cache / "glove") == {".lock"}

    def test_the_second_address_helps_out(self, site, monkeypatch):
        monkeypatch.delenv("ELMO_MIRROR")
        entry = VECTORS["glove/6B.50d"]
        folders = (f"{site.url}/away", f"{site.url}/glove")
        archive = replace(entry.archive, folders=folders)
        monkeypatch.setitem(VECTORS, "glove/6B.50d", replace(entry, archive=archive))
        monkeypatch.setitem(PUBLISHED, "glove/6B.50d", (archive,))
        assert obtain("glove/6B.50d").read_bytes() == TEXT[50]
        assert [path for path, _ in site.asked] == ["/away/glove.6B.zip", "/glove/glove.6B.zip"]

    def test_a_member_that_is_missing(self, site, cache):
        with pytest.raises(InputError, match=r"glove\.6B\.zip: cannot extract glove\.6B\.200d\.txt"):
            obtain("glove/6B.200d")
        assert ".partial" not in " ".join(names_in(cache / "glove"))

    def test_no_room(self, site, cache, monkeypatch):
        (cache / "glove").mkdir(parents=True)
        (cache / "glove" / "glove.6B.zip").write_bytes(SIX)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10}))
        with pytest.raises(InputError, match=r"glove\.6B\.50d\.txt needs about 0\.0 MB, 0\.0 MB are free"):
            obtain("glove/6B.50d")


class TestCommand:
    def test_names_are_listed(self, site, cache, capsys):
        obtain("glove/6B.50d")
        capsys.readouterr()
        with pytest.raises(SystemExit) as exited:
            main(["--help"])
        assert exited.value.code == 0
        lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
        assert set(lines) >= {*BILMS, *VECTORS}
        assert lines["allennlp/small"].split()[1:] == ["54.4", "MB"]
        assert lines["allennlp/medium"].split()[1:] == ["size", "unknown"]
        assert lines["glove/6B.50d"].endswith("here")
        assert not lines["glove/6B.100d"].endswith("here")

    def test_one_failing_name_does_not_affect_the_others(self, site, cache, capsys):
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
        assert "downloading" not in shown  # no line in addition to the bar

    def test_ctrl_c(self, site, monkeypatch, capsys):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(downloads, "fetch", interrupted)
        assert main(["glove/6B.50d"]) == 130
        assert "the same command continues from here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ELMO_CACHE", "~nosuchuser", r"ELMO_CACHE=~nosuchuser: expected a home folder"),
        ("ELMO_MIRROR", "http://[::1", r"http://\[::1/allennlp/medium/\S+: .+"),
        ("ELMO_MIRROR", f"http://{'a' * 64}.example", r"http://a+\.example/allennlp/medium/\S+: .+"),
    ],
)
def test_variables_that_cannot_be_used(cache, monkeypatch, capsys, variable, value, message):
    monkeypatch.setenv(variable, value)
    assert main(["allennlp/medium"]) == 1
    assert re.search(message, capsys.readouterr().err)
