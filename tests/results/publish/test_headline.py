"""The arms of TABLE1 are the headline: README's first table and figure, Table 1 and the report show their runs."""

import re
import shutil
from dataclasses import replace

from results import experiments
from results.experiments import TABLE1
from results.publish import main
from tests.results.making import first_right, make_record, run_report, run_table, save
from tests.results.publish.finished_runs import other_settings

PLAIN_NAME = "GloVe 50-d, biLM small"


def save_arm(runs, features, rights, vectors="glove-6b-50d", weights="small", task="sst5", **options):
    """Finished runs, one for each number of right examples of a hundred, with settings as a run records them."""
    default = "word2vec" if features == "word2vec" else "glove-6b-50d"
    variant = {} if vectors == default else {"features.words.vectors": vectors}
    own = {"name": features, "words": {"vectors": vectors}, "elmo": None, "dropout": 0.25}
    epochs, mixes = options.pop("epochs", 24), options.pop("mixes", {})
    variant |= {} if epochs == 24 else {"trainer.epochs": epochs}
    if "elmo" in features:
        own |= {"elmo": {"weights": weights}, "dropout": options.pop("dropout", 0.5)}
        variant |= {} if weights == "small" else {"features.elmo.weights": weights}
        variant |= {} if own["dropout"] == 0.5 else {"features.dropout": own["dropout"]}
    for seed, right in enumerate(rights, start=1):
        record = make_record(
            right, metric="accuracy", dev=50.0, task=task, features=features, seed=seed, variant=variant, **options
        )
        config = {**record.config, "features": own, "trainer": {**record.config["trainer"], "epochs": epochs}}
        save(runs, replace(record, config=config, mixes=mixes), first_right(right))


def save_plain(runs, **options):
    save_arm(runs, "glove", [40, 42], **options)
    save_arm(runs, "elmo", [44, 46], **options)
    save_arm(runs, "elmo_random", [39, 41], **options)


def save_headline(runs, **options):
    save_arm(runs, "glove", [50, 52], "wink-100d")
    save_arm(runs, "elmo", [55, 57], "wink-100d", "medium", **options)


def shown(root):
    """README and the chapters of the page, after publishing."""
    assert main([], root) == 0
    first, *others = (root / "results" / "tables.md").read_text().split("\n## ")
    chapters = {"": first} | {re.split("[:,]", other.partition("\n")[0])[0]: other for other in others}
    chapters["Other settings"] = other_settings(root / "results" / "published")
    return (root / "README.md").read_text().replace("\u00a0", " "), chapters


def test_the_headline_has_the_paper_s_numbers_and_the_verdict(root):
    runs = root / "results" / "published"
    save_plain(runs)
    save_headline(runs)
    save_arm(runs, "word2vec", [48, 50], "word2vec")
    readme, chapters = shown(root)
    assert "| task | metric | GloVe 100-d | + ELMo | gain, 95 % interval | paper |" in readme
    row = re.search(r"\| SST-5 \| accuracy \| (.*) \|", readme)[1].split(" | ")
    assert (row[:2], row[3]) == (["51.00±1.41 (2)", "56.00±1.41 (2)"], "51.4 → 54.7")
    assert row[2].startswith("+5.00, ")
    assert "On full data sets: GloVe 100-d, biLM medium." in readme
    assert "\non full data sets: GloVe 100-d, biLM medium; " in chapters["Table 1"]
    # 5 of 49 errors; the control has other vectors than the baseline, word2vec is what its vectors are
    figure = (runs / "errors-removed.svg").read_text()
    assert "51.0 to 56.0, ELMo 10.2 %" in figure
    note = "GloVe 100-d, biLM medium"
    assert f"the paper 6.8 %, word2vec \N{MINUS SIGN}4.1 %†. {note}." in figure
    for form in ("", "-phone"):
        assert f">{note}</text>" in (runs / f"errors-removed{form}.svg").read_text()
    # two runs, five of the paper's with our deviation: 12.706 * 1.414 * sqrt(1 / 2 + 1 / 5) around 51 - 51.4
    assert "| -0.40 open (-15.43 to +14.63) |" in chapters["Table 1"]
    assert "seed=1,2 features.words.vectors=wink-100d" in chapters["Table 1"]
    other = chapters["Other settings"]
    label = "biLM small, GloVe 50-d"
    scores = r"\| 41.00±1.41 \(2\) \| 45.00±1.41 \(2\) \| 40.00±1.41 \(2\) \| \+4.00, .* \|"
    assert re.search(rf"\| SST-5, {re.escape(label)} \| accuracy {scores}", other)


