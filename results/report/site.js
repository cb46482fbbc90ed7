// The site's search, what is loaded on demand, and the comparison of two arms. Uses page.js.
"use strict";
const get = async (name) => {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer;
};
const failed = (error) => {
  status.textContent = `not loaded (${error.message}); the pages need a server: python -m http.server`;
};
const make = (tag, text = "", attributes = {}) => {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

// What a link leads to may be in closed parts.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target?.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  target?.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();

// Other settings come from a page of their own.
async function load(part) {
  if (!part.open || !part.dataset.load) return;
  const name = part.dataset.load;
  delete part.dataset.load;
  try {
    const page = new DOMParser().parseFromString(await (await get(name)).text(), "text/html");
    const found = all("main section > :not(h2)", page).map((element) => document.adoptNode(element));
    for (const element of found) enable(element);
    part.append(...found);
  } catch (error) {
    part.dataset.load = name;
    failed(error);
  }
}
for (const part of all("details[data-load]")) part.addEventListener("toggle", () => load(part));

// The search: all words in a title or in the keys of its settings; pages come first.
const MOST = 30;
const find = document.querySelector("#find");
const list = document.querySelector("#hits");
let index;
async function seek() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  try {
    index ??= get("data/search.json").then((answer) => answer.json());
    const known = await index;
    const hits = known.filter(([title, more]) => {
      const text = `${title} ${more}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const shown = words.length ? hits.slice(0, MOST) : [];
    list.replaceChildren(...shown.map(([title, , href]) => {
      const item = make("li");
      item.append(make("a", title, { href }));
      return item;
    }));
    list.hidden = shown.length === 0;
    const rest = hits.length > MOST ? `, the first ${MOST} are shown` : "";
    status.textContent = words.length ? `${hits.length} found${rest}` : "";
  } catch (error) {
    index = undefined;
    failed(error);
  }
}
find.addEventListener("input", seek);
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of all("nav details[open]")) {
    if (menu.contains(document.activeElement)) menu.firstElementChild.focus();
    menu.open = false;
  }
  if (list.contains(document.activeElement)) find.focus();
  list.hidden = true;
});
list.addEventListener("click", () => {
  list.hidden = true;
  setTimeout(reveal); // the same address again is no change
});

// The comparison: table and arms are in the address, so that it can be shared.
const chosen = ["table", "first", "second"].map((name) => document.querySelector(`select#${name}`));
const minus = (text) => text.replace(/(^|[\s([])-(?=\d)/g, "$1\u2212");

function shownPairs(data, first, second) {
  const [one, other] = [data.arms[first], data.arms[second]];
  const headers = [...data.headers];
  [headers[2], headers[3]] = [one, other];
  const lines = data.lines.filter((line) => line[0] === first && line[1] === second).map((line) => line.slice(2));
  const region = make("div", "", { class: "scores", tabindex: 0, role: "region", "aria-label": "Comparison" });
  const table = make("table");
  table.append(make("caption", `${other} over ${one}: test scores in percent, mean±std (number of seeds)`));
  const head = make("tr");
  head.append(...headers.map((header) => make("th", header, { scope: "col" })));
  const body = lines.map(([title, ...cells]) => {
    const row = make("tr");
    row.append(make("th", title, { scope: "row" }));
    row.append(...cells.map((cell, at) => {
      const shown = make("td", "", { "data-label": headers[at + 1] });
      shown.append(make("span", minus(cell)));
      return shown;
    }));
    return row;
  });
  const [top, rows] = [make("thead"), make("tbody")];
  top.append(head);
  rows.append(...body);
  table.append(top, rows);
  region.append(table);
  return lines.length ? region : make("p", "No row of this table has runs of both that belong together.");
}

function options(select, titles, wanted) {
  select.replaceChildren(...Object.entries(titles).map(([value, text]) => make("option", text, { value })));
  select.value = wanted in titles ? wanted : Object.keys(titles)[0];
}

let turn = 0;
async function compare(wanted) {
  const mine = ++turn;
  const [table, first, second] = chosen;
  try {
    if ([...table.options].some((option) => option.value === wanted.get("table"))) table.value = wanted.get("table");
    const data = await (await get(`data/${table.value}-pairs.json`)).json();
    if (mine !== turn) return; // another choice was made meanwhile
    const arms = Object.keys(data.arms);
    const usual = data.compared.every((arm) => arms.includes(arm)) ? data.compared : arms;
    options(first, data.arms, wanted.get("first") ?? usual[0]);
    options(second, data.arms, wanted.get("second") ?? usual[1]);
    const result = shownPairs(data, first.value, second.value);
    document.querySelector("#compared").replaceChildren(result);
    const quoted = (arm) => (/^[\w.=-]+$/.test(arm) ? arm : `'${arm}'`);
    const command = document.querySelector("#command");
    command.querySelector("code").textContent =
      `${data.command} --compare ${quoted(first.value)} ${quoted(second.value)}`;
    command.hidden = false;
    const marks = data.marks.filter((mark) => result.textContent.includes(mark[0]));
    document.querySelector(".notes").replaceChildren(...marks.map((mark) => make("li", mark)));
    const words = new URLSearchParams(chosen.map((select) => [select.id, select.value]));
    if (`?${words}` !== location.search) history.replaceState(null, "", `?${words}`);
    document.querySelector("#choice").hidden = false;
  } catch (error) {
    failed(error);
  }
}
if (chosen[0]) {
  compare(new URLSearchParams(location.search));
  for (const select of chosen) {
    select.addEventListener("change", () => {
      const kept = select === chosen[0] ? chosen.slice(0, 1) : chosen;
      compare(new URLSearchParams(kept.map((each) => [each.id, each.value])));
    });
  }
}
