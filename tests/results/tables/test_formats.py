"""Output formats of the table, and which packages they import."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import results.breakdown
import results.table
from results.records.record import RunError
from results.stats import Interval
from results.tables.sheet import shown_p
from results.tables.writers import TEX_PACKAGES
from tests.results.making import make_record, run_table, save

ROOT = Path(__file__).parents[3]


@pytest.fixture
def runs(tmp_path):
    """NER and SQuAD on the paper's data, a stray setting and a row that only failed."""
    for seed, (glove, elmo) in enumerate([(90.0, 92.1), (90.3, 92.3), (90.15, 92.26)], start=1):
        save(tmp_path, make_record(glove, seed=seed))
        save(tmp_path, make_record(elmo, features="elmo", seed=seed))
    save(tmp_path, make_record(90.4, features="elmo_random"))
    save(tmp_path, make_record(80.4, task="squad"))
    save(tmp_path, make_record(91.4, features="elmo", variant={"note": "a|b_ & 50%, {x}"}))
    error = RunError("RuntimeError", "CUDA out of memory | 50% & more\nsecond line")
    save(tmp_path, make_record(data="mini", task="sst5", features="elmo", seed=3, error=error))
    return tmp_path


def test_json_is_a_list_of_rows_in_percent(capsys, runs):
    status, out, err = run_table(capsys, "--runs", runs, "--format", "json")
    rows = json.loads(out)
    assert status == 0
    assert [(row["data"], row["task"], row["metric"]) for row in rows] == [
        ("paper", "squad", "f1"),
        ("paper", "ner", "f1"),
        ("mini", "sst5", ""),
        ("paper", "ner", "f1"),
    ]
    ner, other = rows[1], rows[3]
    assert list(ner["arms"]) == ["glove", "elmo", "elmo_random"]
    assert ner["arms"]["glove"] == {
        "n": 3,
        "mean": 90.15,
        "std": 0.15,
        "scores": [90.0, 90.3, 90.15],
        "seeds": [1, 2, 3],
        "limit": None,
        "recipe": ner["arms"]["glove"]["recipe"],
        "paper": 90.15,
        "paper_std": None,
        # three runs and the paper's five with a variance of 0.15^2: 4.3027 * 0.15 * sqrt(1 / 3 + 1 / 5)
        "verdict": "+0.00 open (-0.47 to +0.47)",
    }
    assert ner["arms"]["elmo_random"]["std"] is None
    assert (other["settings"], other["arms"]["elmo"]["mean"]) == ({"note": "a|b_ & 50%, {x}"}, 91.4)
    assert ner["gain"] == 2.07
    assert ner["errors_removed"] == pytest.approx(21.0, abs=0.05)
    assert (ner["arms"]["elmo"]["paper"], ner["arms"]["elmo"]["paper_std"]) == (92.22, 0.1)
    assert rows[0]["gain"] is None
    assert rows[2]["arms"] == {}
    assert "SQuAD 1.1, dev: no runs of elmo" in err
    assert "mini sst5 elmo seed 3: RuntimeError: CUDA out of memory" in err


def test_csv_is_long_and_survives_a_reader(capsys, runs):
    """One line for each mean, whichever arms and settings there are."""
    _, out, _ = run_table(capsys, "--runs", runs, "--format", "csv")
    squad, glove, elmo, control, noted = csv.DictReader(io.StringIO(out))
    names = [(line["task"], line["arm"], line["settings"]) for line in (squad, glove, elmo, control, noted)]
    assert names == [
        ("squad", "glove", ""),
        ("ner", "glove", ""),
        ("ner", "elmo", ""),
        ("ner", "elmo_random", ""),
        ("ner", "elmo", "note=a|b_ & 50%, {x}"),
    ]
    assert (glove["mean"], glove["std"], glove["n"], glove["paper"], glove["gain"]) == (
        "90.15",
        "0.15",
        "3",
        "90.15",
        "",
    )
    assert (elmo["over"], elmo["gain"], elmo["paper"], elmo["verdict"]) == (
        "glove",
        "2.07",
        "92.22",
        elmo["verdict"],
    )
    assert "equivalent" in elmo["verdict"]
    assert float(elmo["errors_removed"]) == pytest.approx(100 * 2.07 / 9.85, abs=1e-4)
    assert (noted["mean"], noted["gain"], control["std"]) == ("91.4", "", "")
    assert all(None not in line and None not in line.values() for line in (squad, noted))


