// Finds among what a job has found: by words and by kinds; the rest of a long list is folded.
// The address has what was asked for, so a link shows the same.
"use strict";
{
const finder = document.querySelector(".finder");
const groups = all(".group"), items = all(".item");
const kinds = all("#kinds [data-kind]");
const entries = groups.length ? groups : items;
const cap = finder ? Number(finder.dataset.cap) : 0;
const OPENED = 5;
let isWhole = false;

const chosen = () => kinds.filter((one) => one.getAttribute("aria-pressed") === "true")
  .map((one) => one.dataset.kind);
const words = () => $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
const texts = new Map(items.map((one) => {
  const group = one.closest(".group");
  return [one, ((group ? group.dataset.name + " " : "") + one.textContent).toLowerCase()];
}));

function filter() {
  const wanted = words(), only = chosen();
  const fits = (text, of) => wanted.every((word) => text.includes(word)) &&
    (!only.length || only.some((kind) => of.includes(kind)));
  items.forEach((one) => { one.hidden = !fits(texts.get(one), [one.dataset.kind]); });
  const inside = (group) => all(".item", group).some((one) => !one.hidden);
  const fitting = entries.filter((one) => groups.length
    ? inside(one) || fits(one.dataset.name.toLowerCase(), one.dataset.kinds.split(" "))
    : !one.hidden);
  entries.forEach((one) => { one.hidden = true; });
  const shown = isWhole ? fitting : fitting.slice(0, cap);
  shown.forEach((one) => { one.hidden = false; });
  const found = items.filter((one) => !one.hidden && (!groups.length || inside(one.closest(".group"))));
  const noun = groups.length ? " partitions" : " rows";
  $("count").textContent = groups.length
    ? fitting.length + " of " + finder.dataset.of + noun +
      (items.length ? ", " + found.length + " of " + finder.dataset.rows + " findings" : "")
    : fitting.length + " of " + finder.dataset.of + noun;
  const left = fitting.length - shown.length;
  $("more").hidden = left <= 0;
  $("more").textContent = "Show " + left + " more";
  $("none").hidden = fitting.length > 0;
}
function open(some) { groups.forEach((one) => { one.open = some.includes(one.id); }); }
function openFound() {
  if (words().length) open(groups.filter((one) => !one.hidden && all(".item:not([hidden])", one).length)
    .slice(0, OPENED).map((one) => one.id));
}

// The address.
const START = groups.filter((one) => one.open).map((one) => one.id).join(",");
function write() {
  const asked = new URLSearchParams();
  const opened = groups.filter((one) => one.open).map((one) => one.id).join(",");
  if ($("find").value) asked.set("find", $("find").value);
  if (chosen().length) asked.set("kind", chosen().join(","));
  if (opened !== START) asked.set("open", opened);
  if (isWhole) asked.set("all", "1");
  writeAddress(asked);
}
function read() {
  const asked = askedInAddress();
  if (!asked) {
    const group = location.hash && $(decodeURIComponent(location.hash.slice(1)));
    if (!group || !group.matches(".group")) return;
    if (group.hidden) { isWhole = true; filter(); }
    group.open = true;
    group.scrollIntoView();
    return;
  }
  $("find").value = asked.get("find") || "";
  const only = (asked.get("kind") || "").split(",");
  kinds.forEach((one) => { one.setAttribute("aria-pressed", only.includes(one.dataset.kind)); });
  isWhole = asked.has("all");
  filter();
  if (asked.has("open")) open(asked.get("open").split(",")); else openFound();
}

if (finder) {
  $("find").addEventListener("input", () => { filter(); openFound(); write(); });
  kinds.forEach((one) => one.addEventListener("click", () => {
    one.setAttribute("aria-pressed", one.getAttribute("aria-pressed") !== "true");
    filter();
    write();
  }));
  $("more").addEventListener("click", () => { isWhole = true; filter(); write(); });
  // A group is opened by its summary; `toggle` would tell of those that were opened here, too.
  groups.forEach((one) => one.querySelector("summary").addEventListener("click", (event) => {
    if (event.target.closest("a")) return;
    setTimeout(write);
  }));
  addEventListener("hashchange", read);
  filter();
  read();
}
all(".script").forEach((one) => { one.hidden = false; });
useTips(() => {});
}
