"""The report as a site: links, policy and sizes; the strings of results.table; in a browser what its script does."""

import csv
import gzip
import io
import json
import os
import re
from html import unescape
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest

from tests.results.browser import browser, visit
from tests.results.making import first_right, make_record, run_report, run_table, save
from tests.results.report.conftest import save_runs

AXE = Path(os.environ.get("AXE_JS", "axe.min.js"))
in_browser = [
    pytest.mark.integration,
    pytest.mark.skipif(browser() is None, reason="no chromium on the path: apt-get install chromium"),
]


class Links(HTMLParser):
    """The anchors of a page, what it refers to, and what a policy without 'unsafe-inline' would refuse."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.inline, self.policies = [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("href", "src", "data-load") if name in found]
        self.inline += [name for name in found if name == "style" or name.startswith("on")]
        self.inline += [tag] * (tag == "style" or (tag == "script" and "src" not in found))
        self.policies += [found.get("content")] * (found.get("http-equiv") == "Content-Security-Policy")


def save_all(folder):
    """Runs with charts, a table of the paper, other settings, a control, and names that look like HTML and paths."""
    runs = save_runs(folder)
    for place, right in (("[input]", 60), ("[input,output]", 62)):
        for seed in (1, 2):
            variant = {"features.elmo.places": place}
            record = make_record(right + seed, data="ewt", task="srl", features="elmo", seed=seed, variant=variant)
            save(runs, record)
    for features, right in (("glove", 40), ("elmo_layer0", 45), ("elmo", 50)):
        for seed in (1, 2, 3):
            record = make_record(right + seed, task="sst5", metric="accuracy", features=features, seed=seed)
            save(runs, record, first_right(right + seed))
    evil = "../../<img src=x onerror=alert(1)>"
    save(runs, make_record(50.0, data="mini", task=evil, features="<script>x</script>", variant={"x": '"><b'}))
    return runs


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site of the runs above, and their folder."""
    folder = tmp_path_factory.mktemp("site")
    runs = save_all(folder)
    before = set(folder.rglob("*"))
    assert run_report(runs, "--site", folder / "site") == (0, "")
    assert {path.parts[len(folder.parts)] for path in set(folder.rglob("*")) - before} == {"site"}
    return folder / "site", runs


def pages_of(folder):
    return {path.name: Links(path) for path in sorted(folder.glob("*.html"))}


def assert_links(folder):
    """Each link leads to a file or an anchor below the folder, and to every page leads one."""
    pages = pages_of(folder)
    hits = [href for _, _, href in json.loads((folder / "data" / "search.json").read_text())]
    linked = set()
    for name, page in {**pages, "search": None}.items():
        for link in page.links if page else hits:
            if link == "data:,":
                continue
            target, _, anchor = link.replace("?", "#?").partition("#")
            linked.add(target)
            assert (folder / (target or name)).is_file(), (name, link)
            if anchor and not anchor.startswith("?"):
                assert anchor in pages[target or name].ids, (name, link)
    assert pages.keys() <= linked
    return pages


def test_pages_link_to_each_other_alone(site):
    folder, runs = site
    pages = assert_links(folder)
    assert pages.keys() > {f"{key}.html" for key in ("index", "compare", "runs", "scores", "table3", "task-sst5")}
    assert "task-sst5-others.html" in pages, "loaded on demand"
    assert "1 rows of other settings" in (folder / "task-sst5.html").read_text()
    for name, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), name
    records = {path.read_text() for path in (folder / "records").iterdir()}
    assert records == {path.read_text() for path in runs.rglob("record.json")}


def test_the_policy_allows_files_of_the_site_alone(site):
    for name, page in pages_of(site[0]).items():
        assert page.inline == [], name
        (policy,) = page.policies
        allowed = dict(rule.split(" ", 1) for rule in policy.split("; "))
        assert allowed.pop("img-src") == "data:", "the empty icon"
        assert allowed.pop("default-src") == "'none'"
        assert set(allowed.values()) == {"'self'", "'none'"}
    script = (site[0] / "site.js").read_text() + (site[0] / "page.js").read_text()
    assert not re.search(r"eval|innerHTML|https?:|XMLHttp|document\.write", script)


def first_load(folder):
    files = ("index.html", "style.css", "page.js", "site.js")
    return sum(len(gzip.compress((folder / name).read_bytes())) for name in files)


