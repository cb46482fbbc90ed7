"""Publishing: the tables and figures made from the records."""

import re
from dataclasses import replace

from results.experiments import load_experiment
from results.publish import main
from results.records.collect import Collection
from results.records.record import Mix, read_record, write_record
from results.report.parts import load_texts
from results.tables_page import shown_chapter
from tests.results.making import CLEAN, make_record
from tests.results.publish.finished_runs import GLOVE, other_settings, save_run


def test_the_mini_data_have_a_table_and_a_figure(tmp_path, runs, root):
    mini, page = tmp_path / "mini", root / "results" / "tables.md"
    for features in ("glove", "elmo"):
        save_run(mini, 44, data="mini", task="sst5", features=features)
    main(["--runs", str(mini)], root)
    assert "44.00" not in page.read_text().split("## The mini data")[0]
    main(["--runs", str(runs)], root)
    full_size, mini_data = page.read_text().split("## The mini data")
    assert "44.00" not in full_size
    assert "61.50" in full_size
    assert "| mini SST-5 | accuracy | 44.00 (1) | 44.00 (1) |" in mini_data


def chapters(root):
    """The page's text by the first words of the headings."""
    first, *others = (root / "results" / "tables.md").read_text().split("\n## ")
    return {"": first} | {re.split("[:,]", other.partition("\n")[0])[0]: other for other in others}


