"""The report in a real browser: its looks, its script, and nothing that runs out of the screen."""

import pytest

from tests.results.browser import browser, look, screenshot
from tests.results.making import make_record, run_report, save

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(browser() is None, reason="no chromium on the path: apt-get install chromium"),
]


@pytest.fixture
def page(runs):
    """A page of three tasks."""
    for task, scores in (("ner", (50.0, 55.0)), ("snli", (70.0, 60.0))):
        for features, score in zip(("glove", "elmo"), scores, strict=True):
            save(runs, make_record(score, task=task, features=features))
    assert run_report(runs)[0] == 0
    return runs.parent / "report.html"


def test_the_script_sorts_and_searches(page):
    """Gains: SST-5 +20, NER +5, SNLI -10."""
    script = """
      const shown = () => all("#scores > .scores tbody[data-find]").filter(e => !e.hidden);
      const rows = () => shown().map(e => e.rows[0].cells[0].dataset.value);
      const button = (text) => all("button").find(e => e.textContent === text);
      const press = (text) => { const found = button(text); found.click(); return found; };
      const steps = {start: rows()};
      steps.gain = [press("gain, 95 % interval").parentElement.ariaSort, rows()];
      steps.again = [press("gain, 95 % interval").parentElement.ariaSort, rows()];
      steps.task = [press("task").parentElement.ariaSort, rows(), button("gain, 95 % interval").parentElement.ariaSort];
      const search = all("#search")[0];
      const fold = all("#scores > details").find(e => e.querySelector("tbody"));
      const closed = !fold.open;
      search.value = "Accuracy mini";
      search.dispatchEvent(new Event("input"));
      steps.found = [rows(), all("[role=status]")[0].textContent, closed, fold.open];
      return steps;"""
    seen = look(page, 1440, script=script)
    assert seen.console == []
    names = {"sst5": "mini SST-5", "ner": "NER, CoNLL-2003", "snli": "SNLI"}
    assert seen.found == {
        "start": [names["snli"], names["ner"], names["sst5"]],
        "gain": ["descending", [names["sst5"], names["ner"], names["snli"]]],
        "again": ["ascending", [names["snli"], names["ner"], names["sst5"]]],
        "task": ["ascending", [names["sst5"], names["ner"], names["snli"]], "none"],
        "found": [[names["sst5"]], "2 of 4 rows", True, True],
    }


def test_on_paper_no_column_is_lost_and_keys_and_copies_work(page):
    """As on a landscape A4 page with margins of 12 mm, 1032 pixels, by exchanging the media of the styles' rules."""
    script = """
      const button = all(".copy")[0];
      button.closest("details").open = true;
      all("#search")[0].focus();
      const outline = page.defaultView.getComputedStyle(all("#search")[0]).outlineWidth;
      page.defaultView.navigator.clipboard.writeText = undefined;  // as where a browser refuses
      button.click();
      const copied = [page.getSelection().toString(), all("[role=status]")[0].textContent];
      for (const rule of [...page.styleSheets[0].cssRules].filter(e => e.media)) {
        const media = rule.media.mediaText;
        rule.media.mediaText = media === "print" ? "all" : media.includes("screen") ? "not all" : media;
      }
      const headers = all(".sortable")[0].tHead.rows[0].cells;
      const cells = all("th, td").filter(e => e.checkVisibility());
      const lost = cells.filter(e => e.getBoundingClientRect().right > 1032).map(e => e.textContent);
      return {outline, copied, headers: [...headers].filter(e => e.checkVisibility()).map(e => e.textContent), lost,
        cells: cells.length, bar: page.defaultView.getComputedStyle(all(".bar")[0]).position};"""
    seen = look(page, 1032, script=script)
    assert seen.console == []
    command, told = seen.found["copied"]
    assert (command.startswith("python -m tasks.run"), told) == (True, "command selected")
    assert seen.found["outline"] == "3px"
    headers = ["task", "GloVe", "+ ELMo", "gain, 95 % interval", "p", "errors removed, 95 % interval", "paper"]
    assert (seen.found["headers"], seen.found["lost"], seen.found["bar"]) == (headers, [], "static")
    assert seen.found["cells"] > 3 * len(headers)


@pytest.mark.parametrize(("dark", "widths"), [(False, (390, 820, 1440)), (True, (390,))])
def test_a_browser_shows_it_on_a_desk_and_on_a_phone(runs, dark, widths):
    long_name = "mixed-" * 12
    save(
        runs, make_record(50.0, data="mini", task="sst5", metric="accuracy", features=long_name, variant={long_name: 1})
    )
    text, page = run_report(runs)[1], runs.parent / "report.html"
    for width in widths:
        opened = 'all("details").forEach(e => { e.open = true; }); return page.documentElement.scrollWidth;'
        seen = look(page, width, dark=dark, script=opened)
        assert seen.console == []
        assert (seen.width, seen.found, seen.too_wide) == (width, width, [])
        assert seen.height > 2000
        assert seen.drawings == text.count("<svg")


def test_a_long_name_of_an_arm_stays_in_its_half_of_a_card(runs):
    long_name = "mixed-" * 12
    save(runs, make_record(50.0, data="mini", task="sst5", metric="accuracy", features=long_name.replace("-", "_")))
    run_report(runs)
    script = """
      const text = [...all("td[data-label]")].find(e => e.dataset.label.startsWith("mixed_"));
      return [text.scrollWidth - text.clientWidth, text.clientHeight];"""
    over, height = look(runs.parent / "report.html", 390, script=script).found
    assert over <= 0
    assert height > 60, "on several lines"


def test_a_screenshot_follows_light_and_dark(runs):
    image = pytest.importorskip("PIL.Image")
    assert run_report(runs)[0] == 0
    corners = []
    for dark in (False, True):
        shot = runs.parent / f"shot-{dark}.png"
        screenshot(runs.parent / "report.html", shot, 800, 600, dark=dark)
        with image.open(shot) as seen:
            assert seen.size == (800, 600)
            corners.append(sum(seen.convert("RGB").getpixel((2, 2))))
    assert corners[0] > 3 * 200 > 3 * 60 > corners[1]