@pytest.mark.integration
def test_the_published_site_has_whole_links_and_a_light_first_page(tmp_path):
    """What GitHub Pages shows; other settings and numbers are not part of the pages that lead to them."""
    from results.report.__main__ import main

    assert main(["--published", "--site", str(tmp_path)]) == 0
    pages = assert_links(tmp_path)
    assert pages.keys() > {
        f"{name}.html" for name in ("table2", "table3", "table4", "table5", "table6", "figure1", "board")
    }
    assert "Self-reported rows may be forged consistently" in (tmp_path / "board.html").read_text()
    assert first_load(tmp_path) < 150_000
    for name in pages:
        text = (tmp_path / name).read_text()
        assert str(Path.cwd()) not in text, "no path of this machine"
        assert len(gzip.compress(text.encode())) < 150_000, name
    readme = re.sub(r"\s+", " ", Path("README.md").read_text().split("\n\n")[1].replace("**", ""))
    assert re.match(r"[A-Z][^<>\[\]!]{80,}$", readme), "a paragraph of plain text"
    assert readme in re.sub(r"\s+", " ", unescape((tmp_path / "index.html").read_text()))


def cells_of(text):
    """The cells of a page's tables, as results.table writes them."""
    cells = re.findall(r"<td data-label=.*?><span>(.*?)</span></td>", text)
    cells = [re.sub("<small>", ", ", cell) for cell in cells]
    return [unescape(re.sub("<.*?>", "", cell)).replace("\N{MINUS SIGN}", "-") for cell in cells]


@pytest.mark.parametrize(
    ("page", "arguments"),
    [
        ("index", ("--wide",)),
        ("scores", ("--wide",)),
        ("task-sst5", ("--wide",)),
        ("table3", ("--experiment", "table3", "--wide")),
    ],
)
def test_cells_are_those_of_the_table(site, capsys, page, arguments):
    folder, runs = site
    _, table, _ = run_table(capsys, "--runs", runs, *arguments)
    cells = cells_of((folder / f"{page}.html").read_text())
    assert len(cells) >= 4
    for cell in filter(None, cells):
        assert cell in table, cell


@pytest.mark.parametrize(("key", "arguments"), [("scores", ()), ("table3", ("--experiment", "table3"))])
def test_downloads_are_those_of_the_table(site, capsys, key, arguments):
    """All lines that have runs; of the JSON the numbers, rounded, are the strings of the page."""
    folder, runs = site
    _, table, _ = run_table(capsys, "--runs", runs, *arguments, "--format", "csv")
    known = list(csv.DictReader(io.StringIO(table)))
    found = list(csv.DictReader(io.StringIO((folder / "data" / f"{key}.csv").read_text())))
    run = {(line["row"], line["split"]) for line in known if line["n"] != "0"}
    assert found == [line for line in known if (line["row"], line["split"]) in run]
    cells = cells_of((folder / f"{key}.html").read_text())
    rows = json.loads((folder / "data" / f"{key}.json").read_text())
    shown = [arm for row in rows for arm in row["arms"].values() if arm["n"] > 1]
    assert (
        sum(any(cell.startswith(f"{arm['mean']:.2f}±{arm['std']:.2f} ({arm['n']})") for cell in cells) for arm in shown)
        >= 2
    )
    for row in rows:
        if row["gain_interval"] and key == "table3":
            assert any(cell.startswith(f"{row['gain']:+.2f}, {row['gain_interval']['low']:+.1f} to ") for cell in cells)


def test_any_two_arms_have_the_numbers_of_the_table(site, capsys):
    folder, runs = site
    for key, option in (("scores", ("--wide", "--main")), ("table3", ("--experiment", "table3", "--wide"))):
        pairs = json.loads((folder / "data" / f"{key}-pairs.json").read_text())
        assert {tuple(line[:2]) for line in pairs["lines"]} >= {
            ("elmo", "glove") if key == "scores" else ("both", "input")
        }
        for first, second, title, _, *cells, over in pairs["lines"]:
            _, table, _ = run_table(capsys, "--runs", runs, *option, "--compare", first, second)
            lines = [line for line in table.splitlines() if line.startswith(f"{title}  ")]
            cells = [cell for cell in cells if cell != "-"]
            assert any(all(cell in line for cell in cells) for line in lines), (key, first, second, cells)
            assert over in ("examples and seeds", "seeds", "examples", "")
    lines = json.loads((folder / "data" / "scores-pairs.json").read_text())["lines"]
    (whole,) = [line for line in lines if line[:3] == ["elmo_layer0", "elmo", "SST-5"]]
    assert whole[4:6] == ["47.00±1.00 (3)", "52.00±1.00 (3)"]
    assert whole[6].startswith("+5.00, ")


