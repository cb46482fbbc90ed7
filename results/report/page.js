// Sorting, searching and copying. Without this script the page has all rows.
"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const status = document.querySelector("[role=status]");
const search = document.querySelector("#search");

// What does nothing without a script is hidden or disabled until here.
function enable(root) {
  for (const part of all(".bar > input, .copy", root)) part.hidden = false;
  for (const button of all(".sortable thead button", root)) {
    button.disabled = false;
    button.addEventListener("click", () => sort(button.parentElement));
  }
  for (const button of all(".copy", root)) button.addEventListener("click", () => copy(button));
}

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const part of all("[data-find]")) {
    part.hidden = !words.every((word) => part.dataset.find.includes(word));
  }
  const rows = all("#scores tbody[data-find]");
  const shown = rows.filter((row) => !row.hidden);
  if (words.length > 0) for (const row of shown) row.closest("details")?.setAttribute("open", "");
  status.textContent = shown.length === rows.length ? "" : `${shown.length} of ${rows.length} rows`;
}

search?.addEventListener("input", filter);

// Numbers start with the highest, names with the first; a second click turns the order round. Empty cells come last.
function sort(header) {
  const table = header.closest("table");
  const column = [...header.parentElement.children].indexOf(header);
  const value = (body) => body.rows[0].cells[column].dataset.value;
  const number = column > 0;
  const before = header.getAttribute("aria-sort");
  const down = before === "none" ? number : before === "ascending";
  const order = (a, b) => (number ? a - b : a.localeCompare(b)) * (down ? -1 : 1);
  const bodies = [...table.tBodies];
  const empty = bodies.filter((body) => value(body) === undefined);
  const full = bodies.filter((body) => value(body) !== undefined).sort((a, b) => order(value(a), value(b)));
  table.append(...full, ...empty);
  for (const other of all("thead th", table)) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  status.textContent = `sorted by ${header.textContent}, ${down ? "descending" : "ascending"}`;
}

async function copy(button) {
  const code = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(code.textContent);
    status.textContent = "command copied";
  } catch {
    getSelection().selectAllChildren(code); // a browser may refuse: then the command is ready to be copied by hand
    status.textContent = "command selected";
  }
}
enable(document);