def test_controls_have_a_table_and_a_ladder(root):
    """50 and 52 of 100 right with GloVe, 52 and 54 with layer 0, 55 and 57 with ELMo."""
    runs = root / "results" / "published"
    save_headline(runs)
    save_arm(runs, "elmo_layer0", [52, 54], "wink-100d", "medium")
    _, chapters = shown(root)
    title = "biLM without context (control)"
    (line,) = [line for line in chapters["Controls"].splitlines() if line.startswith(f"| {title} |")]
    assert "53.00±1.41 (2)† [" in line
    ladder = (runs / "ladder.svg").read_text()
    assert f"SST-5, {title}: 2.00; SST-5, + ELMo: 5.00." in ladder
    assert f"{title} 4.1 %" in (runs / "errors-removed.svg").read_text()  # 2 of 49 errors


def test_a_row_without_the_headline_s_runs_shows_the_plain_pair_and_says_so(root):
    runs = root / "results" / "published"
    save_headline(runs)
    save_plain(runs, task="ner", data="wnut17")
    save_arm(runs, "elmo", [47], weights="medium", task="ner", data="wnut17")  # its baseline is missing
    save_plain(runs, data="mini")
    readme, chapters = shown(root)
    assert "| task | metric | GloVe | + ELMo |" in readme
    assert "| SST-5 | accuracy | 51.00" in readme
    assert f"| NER, WNUT-17, {PLAIN_NAME} | accuracy | 41.00±1.41 (2) | 45.00±1.41 (2) | +4.00, " in readme
    assert (
        f"NER, WNUT-17, accuracy, {PLAIN_NAME}: 41.0 to 45.0, ELMo 6.8 %" in (runs / "errors-removed.svg").read_text()
    )
    assert f"| NER, WNUT-17, {PLAIN_NAME} | accuracy | 41.00" in chapters["Table 1"]
    note = "GloVe 100-d, biLM medium, unless a row names others"
    assert f"On full data sets: {note}." in readme
    assert f"\non full data sets: {note}; " in chapters["Table 1"]
    assert f">{note}</text>" in (runs / "errors-removed.svg").read_text()
    assert "NER, WNUT-17, GloVe 50-d, biLM medium" in chapters["Other settings"]
    assert "| task | metric | GloVe 50-d | + ELMo |" in chapters["The mini data"]
    assert "| mini SST-5 | accuracy | 41.00" in chapters["The mini data"]


def test_a_lone_run_of_the_headline_is_among_the_other_settings(root):
    """Table 1 has no place for it, since its row shows the defaults. It has no biLM, so that its name has none."""
    runs = root / "results" / "published"
    save_plain(runs, task="snli", data="standin")
    save_arm(runs, "glove", [50], "wink-100d", task="snli", data="standin")
    _, chapters = shown(root)
    assert f"| SNLI, stand-in data, {PLAIN_NAME} | accuracy | 41.00" in chapters["Table 1"]
    other = chapters["Other settings"]
    assert "| SNLI, stand-in data, GloVe 100-d | accuracy | 50.00 (1) |" in other


def with_row(tmp_path, monkeypatch, row, setting):
    """Table 1 with a setting of its own in a row."""
    paper = tmp_path / "paper"
    shutil.copytree(experiments.PAPER, paper)
    monkeypatch.setattr(experiments, "PAPER", paper)
    file = paper / f"{TABLE1}.toml"
    assert file.read_text().count(row) == 1
    file.write_text(file.read_text().replace(row, row.replace("]", f', "{setting}"]')))