PAPER = ["Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "Table 6", "Figure 1", "Figure 2"]


def test_the_page_has_the_paper_s_tables_and_figures_with_their_commands(tmp_path, root):
    save_run(tmp_path / "runs", 44, data="snli100k", task="snli", features="elmo", variant={"features.elmo.l2": 1.0})
    both = {"trainer.epochs": 12, "features.elmo.places": "[input,output]"}
    for seed, right in ((1, 80), (2, 82)):
        save_run(tmp_path / "runs", right, task="squad", features="elmo", seed=seed, variant=both)
    main(["--runs", str(tmp_path / "runs")], root)
    found = chapters(root)
    assert list(found)[1:9] == PAPER
    contents = [line for line in found[""].splitlines() if line.startswith("| [")]
    assert [re.search(r"\[(\w+ \d)", line)[1] for line in contents[:8]] == PAPER
    assert "| 2 of 28 | `python -m tasks.run -m experiment=table2` |" in contents[1], "on dev and on test"
    for name in PAPER:
        anchor = re.search(rf"\[{name}[^]]*\]\(#([^)]*)\)", found[""])[1]
        heading = re.sub(r"[:',]", "", found[name].partition("\n")[0]).lower().replace(" ", "-")
        assert anchor == heading
        assert name == "Table 4" or f"experiment={name.replace(' ', '').lower()}" in found[name], "fills empty cells"
    assert "| 44.00 (1) |" in found["Table 2"]
    # two runs, one of the paper's with our deviation: 12.706 * 1.414 * sqrt(3 / 2) around 81 - 85.6
    assert "| -4.60 open (-26.61 to +17.41) |" in found["Table 3"]
    assert "26 of 28 cells are empty: `python -m tasks.run -m experiment=table2` fills them." in found["Table 2"]
    assert "Other settings" not in found, "the run is in Table 2"


def test_the_contents_count_the_cells_that_experiments_have(tmp_path):
    """A row may have some of the arms alone, and a command fills no row of published records alone."""
    for chapter in load_texts().paper:
        if chapter.experiment:
            own = [cell for cell in load_experiment(chapter.experiment).cells if not cell.row.published_only]
            cells = {(id(cell.row), cell.arm) for cell in own}
            shown = shown_chapter(chapter, Collection([], []), tmp_path)
            assert (chapter.experiment, shown.filled) == (chapter.experiment, f"0 of {len(cells)}")


def test_representations_have_a_figure_from_three_arms_on(tmp_path, root):
    """On the page, and the runs of an arm with changed settings stay in their own table."""
    medium = {"features.elmo.weights": "medium"}
    save_run(tmp_path / "runs", 60, task="sst5", config=GLOVE)
    save_run(tmp_path / "runs", 70, task="sst5", features="word2vec")
    main(["--runs", str(tmp_path / "runs")], root)
    assert "representations.svg" not in chapters(root)["Representations"]
    save_run(tmp_path / "runs", 72, task="sst5", features="elmo", seed=3, variant=medium)
    main(["--runs", str(tmp_path / "runs")], root)
    title = "![Representations against GloVe 50-d: errors removed, and cost]"
    assert f"{title}(published/representations.svg)" in chapters(root)["Representations"]
    assert "SST-5, biLM medium |" in other_settings(root / "results" / "published")


def test_the_page_shows_a_table_that_is_a_file(runs, root):
    main(["--runs", str(runs)], root)
    assert "\npython -m tasks.probes.table4 --weights medium\n" in chapters(root)["Table 4"]
    assert main(["--check"], root) == 0
    (root / "results" / "published" / "table4.md").write_text("| play | game |\n")
    assert main(["--check"], root) == 1
    main([], root)
    assert "| play | game |" in chapters(root)["Table 4"]
    assert "python -m elmo.neighbours" not in chapters(root)["Table 4"], "the list of contents has it"


def test_the_figures_of_the_paper_are_drawn_from_their_experiments(tmp_path, root):
    """Figure 1 of two shares with different settings, and Figure 2 of one task, without arms that are not in them."""
    medium = {"features.words.vectors": "wink-100d", "features.elmo.weights": "medium"}
    for features in ("glove", "elmo", "elmo_random"):
        few = {"train_fraction": 0.01, "trainer.batch_size": 4, "trainer.epochs": 100, "trainer.patience": None}
        for variant, used, right in (({}, 1000, 60), (few, 10, 50), (medium, 1000, 60)):
            path = save_run(tmp_path / "runs", right, task="sst5", features=features, variant=variant)
            record = read_record(path)
            mixes = {} if features == "glove" else {"input": Mix([0.2, 0.5, 0.3], 1.0)}
            data = {"train": {"examples": 1000, **({"used": used} if variant else {})}}
            config = {**record.config, "train_fraction": used / 1000}
            curve = [{"epoch": 1, "accuracy": 50.0}]
            write_record(path, replace(record, mixes=mixes, data=data, config=config, epochs=curve))
    main(["--runs", str(tmp_path / "runs")], root)
    found = chapters(root)
    assert re.findall(r"published/([\w.-]*)\.svg", found["Figure 1"]) == ["efficiency-paper-sst5"]
    curve = (root / "results" / "published" / "efficiency-paper-sst5.svg").read_text()
    assert "+ ELMo, 10: 50.00" in curve
    assert "elmo_random" not in curve
    assert re.findall(r"published/([\w.-]*)\.svg", found["Figure 2"]) == ["layer-weights"]
    weights = (root / "results" / "published" / "layer-weights.svg").read_text()
    assert weights.count("<title>SST-5, input") == 3
    assert "Fewer labels" not in found, "Figure 1 shows it"


def test_the_page_shows_every_figure(tmp_path, runs, root):
    main(["--runs", str(runs)], root)
    save_run(tmp_path / "mini", 44, data="mini", task="sst5", features="glove")
    save_run(tmp_path / "mini", 45, data="mini", task="sst5", features="elmo")
    main(["--runs", str(tmp_path / "mini")], root)
    shown = re.findall(r"published/([^)\"]*\.svg)", (root / "results" / "tables.md").read_text())
    files = [path.name for path in (root / "results" / "published").glob("*.svg")]
    assert {"errors-removed.svg", "errors-removed-phone-dark.svg"} <= set(files)
    assert sorted(shown) == sorted(files)


def test_readme_shows_the_main_figure(runs, root):
    main(["--runs", str(runs)], root)
    shown = (root / "README.md").read_text().split("figure -->")[1]
    assert re.findall(r'src(?:set)?="([^"]*)"', shown)[-1] == "results/published/errors-removed.svg"
    assert "51.0 to 61.5, ELMo 21.4 %" in (root / "results" / "published" / "errors-removed.svg").read_text()


def test_a_figure_that_is_no_longer_shown_is_removed(runs, root, capsys):
    main(["--runs", str(runs)], root)
    old = root / "results" / "published" / "curves-paper-old.svg"
    old.write_text("<svg/>")
    capsys.readouterr()
    assert main(["--check"], root) == 1
    assert capsys.readouterr().out.startswith("results/published/curves-paper-old.svg: out of date")
    assert old.exists()
    assert main([], root) == 0
    assert capsys.readouterr().out == "removed   results/published/curves-paper-old.svg\n"
    assert not old.exists()


class TestTables:
    """Which runs stand where."""

    def page(self, runs, root):
        main(["--runs", str(runs)], root)
        return chapters(root).get("Table 1", ""), other_settings(root / "results" / "published")

    def test_plain_runs_are_preferred_and_variants_listed_separately(self, runs, root):
        for features in ("glove", "elmo"):
            save_run(runs, 55, task="sst5", features=features, variant={"trainer.epochs": 5})
        first, other = self.page(runs, root)
        assert "5 epochs" not in first
        assert "| SST-5, 5 epochs | accuracy | 55.00 (1) | 55.00 (1) | +0.00" in other

    def test_variants_come_first_if_there_are_no_plain_runs(self, tmp_path, root):
        for features, right in (("glove", 50), ("elmo", 55)):
            save_run(tmp_path / "few", right, task="sst5", features=features, variant={"trainer.epochs": 5})
        first, other = self.page(tmp_path / "few", root)
        assert "| SST-5, 5 epochs | accuracy | 50.00 (1) | 55.00 (1) | +5.00" in first
        assert "; † fewer than 3 seeds; " in first
        assert other == ""

    def test_a_setting_of_elmo_alone_is_shown_with_the_plain_baseline(self, runs, root):
        save_run(runs, 70, task="sst5", features="elmo", variant={"features.elmo.l2": 0.1})
        _, other = self.page(runs, root)
        assert "SST-5, l2 0.1 | accuracy | 51.00±1.41 (2) | 70.00 (1) | +19.00, " in other

    def test_a_setting_of_the_trainer_does_not(self, runs, root):
        save_run(runs, 70, task="sst5", features="elmo", variant={"trainer.lr": 0.1}, lr=0.1)
        _, other = self.page(runs, root)
        assert "SST-5, lr 0.1 | accuracy | - | 70.00 (1) |" in other

    def test_a_setting_that_the_plain_baseline_has_already(self, runs, root):
        save_run(runs, 70, task="sst5", features="elmo", variant={"trainer.lr": 0.001}, lr=0.001)
        _, other = self.page(runs, root)
        assert "SST-5, lr 0.001 | accuracy | 51.00±1.41 (2) | 70.00 (1) | +19.00, " in other

    def test_a_setting_of_elmo_with_the_baseline_of_the_same_other_settings(self, runs, root):
        save_run(runs, 40, task="sst5", features="glove", variant={"trainer.lr": 0.1}, lr=0.1)
        settings = {"features.elmo.l2": 0.1, "trainer.lr": 0.1}
        save_run(runs, 70, task="sst5", features="elmo", variant=settings, lr=0.1)
        _, other = self.page(runs, root)
        assert "SST-5, l2 0.1, lr 0.1 | accuracy | 40.00 (1) | 70.00 (1) | +30.00, " in other

    def test_the_command_of_a_row_names_its_arms(self, runs, root):
        for seed in (1, 2):
            save_run(runs, 56, task="sst5", features="word2vec", seed=seed)
        first, _ = self.page(runs, root)
        assert "features=glove,elmo,word2vec seed=1,2 " in first

    def test_the_table_of_readme_has_six_columns_and_no_controls(self, runs, root):
        save_run(runs, 41, task="sst5", features="elmo_random")
        self.page(runs, root)
        lines = [line for line in (root / "README.md").read_text().splitlines() if line.startswith("|")]
        assert lines[0] == "| task | metric | GloVe | + ELMo | gain, 95 % interval | paper |"
        assert {line.count("|") for line in lines} == {7}
        assert "41.00" not in "".join(lines)

    def test_other_data_have_no_numbers_of_the_paper(self, tmp_path, root):
        for features in ("glove", "elmo"):
            save_run(tmp_path / "snli", 50, data="standin", task="snli", features=features)
        first, _ = self.page(tmp_path / "snli", root)
        assert "| SNLI, stand-in data | accuracy | 50.00 (1) | 50.00 (1) | +0.00, +0.0 to +0.0† | 1.000 |" in first
        assert "→" not in first

    def test_seeds_of_two_devices_have_a_command_each(self, runs, root):
        for seed, device in ((1, "cpu"), (2, "NVIDIA H200"), (3, "cpu")):
            environment = replace(CLEAN, device=device, threads=1)
            save_run(runs, 56, task="sst5", features="word2vec", seed=seed, environment=environment)
        first, _ = self.page(runs, root)
        assert "python -m tasks.run -m task=sst5 data=paper features=word2vec seed=1,3 device=cpu\n" in first
        assert "python -m tasks.run task=sst5 data=paper features=word2vec seed=2 device=cuda\n" in first

    def test_other_metrics_than_the_main_one(self, runs, root):
        for seed, em in ((1, 30.0), (2, 33.0)):
            path = runs / make_record(task="sst5", features="elmo", seed=seed).identity.path
            record = read_record(path)
            scores = {**record.scores, "test": {**record.scores["test"], "em": em}}
            write_record(path, replace(record, scores=scores))
        main(["--runs", str(runs)], root)
        page = (root / "results" / "tables.md").read_text()
        # 3 / sqrt(2) = 2.12; the baseline has no such score
        assert "| task | metric | + ELMo |\n| --- | --- | --- |\n| SST-5 | exact match | 31.50±2.12 (2) |" in page

    def test_a_mean_over_several_commits_is_counted(self, runs, root):
        save_run(runs, 55, task="sst5", features="elmo", seed=3, environment=replace(CLEAN, commit="b" * 40))
        first, *_ = self.page(runs, root)
        assert "; 1 warning, " in first
        assert "`python -m results.table --published --notes` shows them" in first
        assert not re.search("^- ", (root / "results" / "tables.md").read_text(), re.MULTILINE), "no list of notes"

    def test_a_declared_warning_is_printed_once_and_marks_its_scores(self, runs, root):
        features = {"name": "masked", "elmo": {"warning": "read this"}}
        for seed in (3, 4):
            variant = {"trainer.epochs": 5}
            save_run(
                runs, 55, task="sst5", features="masked", seed=seed, variant=variant, config={"features": features}
            )
        *_, other = self.page(runs, root)
        assert "55.00±0.00 (2)‡" in other
