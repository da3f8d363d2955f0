// Functions for several pages. Values from a log or a run are written as text only.
"use strict";
const $ = (id) => document.getElementById(id);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];

function make(name, text, into) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (into) into.append(element);
  return element;
}

// The part of the address behind "#" has what was asked for, or names a part of the page.
function askedInAddress() {
  return location.hash.includes("=") ? new URLSearchParams(location.hash.slice(1)) : null;
}
function writeAddress(asked) {
  const text = asked.toString();
  history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
}

// Each cell is told its column's name, with which a phone shows a row as a list.
function nameCells(table) {
  const names = all("thead th", table).map((one) => one.textContent.trim());
  for (const row of table.tBodies[0].rows)
    // One that stands for several columns is about none of them.
    [...row.cells].forEach((cell, at) => { if (cell.colSpan === 1) cell.dataset.name = names[at]; });
  // The name of a column of numbers stands over them.
  const rows = [...table.tBodies[0].rows];
  all("thead th", table).forEach((one, at) => {
    one.classList.toggle("n", rows.some((row) => row.cells[at]?.classList.contains("n")));
  });
  table.classList.add("named");
  listOrTable(table);
}

// A table that does not fit beside the window's edge is a list, as each is on a phone: nobody
// scrolls sideways. On paper it is one, too.
const PHONE_PX = 720;
function listOrTable(table, isOnPaper) {
  // How wide it is as a table is known once it was drawn as one.
  if (!table.classList.contains("listed") && table.scrollWidth) table.widthPx = table.scrollWidth;
  const isWide = table.widthPx > table.parentElement.clientWidth + 1;
  table.classList.toggle("listed", isOnPaper === true || innerWidth <= PHONE_PX || isWide);
}
function listOrTables(isOnPaper) {
  all(".named").forEach((one) => listOrTable(one, isOnPaper));
}
addEventListener("resize", () => listOrTables());
addEventListener("beforeprint", () => listOrTables(true));
addEventListener("afterprint", () => listOrTables());
// What is folded away has no width.
document.addEventListener("toggle", (event) => {
  all(".named", event.target).forEach((one) => listOrTable(one));
}, true);
all("table").forEach(nameCells);

// Names and values as a list.
function describe(facts, into) {
  const list = make("dl", undefined, into);
  list.className = "thing";
  for (const [name, text] of facts) {
    make("dt", name, list);
    make("dd", text, list);
  }
}

// Places the tooltip beside the pointer, within the window.
function placeTip(tip, x, y) {
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const isAbove = y + 18 + box.height > innerHeight;
  tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(8, isAbove ? y - box.height - 12 : y + 18) + "px";
}