def test_a_row_of_the_file_may_have_a_setting_of_its_own(root, tmp_path, monkeypatch):
    """SQuAD has half of its epochs; what has all of them is another setting, although it is the recipe's."""
    with_row(tmp_path, monkeypatch, '["task=squad", "data=paper"]', "trainer.epochs=12")
    runs = root / "results" / "published"
    for features, weights, rights in (("glove", "small", [50, 52]), ("elmo", "medium", [55, 57])):
        for epochs, added in ((12, 0), (24, 20)):
            more = [right + added for right in rights]
            save_arm(runs, features, more, "wink-100d", weights, task="squad", epochs=epochs)
    readme, chapters = shown(root)
    assert "| SQuAD 1.1, dev, 12 epochs | accuracy | 51.00±1.41 (2) | 56.00±1.41 (2) |" in readme
    assert "| SQuAD 1.1, dev, 24 epochs | accuracy | 71.00" in chapters["Other settings"]


def test_a_control_with_other_settings_than_the_headline_is_not_next_to_it(root):
    """Neither with the recipe's epochs where the row has half of them, nor with the suite's vectors and biLM."""
    runs, squad = root / "results" / "published", {"task": "squad"}
    save_plain(runs, data="mini")
    save_arm(runs, "glove", [50, 52], "wink-100d", epochs=12, **squad)
    save_arm(runs, "elmo", [55, 57], "wink-100d", "medium", epochs=12, **squad)
    save_arm(runs, "elmo_random", [30, 32], "wink-100d", "medium", **squad)
    save_headline(runs)
    save_arm(runs, "elmo_random", [20, 22])
    readme, chapters = shown(root)
    assert "untrained" not in readme.split("<!-- /figure -->")[0]
    lines = [line for line in chapters["Other settings"].splitlines() if line.startswith("| S")]
    assert ["31.00" in line for line in lines] == ["24 epochs" in line for line in lines]
    assert ["21.00" in line for line in lines] == ["GloVe 50-d" in line for line in lines]
    assert len(lines) == 2


def test_a_row_s_own_setting_may_be_the_default_of_one_arm(root, tmp_path, monkeypatch):
    """Of the baseline, so that only the other arm's runs have it in their name."""
    with_row(tmp_path, monkeypatch, '["task=sst5", "data=paper"]', "features.dropout=0.25")
    runs = root / "results" / "published"
    save_headline(runs, dropout=0.25)
    save_arm(runs, "elmo", [60, 62], "wink-100d", "medium")
    readme, chapters = shown(root)
    assert "| SST-5, dropout 0.25 | accuracy | 51.00±1.41 (2) | 56.00±1.41 (2) |" in readme
    assert "SST-5, dropout 0.5 |" in chapters["Other settings"]
    assert "| 61.00±1.41 (2) |" in chapters["Other settings"]


def test_the_report_and_the_table_of_runs_have_the_headline(tmp_path, capsys):
    runs = tmp_path / "runs"
    save_plain(runs)
    save_headline(runs)
    page = run_report(runs)[1]
    assert "ELMo removes 10\u00a0% of the baseline&#x27;s errors on SST-5" in page
    assert "on full data sets: GloVe 100-d, biLM medium, unless a row names others<" in page, "other settings do"
    main_table, others = page.split("rows of other settings</summary>")
    assert '<button type="button" disabled>GloVe 100-d</button>' in main_table
    assert '<button type="button" disabled>GloVe 50-d</button>' in others.partition("</details>")[0]
    assert "</svg> GloVe</span>" in page, "the legend of all figures"
    assert "41.0 → 45.0" in run_report(runs, "--compare", "glove", "elmo")[1], "as asked for"
    save_plain(tmp_path / "demo", data="mini")
    assert "on full data sets" not in run_report(tmp_path / "demo")[1]
    capsys.readouterr()
    assert "51.00±1.41 (2)  56.00±1.41 (2)  +5.00" in run_table(capsys, "--runs", runs)[1]
    assert "41.00±1.41 (2)  45.00±1.41 (2)  +4.00" in run_table(capsys, "--runs", runs, "--compare", "glove", "elmo")[1]
