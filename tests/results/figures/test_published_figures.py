"""The published figures as a browser draws them: legible, nothing on top of a text, every sign explained, one style."""

import re
from xml.etree import ElementTree

import pytest

from results.tables.sheet import MARKS
from tests.results.browser import browser, look

SVG = "{http://www.w3.org/2000/svg}"
SHOWN_AT = 848  # pixels that a page of a repository has for a figure, in a window of 1280
OVERLAPS = """
  const wrong = [];
  for (const svg of all("svg")) {
    const name = svg.parentElement.id, room = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map(e => [e.textContent, e.getBoundingClientRect()]);
    texts.forEach(([text, a], i) => {
      if (a.left < room.left || a.right > room.right + 1 || a.bottom > room.bottom) wrong.push([name, text, "outside"]);
      for (const [other, b] of texts.slice(i + 1))
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4)
          wrong.push([name, text, other]);
    });
  }
  return wrong;
"""


@pytest.fixture(scope="module")
def files(repository):
    found = sorted((repository / "results" / "published").glob("*.svg"))
    assert len(found) > 10
    return found


def test_texts_are_large_enough_and_explain_their_signs_in_one_style(files):
    for path in files:
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        elements = list(root.iter(f"{SVG}text"))
        texts = [element.text for element in elements]
        scale = min(SHOWN_AT / float(root.get("width")), 1)
        assert min(float(element.get("font-size")) for element in elements) * scale >= 11, path.name
        signs = {sign for sign in MARKS if any(sign in text for text in texts)}
        assert all(any(text.startswith(sign) for text in texts) for sign in signs), (path.name, signs)
        assert not [text for text in texts if re.search(r"\d%|(^|[ (])-\d", text)], path.name


@pytest.mark.skipif(browser() is None, reason="no chromium on the path: apt-get install chromium")
def test_no_text_covers_another_or_leaves_its_figure(files, tmp_path):
    drawn = "".join(f'<p id="{path.stem}">{path.read_text(encoding="utf-8").split("?>")[1]}</p>' for path in files)
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8>{drawn}", encoding="utf-8")
    seen = look(page, 1000, script=OVERLAPS)
    assert seen.drawings == len(files)
    assert seen.found == []
