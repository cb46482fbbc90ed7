"""The report's page: self-contained, complete, escaped, with the numbers of the table."""

import base64
import dataclasses
import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from results.records.record import Mix, RunError
from results.report.__main__ import main
from tests.results.making import make_record, run_report, save

ROOT = Path(__file__).parents[3]
VOID = {"meta", "br", "img", "link", "hr", "input"}


class Outline(HTMLParser):
    """Tags, attributes and text of a page; a tag that is not closed where it should be is an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_everything_is_on_the_page(capsys, runs):
    status, text = run_report(runs)
    assert status == 0
    assert re.search(r"report.html: \d+ kB", capsys.readouterr().out)
    assert re.findall(r"<h2>(.*?)</h2>", text) == [*("Scores", "SST-5", "Failures (1)", "Runs")]
    assert set(re.findall(r'href="#(.*?)"', text)) == set(re.findall(r'<article id="(.*?)"', text)) == {"task-0"}
    block = text.partition('<article id="task-0"')[2].partition("</article>")[0]
    charts = ["Learning curves", "Classes", "Layers", "Fewer labels"]
    assert re.findall("<h4>(.*?)</h4>", block) == charts
    words = " ".join(Outline(text).text)
    for word in (
        "+20.0",
        "81.50±0.71 (2)",
        "51.9 %",
        "8 finished of 9 runs",
        "1 failed",
        "RuntimeError: out of memory",
    ):
        assert word in words, word
    for word in ("61 s", "512 MB", f"cpu, commit {'a' * 10}", "File x, line 1"):
        assert word in words, word
    for path in runs.rglob("record.json"):
        assert str(path) in words
    assert text.count("<svg") > 6


def test_the_runs_of_one_experiment(runs, tmp_path, capsys):
    """Figure 2 on records made by hand: the runs of its cells alone, and its figure as a file."""
    medium = {"features.words.vectors": "wink-100d", "features.elmo.weights": "medium"}
    first = Mix([0.2, 0.5, 0.3], 1.1)
    for task, settings in (("srl", {}), ("sst5", {}), ("sst5", {"trainer.lr": 0.5})):
        data = "ewt" if task == "srl" else "paper"
        record = make_record(70.0, data=data, task=task, features="elmo", variant={**medium, **settings})
        save(runs, dataclasses.replace(record, mixes={"input": first}))
    both = make_record(70.0, task="squad", features="elmo", variant=medium)
    save(runs, dataclasses.replace(both, mixes={"input": first, "output": Mix([0.1, 0.2, 0.7], 1.2)}))
    status, text = run_report(runs, "--experiment", "figure2", "--figures", tmp_path / "figures")
    assert status == 0
    assert "3 finished of 3 runs" in text
    assert "<title>SQuAD 1.1, dev, output, LSTM 2: 0.700" in text
    assert text.count("<title>SST-5, input, LSTM 2: 0.300") == 1, "a row of the figure, not a plain run in addition"
    assert "trainer.lr=0.5" not in text
    assert 'aria-label="Figure 2: weights of the layers' in text
    assert "<code>python -m tasks.run -m experiment=figure2</code>" in text
    assert (tmp_path / "figures" / "layer-weights.svg").exists()
    capsys.readouterr()
    assert run_report(runs, "--experiment", "figure9")[0] == 1
    assert "results.report: experiment=figure9: expected " in capsys.readouterr().err


def test_the_paper_s_tables_are_on_the_page(runs):
    """Table 3 of two arms: SRL in the paper 84.7 and 84.3. Table 2 has no pair to compare, and is left out."""
    for place, score in (("[input]", 60.0), ("[input,output]", 62.0)):
        save(runs, make_record(score, data="ewt", task="srl", features="elmo", variant={"features.elmo.places": place}))
    text = run_report(runs)[1]
    section = text.partition("<h3>Table 3: places</h3>")[2].partition("</section>")[0]
    assert [row.count("<td") for row in section.split("<tr>")[2:]] == [section.count('<th scope="col"') - 1]
    assert '<td data-label="both" data-value="62.00"><span>62.00 (1)</span></td>' in section
    assert '<td data-label="gain, 95 % interval" data-value="+2.00"><span>+2.00</span></td>' in section
    assert "<code>python -m tasks.run -m experiment=table3</code>" in section
    assert "Table 3: places" not in run_report(runs, "--data", "mini")[1]


def test_it_stands_alone(runs):
    _, text = run_report(runs)
    outline = Outline(text)
    assert outline.tags.count("script") == 1
    assert not {"link", "img", "iframe", "object", "base"} & set(outline.tags)
    assert [value for name, value in outline.attributes if name in ("src", "srcset", "action", "xlink:href")] == []
    links = [value for name, value in outline.attributes if name == "href" and not value.startswith("#")]
    files = {(runs.parent / unquote(link)).resolve() for link in links}
    assert files == {path for path in runs.rglob("record.json") if "seed-9" not in str(path)}, "relative, to records"
    assert "http" not in re.sub(r'http-equiv="Content-Security-Policy"', "", text)
    assert "url(" not in text
    assert "@import" not in text
    script = text.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)
    assert policy.startswith("default-src 'none'; ")
    assert policy.endswith(f"; script-src 'sha256-{digest}'")
    assert not re.search("eval|innerHTML|fetch|import|XMLHttp", script)
    assert "prefers-color-scheme: dark" in text


def test_whatever_a_record_says_is_text(runs):
    evil = "<script>alert(1)</script>"
    save(
        runs,
        make_record(50.0, data="mini", task="sst5", metric="accuracy", features=evil, variant={"x": '"><img src=x>'}),
    )
    error = RunError(evil, "</pre><img src=x onerror=alert(1)>", ["</details></body>", evil])
    save(runs, make_record(data=evil, task=evil, features="elmo", seed=8, error=error))
    status, text = run_report(runs)
    assert status == 0
    outline = Outline(text)
    assert outline.tags.count("script") == 1, "ours alone"
    assert "img" not in outline.tags
    assert not [name for name, _ in outline.attributes if name.startswith("on")]
    words = "".join(outline.text)
    assert words.count(evil) >= 3
    assert "</pre><img src=x onerror=alert(1)>" in words


def test_any_two_features(runs):
    _, text = run_report(runs, "--compare", "elmo", "glove")
    assert "<h1>GloVe against + ELMo</h1>" in text
    assert "\N{MINUS SIGN}20.00" in text
    assert run_report(runs, "--compare", "elmo", "elmoo")[0] == 1


def test_commands_of_arms_with_settings_have_each_setting_once(tmp_path):
    for variant, lr in (({}, 0.001), ({"trainer.lr": 0.5}, 0.5)):
        save(tmp_path / "runs", make_record(50.0, features="elmo", variant=variant, lr=lr))
    _, text = run_report(tmp_path / "runs", "--compare", "elmo", "elmo trainer.lr=0.5")
    commands = re.findall(r"<code>python -m tasks.run (.*?) threads=2 device=cpu</code>", text)
    plain = "task=ner data=paper features=elmo seed=1"
    assert commands == [plain, f"{plain} trainer.lr=0.5"]


def test_nothing_to_show_writes_nothing(capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder, message in (("empty", "To make the first one:"), ("none", "expected a folder, found none")):
        status, text = run_report(tmp_path / folder)
        assert (status, text) == (1, "")
        assert message in capsys.readouterr().err


def test_runs_of_other_experiments_are_not_called_no_records(capsys, runs):
    assert run_report(runs, "--experiment", "table6") == (1, "")
    expected = f"No runs of experiment=table6 in {runs}. To make them:\n  python -m tasks.run -m experiment=table6\n"
    assert capsys.readouterr().err == expected


def test_other_data_are_left_out(runs):
    save(runs, make_record(91.0, data="paper"))
    _, text = run_report(runs, "--data", "mini")
    assert "91.00" not in text
    _, text = run_report(runs)
    assert "91.00" in text
    assert "90.15 → 92.22" in text.replace("&rarr;", "→")


def test_a_path_that_cannot_be_written_is_reported(capsys, runs):
    taken = runs.parent / "file"
    taken.write_text("")
    assert main(["--runs", str(runs), "--out", str(taken / "report.html")]) == 1
    assert str(taken) in capsys.readouterr().err


def test_figures_are_files_without_titles(capsys, runs):
    save(runs, make_record(50.0, data="mini", task="ner"))
    folder = runs.parent / "figures"
    assert run_report(runs, "--figures", folder)[0] == 0
    stems = {path.stem for path in folder.iterdir()}
    assert {"errors-removed-mini", "errors-removed-mini-phone"} <= stems
    assert {f"{kind}-mini-sst5" for kind in ("curves", "layers", "efficiency", "classes")} <= stems
    assert f"{len(stems)} figures as SVG" in capsys.readouterr().out
    for name, title in (("errors-removed-mini", "ELMo removes"), ("curves-mini-sst5", "mini SST-5")):
        shown = re.findall(r"<text.*?>(.*?)</text>", (folder / f"{name}.svg").read_text(encoding="utf-8"))
        assert title not in "".join(shown)


def test_figures_of_one_name_get_files_of_their_own(runs):
    for data in ("a/b", "a b"):  # both are a-b in a file's name
        record = make_record(50.0, data=data)
        save(runs, dataclasses.replace(record, epochs=[{"epoch": 1, "f1": 50.0}]))
    folder = runs.parent / "figures"
    run_report(runs, "--figures", folder)
    assert {path.stem for path in folder.glob("curves-a-b*.svg")} == {"curves-a-b-ner", "curves-a-b-ner-2"}


def test_the_page_needs_the_standard_library_alone(runs):
    """But for numpy, where there are examples to draw from."""
    code = (
        "import sys; from results.report.__main__ import main\n"
        f"main(['--runs', {str(runs)!r}, '--out', {str(runs.parent / 'page.html')!r}])\n"
        "print(*sorted({'rich', 'matplotlib', 'jinja2', 'torch', 'hydra', 'tasks', 'elmo.layer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == [""]
