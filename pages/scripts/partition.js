// A drawn partition: the tips of its segments, its zoom, and the same as text.
// All is bound to the page, so that a partition may be drawn anew while the page is open.
"use strict";
{
let read = null, details = null;
function segmentsOf(thing) {
  if (read !== $("details")) {
    read = $("details");
    details = JSON.parse(read.textContent);
  }
  return details[thing.closest(".partition").dataset.at];
}
const NAMES = ["id", "start", "end", "epochs", "state", "size", "broker", "newest record",
  "copy started", "finished", "delete started", "deleted"];

const MS_MAX = 253402300799999; // The end of the year 9999.
function time(ms) {
  const hasDate = Number(ms) >= 0 && Number(ms) <= MS_MAX;
  return hasDate ? new Date(Number(ms)).toISOString() : ms + " ms";
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
  const segment = segmentsOf(rect)[rect.dataset.s];
  describe(NAMES.map((name, at) => [name, value(segment, at, rect.classList[0])])
    .filter(([, text]) => text !== null), tip);
  if (hasLog) make("div", "Click, tap again or Enter: its events", tip).className = "hint";
});

// In the console a segment leads to its events.
const hasLog = $("events") !== null;
function eventsOf(id) {
  const asked = new URLSearchParams(location.search);
  asked.set("segment", id);
  return location.pathname + "?" + asked + "#log";
}
let tapped = null;
function open(rect) { location.href = eventsOf(segmentsOf(rect)[rect.dataset.s][0]); }
document.addEventListener("click", (event) => {
  const rect = hasLog && event.target.closest("rect[data-s]");
  // The first tap of a finger tells what the segment is.
  if (rect && (event.pointerType !== "touch" || rect === tapped)) open(rect);
  tapped = rect;
});
document.addEventListener("keydown", (event) => {
  const rect = hasLog && event.key === "Enter" && event.target.querySelector?.("rect.at[data-s]");
  if (rect) open(rect);
});

function zoomTo(plot, zoom, middle) {
  const scroller = plot.parentElement, drawing = plot.querySelector("svg");
  plot.style.setProperty("--zoom", Math.min(64, Math.max(1, zoom)));
  plot.classList.toggle("zoomed", zoom >= 4);
  const before = plot.clientWidth - drawing.clientWidth;
  scroller.scrollLeft = middle * drawing.clientWidth -
    (scroller.clientWidth - before) / 2;
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-zoom]");
  if (!button) return;
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
});

// The same as text, made on demand.
document.addEventListener("toggle", (event) => {
  const list = event.target;
  if (!list.matches(".list") || !list.open || list.querySelector("table")) return;
  const table = make("table", undefined, make("div", undefined, list));
  table.parentElement.className = "scroll";
  const head = make("tr", undefined, make("thead", undefined, table));
  NAMES.forEach((name) => { make("th", name, head).scope = "col"; });
  const body = make("tbody", undefined, table);
  const segments = [...segmentsOf(list)];
  segments.sort((a, b) => a[1] - b[1]).forEach((segment) => {
    const row = make("tr", undefined, body);
    NAMES.forEach((_, at) => {
      const cell = make("td", at || !hasLog ? value(segment, at) ?? "" : undefined, row);
      if (!at && hasLog) make("a", segment[0], cell).href = eventsOf(segment[0]);
    });
  });
  nameCells(table);
}, true);
}