def test_text_shows_numbers_failures_and_commands(capsys, runs):
    status, out, err = run_table(capsys, "--runs", runs, "--wide")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    (ner,) = [line for line in lines if line.startswith("NER, CoNLL-2003  ")]
    assert re.split("  +", ner) == [
        *("NER, CoNLL-2003", "F1", "90.15±0.15 (3)", "92.22±0.11 (3)", "90.40 (1)", "+2.07, +1.8 to +2.4", "<0.001"),
        *("21.0 %, 18.3 to 23.7", "90.15 → 92.22", "21.0 %", "+0.00 open (-0.47 to +0.47)"),
        *("+0.00 equivalent (-0.21 to +0.21)", "in 89.5 to 91.5"),
    ]
    header = lines[2]
    assert header.index("GloVe") == ner.index("90.15±")
    assert header.index("+ ELMo ") == ner.index("92.22±0.11")
    failed = lines[lines.index("Failed runs:") + 1]
    assert failed.startswith("  mini sst5 elmo seed 3: RuntimeError: CUDA out of memory | 50% & more second line (")
    assert "  SQuAD 1.1, dev: no runs of elmo" in lines
    assert any("note a|b_ & 50%, {x}" in line and "91.40 (1)" in line for line in lines)


def unescaped(separator, line):
    return [cell.strip() for cell in re.split(rf"(?<!\\){re.escape(separator)}", line)]


def test_markdown_tables_are_rectangular_and_escaped(capsys, runs):
    _, out, _ = run_table(capsys, "--runs", runs, "--wide", "--format", "md")
    assert run_table(capsys, "--runs", runs, "--wide", "--format", "markdown")[1] == out
    main, settings = re.findall(r"(?:^\|.*\n)+", out, flags=re.MULTILINE)
    for table, rows in ((main, 3), (settings, 1)):
        cells = [unescaped("|", line) for line in table.splitlines()]
        assert len(cells) == 2 + rows
        assert len({len(line) for line in cells}) == 1
        assert set(cells[1][1:-1]) == {"---"}
    assert r"note a\|b\_ & 50%, {x}" in settings
    assert "untrained biLM (control)" in main


def test_tex_tables_are_rectangular_and_escaped(capsys, runs):
    _, out, _ = run_table(capsys, "--runs", runs, "--wide", "--format", "tex")
    main, settings = re.findall(r"\\begin\{tabular\}\{@\{\}([lr]+)@\{\}\}\n(.*?)\\end\{tabular\}", out, flags=re.DOTALL)
    for (columns, body), rows in ((main, 3), (settings, 1)):
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len(lines) == 1 + rows
        assert {len(unescaped("&", line)) for line in lines} == {len(columns)}
    assert r"90.15$\pm$0.15 (3)" in main[1]
    assert "$<$0.001" in main[1]
    assert "$+$1.8 to $+$2.4" in main[1]
    assert r"21.0 \%, 18.3 to 23.7" in main[1]
    assert "$-$0.82 short" in settings[1]
    assert r"note a$|$b\_ \& 50\%, \{x\}" in settings[1]
    outside = re.sub(r"\\begin\{table\}.*?\\end\{table\}", "", out, flags=re.DOTALL)
    assert all(line.startswith("%") for line in outside.splitlines() if line)
    assert_balanced(out)


def assert_balanced(text):
    """Braces and environments are closed in the order in which they were opened."""
    code = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("%"))
    opened = []
    for begin, end, brace in re.findall(r"\\begin\{(\w+)\}|\\end\{(\w+)\}|(?<!\\)([{}])", code):
        if begin or brace == "{":
            opened.append(begin or brace)
        else:
            assert opened.pop() == (end or "{")
    assert opened == []