class TestInABrowser:
    """What needs the script."""

    pytestmark = in_browser

    def test_a_shared_address_is_restored(self, site):
        script = """
          await until(() => all("#compared td").length);
          const values = () => all("select").map(e => e.value);
          const cells = () => all("#compared tbody tr").map(row => [...row.cells].map(e => e.textContent));
          const seen = [values(), cells(), page.location.search, all("#command code")[0].textContent];
          const before = all("#compared table")[0];
          all("#first")[0].value = "glove";
          all("#first")[0].dispatchEvent(new Event("change"));
          await until(() => all("#compared table")[0] !== before && all("#compared td").length);
          return [...seen, page.location.search, cells().length];"""
        address = "compare.html?table=scores&second=elmo&first=elmo_layer0"
        seen = visit(site[0], address, 820, script=script)
        assert seen.console == []
        values, cells, search, command, later, rows = seen.found
        assert values == ["scores", "elmo", "elmo_layer0"]
        lines = json.loads((site[0] / "data" / "scores-pairs.json").read_text())["lines"]
        expected = [line[2:] for line in lines if line[:2] == ["elmo_layer0", "elmo"]]
        assert [[cell.replace("\N{MINUS SIGN}", "-") for cell in line] for line in cells] == expected
        assert search == "?table=scores&first=elmo_layer0&second=elmo"
        assert command.endswith("--compare elmo_layer0 elmo")
        assert later == "?table=scores&first=glove&second=elmo"
        assert rows > len(expected)

    def test_the_search_opens_what_it_finds(self, site):
        """Every entry of the index, found by its title, as a link of the search; what it leads to is on the screen."""
        script = """
          const frame = page.defaultView.frameElement;
          const known = await (await fetch("data/search.json")).json(), lost = [];
          const open = async (address) => {
            const loaded = new Promise(done => frame.addEventListener("load", done, {once: true}));
            frame.src = address;
            await loaded;
          };
          for (const [title, more, href] of known) {
            await open("about:blank");
            await open("index.html");
            const find = frame.contentDocument.querySelector("#find");
            find.value = title + " " + more;
            find.dispatchEvent(new Event("input"));
            const links = () => [...frame.contentDocument.querySelectorAll("#hits a")];
            await until(() => links().length);
            const link = links().find(e => e.getAttribute("href") === href);
            if (!link?.checkVisibility()) { lost.push(["no link", title]); continue; }
            await open("about:blank");
            await open(href);
            const found = frame.contentDocument.getElementById(href.split("#")[1] ?? "content");
            const {top, height} = found?.getBoundingClientRect() ?? {};
            if (!found?.checkVisibility() || !height || top < -1 || top > frame.clientHeight) lost.push([href, top]);
          }
          return [known.length, lost];"""
        seen = visit(site[0], "index.html", 1280, script=script)
        assert seen.console == []
        count, lost = seen.found
        assert (count > 30, lost) == (True, [])

    def test_other_settings_are_loaded_when_opened(self, site):
        script = """
          const part = all("details[data-load]")[0], before = part.querySelectorAll("table").length;
          part.open = true;
          await until(() => part.querySelector(".sortable"));
          const buttons = [...part.querySelectorAll("thead button")];
          return [before, part.querySelectorAll(".sortable > tbody").length, buttons.every(e => !e.disabled)];"""
        seen = visit(site[0], "task-sst5.html", 1280, script=script)
        assert (seen.console, seen.found) == ([], [0, 1, True])

    @pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: npm pack axe-core, and AXE_JS=its axe.min.js")
    @pytest.mark.parametrize(("width", "dark"), list(product((1280, 820, 390), (False, True))))
    def test_axe_finds_nothing(self, site, width, dark):
        """On any page, all its parts open; but it finds what is planted."""
        script = """
          const frame = page.defaultView.frameElement, found = {};
          for (const name of PAGES) {
            const loaded = new Promise(done => frame.addEventListener("load", done, {once: true}));
            frame.src = name;
            await loaded;
            const shown = frame.contentDocument, axe = shown.createElement("script");
            for (const part of shown.querySelectorAll("main details")) part.open = true;
            await until(() => ![...shown.querySelectorAll("details[data-load]")].length);
            axe.src = `/${AXE}`;
            shown.head.append(axe);
            await until(() => frame.contentWindow.axe);
            if (name === "index.html?planted") shown.querySelector("main").append(shown.createElement("button"));
            const {violations} = await frame.contentWindow.axe.run(shown);
            const wide = shown.documentElement.scrollWidth > WIDTH ? ["too wide"] : [];
            found[name] = [...violations.map(e => `${e.id}: ${e.nodes[0].html.slice(0, 99)}`), ...wide];
          }
          return found;"""
        pages = [*pages_of(site[0]), "index.html?planted"]
        for name, value in {"PAGES": json.dumps(pages), "WIDTH": str(width), "${AXE}": AXE.name}.items():
            script = script.replace(name, value)
        seen = visit(site[0], "compare.html", width, dark=dark, script=script, files=[AXE])
        assert seen.console == []
        planted = seen.found.pop("index.html?planted")
        assert [one.partition(":")[0] for one in planted] == ["button-name"]
        assert {name: found for name, found in seen.found.items() if found} == {}
