// How the report reacts: filters, sorting, zoom, folding, and the tips of segments.
"use strict";
{
const details = JSON.parse($("details").textContent);
const NAMES = ["id", "start", "end", "epochs", "state", "size", "broker", "newest record",
  "copy started", "finished", "delete started", "deleted"];

function time(ms) {
  const date = new Date(Number(ms));
  return isNaN(date) ? ms + " ms" : date.toISOString().replace("T", " ").replace("Z", "");
}
function bytes(size) {
  let amount = Number(size), unit = 0;
  while (amount >= 1024 && unit < 5) { amount /= 1024; unit += 1; }
  const name = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
  return (unit ? amount.toFixed(1) : size) + " " + name;
}
function value(segment, at, kind) {
  const raw = segment[at];
  if (raw === null) return null;
  if (at === 4) return kind || raw;
  if (at === 5) return bytes(raw);
  return at >= 7 ? time(raw) : String(raw);
}

useTips((rect, tip) => {
  const segment = details[rect.closest(".partition").dataset.at][rect.dataset.s];
  describe(NAMES.map((name, at) => [name, value(segment, at, rect.classList[0])])
    .filter(([, text]) => text !== null), tip);
});

// Filter, fold, sort, zoom.
const sections = all(".partition");
const rows = all("#partitions tbody tr");
function filter() {
  const wanted = $("filter").value.trim().toLowerCase();
  let shown = 0;
  sections.forEach((section) => {
    const fits = section.dataset.name.toLowerCase().includes(wanted) &&
      (!$("look").checked || section.classList.contains("finding"));
    section.hidden = !fits;
    shown += fits;
  });
  rows.forEach((row) => { row.hidden = sections[row.dataset.at].hidden; });
  $("count").textContent = shown + " of " + sections.length + " partitions";
}
let sorted = "";
function write() {
  const asked = new URLSearchParams();
  if ($("filter").value) asked.set("find", $("filter").value);
  if ($("look").checked) asked.set("look", "1");
  if (sorted) asked.set("sort", sorted);
  writeAddress(asked);
}
function read() {
  const asked = askedInAddress();
  if (!asked) return reveal();
  $("filter").value = asked.get("find") || "";
  $("look").checked = asked.has("look");
  filter();
  const [at, order] = (asked.get("sort") || "").split(",");
  if (all("[data-sort]")[at]) sort(Number(at), order === "descending" ? order : "ascending");
}
$("filter").addEventListener("input", () => { filter(); write(); });
$("look").addEventListener("change", () => { filter(); write(); });
$("unfold").addEventListener("click", () => sections.forEach((one) => { one.open = true; }));
$("fold").addEventListener("click", () => sections.forEach((one) => { one.open = false; }));
function reveal() {
  const section = location.hash && $(decodeURIComponent(location.hash.slice(1)));
  if (section && section.matches(".partition")) {
    section.open = true;
    section.scrollIntoView();
  }
}
addEventListener("hashchange", read);
function sort(at, order) {
  all("thead th").forEach((one) => one.removeAttribute("aria-sort"));
  all("[data-sort]")[at].parentElement.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  rows.sort((a, b) => sign * (a.cells[at].dataset.v - b.cells[at].dataset.v));
  if (rows.length) rows[0].parentElement.append(...rows);
  sorted = at + "," + order;
}
all("[data-sort]").forEach((button) => button.addEventListener("click", () => {
  const head = button.parentElement, at = Number(button.dataset.sort);
  const down = head.getAttribute("aria-sort") === (at ? "descending" : "ascending");
  sort(at, (at ? !down : down) ? "descending" : "ascending");
  write();
}));
function zoomTo(plot, zoom, middle) {
  const scroller = plot.parentElement, drawing = plot.querySelector("svg");
  plot.style.setProperty("--zoom", Math.min(64, Math.max(1, zoom)));
  plot.classList.toggle("zoomed", zoom >= 4);
  const before = plot.clientWidth - drawing.clientWidth;
  scroller.scrollLeft = middle * drawing.clientWidth -
    (scroller.clientWidth - before) / 2;
}
all("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
  const by = button.dataset.zoom;
  const plots = by === "live" ? ".plot.offsets" : ".plot";
  all(plots, button.closest(".partition")).forEach((plot) => {
    const scroller = plot.parentElement, drawing = plot.querySelector("svg");
    const label = plot.clientWidth - drawing.clientWidth;
    const room = scroller.clientWidth - label;
    const now = Number(getComputedStyle(plot).getPropertyValue("--zoom")) || 1;
    const middle = (scroller.scrollLeft + room / 2) / drawing.clientWidth;
    if (by === "all") return zoomTo(plot, 1, 0);
    if (by !== "live") return zoomTo(plot, now * by, middle);
    // The labels' column does not grow with the drawing, so it is left out of the sum.
    const [start, end] = plot.dataset.live.split(" ").map(Number);
    const wide = 0.96 * room / Math.max(end - start, 1e-4);
    zoomTo(plot, (Math.max(wide, room) + label) / scroller.clientWidth, (start + end) / 2);
  });
}));

// The same as text, made on demand.
all(".list").forEach((list) => list.addEventListener("toggle", () => {
  if (!list.open || list.querySelector("table")) return;
  const table = make("table", undefined, make("div", undefined, list));
  table.parentElement.className = "scroll";
  const head = make("tr", undefined, make("thead", undefined, table));
  NAMES.forEach((name) => { make("th", name, head).scope = "col"; });
  const body = make("tbody", undefined, table);
  const segments = [...details[list.closest(".partition").dataset.at]];
  segments.sort((a, b) => a[1] - b[1]).forEach((segment) => {
    const row = make("tr", undefined, body);
    NAMES.forEach((_, at) => make("td", value(segment, at) ?? "", row));
  });
  nameCells(table);
}));
all(".script").forEach((one) => { one.hidden = false; });
filter();
read();
}