def test_tex_explains_its_marks_in_the_table_and_bold_is_what_is_beyond_noise(capsys, runs):
    for seed, features in [(1, "glove"), (2, "glove"), (1, "elmo"), (2, "elmo")]:  # two seeds and no difference
        save(runs, make_record(60.0 + seed, data="mini", features=features, seed=seed))
    _, out, _ = run_table(capsys, "--runs", runs, "--format", "tex")
    (notes,) = re.findall(
        r"\\begin\{tablenotes\}\n(.*?)\\end\{tablenotes\}\n\\end\{threeparttable\}", out, flags=re.DOTALL
    )
    assert r"\item[\textdagger{}] fewer than 3 seeds" in notes
    assert r"\item 95 \% intervals and p: over seeds alone" in notes
    assert re.findall(r"\\textbf\{(.*?)\}", out) == [r"92.22$\pm$0.11 (3)"]
    assert r"\caption{Test scores in percent, mean$\pm$std (number of seeds)}" in out
    save(runs, make_record(92.2, features="elmo_random"))  # a control that is as good
    wide = run_table(capsys, "--runs", runs, "--format", "tex", "--wide")[1]
    assert "textbf" not in wide


def test_methods_name_data_seeds_recipe_versions_and_hardware(capsys, runs):
    status, out, _ = run_table(capsys, "--runs", runs, "--format", "methods")
    assert status == 0
    assert_balanced(out)
    record = make_record(90.0)
    lines = out.splitlines()
    assert sum(line.startswith("NER, CoNLL-2003") for line in lines) == 2  # also under another setting
    assert f"seeds 1 to 3; recipe {record.recipe} of the task" in next(
        line for line in lines if line.startswith("NER, ")
    )
    assert f"torch {record.environment.packages['torch']}" in out
    assert record.environment.device in lines[-1]
    assert "; 9 runs took " in lines[-1]


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex: apt-get install texlive-latex-extra")
def test_the_core_table_of_the_published_records_fits_a_page(capsys, tmp_path):
    _, out, _ = run_table(capsys, "--published", "--format", "tex")
    page = rf"\documentclass{{article}}\usepackage{{{TEX_PACKAGES}}}\begin{{document}}{out}\end{{document}}"
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "page.tex"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    assert "Overfull" not in done.stdout


def table_process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True, env={"PATH": "", **environment}
    )


@pytest.mark.parametrize("command", [results.table, results.breakdown])
def test_80_columns_lose_nothing_and_break_no_word(capsys, monkeypatch, published_files_are_read_once, command):
    def words(width):
        monkeypatch.setenv("COLUMNS", width)
        command.main(["--published", "--data", "paper", *["--wide", "--notes"] * (command is results.table)])
        lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("---")]
        return lines, {word for line in lines for word in line.split() if word != "(continued)"}

    wide, narrow = words("1000"), words("80")
    assert max(map(len, wide[0])) > 120
    assert max(len(line) for line in narrow[0] if "python -m" not in line) <= 80
    assert narrow[1] == wide[1]


def test_a_terminal_without_plus_minus_gets_plain_ascii(runs):
    done = table_process("-m", "results.table", "--runs", str(runs), "--wide", PYTHONIOENCODING="ascii")
    assert b"90.15+-0.15 (3)" in done.stdout
    assert done.stderr == b""


def test_little_more_than_the_standard_library_is_loaded(runs):
    """A table must come at once: no torch, no Hydra, no task, no scipy; numpy computes its intervals."""
    code = (
        "import sys, results.table\n"
        f"results.table.main(['--runs', {str(runs)!r}, '--check'])\n"
        "slow = 'torch hydra omegaconf tasks matplotlib pandas sklearn datasets h5py scipy'\n"
        "sys.stderr.write('SLOW ' + ' '.join(set(slow.split()) & set(sys.modules)))\n"
    )
    assert table_process("-c", code).stderr.split(b"SLOW")[1].split() == []


@pytest.mark.parametrize(("p", "text"), [(0.0009, "<0.001"), (0.001, "0.001"), (0.0051, "0.005"), (1.0, "1.000")])
def test_p_has_three_digits(p, text):
    assert shown_p(Interval(-1.0, 1.0, p, "seeds", 3)) == text
