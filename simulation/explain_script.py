"""What draws the page of a run: reads the data, lays lanes out, paints what is in view.

Everything is painted on canvases, anew for each view, and only what can be told apart at that
zoom, so that a run of many thousand messages moves as smoothly as one of a hundred.
Nothing that came from a run is ever written as HTML, only as text.
"""

from __future__ import annotations

from typing import Final

PAINTED_MAX: Final = 8000
"""Messages painted at one zoom; of more, every second, third, ... is, and the page says so."""

DRAWING: Final = r"""
const $ = (id) => document.getElementById(id);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const data = JSON.parse($("data").textContent);
const text = (at) => data.texts[at];
const STATES = new Set(data.states);
const AXIS = 24, LANE = 40, ROW = 13, HEAD = 16, ROWS_MAX = 14, SPAN_MIN = 20;

// Things: moments (m), arrows (a) and spans (s), each with begin and end in microseconds.
const moments = data.moments.map(([time, lane, what, detail, epoch, key], at) =>
  ({type: "m", at, begin: time, end: time, lane, what, detail, epoch, key,
    mark: data.marks[what]}));
const arrows = data.arrows.map(
  ([sent, source, target, received, what, detail, lost, epoch, key], at) => ({type: "a", at,
    begin: sent, end: received === null || lost ? sent : received, source, target, received,
    what, detail, lost: !!lost, epoch, key}));
const spans = data.spans.map(([lane, begin, end, what, epoch, key], at) =>
  ({type: "s", at, begin, end: Math.max(begin, end), lane, what, epoch, key,
    isState: STATES.has(text(what))}));
const things = {m: moments, a: arrows, s: spans};
const rare = moments.filter((one) => one.mark[3]);

const canvas = $("picture"), overview = $("overview"), names = $("names");
const shapes = new Map();
function shape(path) {
  if (!shapes.has(path)) shapes.set(path, new Path2D(path));
  return shapes.get(path);
}

// Colours come from the style sheet: they change with light and dark.
let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue("--" + name).trim();
  colours = {};
  for (const name of ["paper", "ink", "soft", "line", "panel", "link", "good", "doubt", "alarm",
    "found", "gone"]) colours[name] = read(name);
  colours.epochs = [...Array(data.epochs).keys()].map((at) => read("e" + at));
  colours.on = [...Array(data.epochs).keys()].map((at) => read("on" + at));
  colours.thin = [...Array(data.epochs).keys()].map((at) => read("t" + at));
}
const epochAt = (epoch) => ((epoch % data.epochs) + data.epochs) % data.epochs;
const epochColour = (epoch, other) => epoch === null ? other : colours.epochs[epochAt(epoch)];
const thinColour = (epoch, other) => epoch === null ? other : colours.thin[epochAt(epoch)];
const isStriped = (epoch) => epoch !== null && Math.floor(epoch / data.epochs) % 2 !== 0;

// What is shown: filters.
const hidden = {m: new Set(), a: new Set(), s: new Set()};
let onlyKey = -1;
const onlyLanes = new Set();
const found = new Set();
let pinned = [];
function isShown(one) {
  if (onlyKey >= 0 && one.key !== onlyKey && text(one.key) !== "") return false;
  if (hidden[one.type].has(one.what)) return false;
  return !onlyLanes.size || one.type !== "a" || onlyLanes.has(one.source) ||
    onlyLanes.has(one.target);
}

// The view, in microseconds.
const whole = {from: data.first, to: data.last};
{
  const margin = (whole.to - whole.from) * 0.015 + 1;
  whole.from -= margin;
  whole.to += margin;
}
const view = {...whole};
let width = 0, height = 0;
const X = (time) => (time - view.from) / (view.to - view.from) * width;
const timeAt = (x) => view.from + x / width * (view.to - view.from);

// Lanes: the line of the process with its marks, and its bars in rows beneath.
const lanes = data.lanes.map(([name, kind]) => ({name, kind, y: 0, bars: [], rows: 0}));
function layOut() {
  lanes.forEach((lane) => { lane.bars = []; lane.rows = 0; });
  const ends = lanes.map(() => []);
  for (const span of spans) {
    if (span.isState || !isShown(span)) continue;
    const rows = ends[span.lane], mine = (row) => row.end <= span.begin;
    let at = rows.findIndex((row) => mine(row) && row.what === span.what &&
      row.key === span.key);
    if (at < 0) at = rows.findIndex(mine);
    if (at < 0) at = rows.length < ROWS_MAX ? rows.push({}) - 1 : ROWS_MAX - 1;
    rows[at] = {end: span.end, what: span.what, key: span.key};
    span.row = at;
    lanes[span.lane].bars.push(span);
    lanes[span.lane].rows = rows.length;
  }
  let y = AXIS, kind = null;
  names.replaceChildren();
  lanes.forEach((lane, at) => {
    const alone = lane.name === lane.kind && (lanes[at + 1] || {}).kind !== lane.kind;
    if (lane.kind !== kind && lane.kind && !alone) {
      label("div", lane.kind, "kind", y);
      y += HEAD;
    }
    kind = lane.kind;
    lane.top = y;
    lane.y = y + LANE / 2;
    // Calls that overlap are many and say little: they get thin bars.
    lane.row = lane.rows > 2 && !lane.bars.some((bar) => text(bar.what) === "leads") ? 5 : ROW;
    lane.bottom = y + LANE + lane.rows * lane.row + (lane.rows ? 5 : 0);
    const button = label("button", lane.name || "run", "", lane.y - 12);
    button.type = "button";
    button.title = lane.name + ": show only its messages";
    button.setAttribute("aria-pressed", onlyLanes.has(at));
    button.addEventListener("click", () => {
      if (!onlyLanes.delete(at)) onlyLanes.add(at);
      button.setAttribute("aria-pressed", onlyLanes.has(at));
      paintSoon();
    });
    y = lane.bottom;
  });
  height = y + 6;
  names.style.height = canvas.style.height = height + "px";
}
function label(name, words, cls, y) {
  const element = document.createElement(name);
  element.textContent = words;
  element.className = cls;
  element.style.top = y + "px";
  names.append(element);
  return element;
}

function fitted(target, high) {
  const wide = target.clientWidth, ratio = devicePixelRatio || 1;
  if (target.width !== Math.round(wide * ratio) || target.height !== Math.round(high * ratio)) {
    target.width = Math.round(wide * ratio);
    target.height = Math.round(high * ratio);
  }
  const pen = target.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, wide, high);
  return pen;
}

function ticks() {
  const wanted = (view.to - view.from) / Math.max(2, width / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = Math.max(1, [1, 2, 5, 10].find((one) => one * power >= wanted) * power);
  const list = [], first = Math.ceil(view.from / step) * step;
  for (let at = first || 0; at <= view.to; at += step) list.push(at);
  return {list, digits: step >= 1000 ? 0 : Math.min(3, 3 - Math.floor(Math.log10(step)))};
}
function ms(time, digits = 3) {
  return (time / 1000).toLocaleString("en", {minimumFractionDigits: digits,
    maximumFractionDigits: digits});
}

let due = false;
function paintSoon() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; paint(); });
}
function paint() {
  width = canvas.clientWidth;
  const pen = fitted(canvas, height);
  pen.lineJoin = pen.lineCap = "round";
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  paintGround(pen);
  lanes.forEach((lane) => lane.bars.forEach((bar) => paintBar(pen, lane, bar)));
  const skipped = paintArrows(pen);
  lanes.forEach((lane) => lane.bars.forEach((bar) => nameBar(pen, lane, bar)));
  paintMarks(pen);
  paintOverview();
  $("seen").textContent = ms(Math.max(data.first, view.from)) + " to " +
    ms(Math.min(data.last, view.to)) + " ms";
  $("skipped").textContent = skipped > 1 ?
    "1 in " + skipped + " messages is drawn: zoom in for all" : "";
}

function paintGround(pen) {
  const scale = ticks();
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  pen.lineWidth = 1;
  for (const time of scale.list) {
    const x = Math.round(X(time)) + 0.5;
    pen.strokeStyle = colours.line;
    pen.beginPath();
    pen.moveTo(x, AXIS - 6);
    pen.lineTo(x, height);
    pen.stroke();
    pen.fillStyle = colours.soft;
    if (x > 8 && x < width - 30) pen.fillText(ms(time, scale.digits), x, 9);
  }
  pen.textAlign = "right";
  pen.fillText("ms", width - 4, 9);
  lanes.forEach((lane, at) => {
    if (onlyLanes.has(at)) {
      pen.fillStyle = colours.panel;
      pen.fillRect(0, lane.top, width, lane.bottom - lane.top);
    }
    pen.strokeStyle = colours.soft;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(0, lane.y);
    pen.lineTo(width, lane.y);
    pen.stroke();
  });
  spans.forEach((one) => { if (one.isState && isShown(one)) paintState(pen, one); });
}

// Dead: the line is gone. Paused: upright strokes. Cut off: slanted strokes.
function paintState(pen, one) {
  const from = Math.max(-20, X(one.begin)), to = Math.min(width + 20, X(one.end));
  if (to < from) return;
  const what = text(one.what), y = lanes[one.lane].y, wide = Math.max(2, to - from);
  pen.fillStyle = what === "dead" ? colours.gone : colours.paper;
  pen.fillRect(from, y - 9, wide, 18);
  pen.save();
  pen.beginPath();
  pen.rect(from, y - 9, wide, 18);
  pen.clip();
  pen.strokeStyle = what === "cut off" ? colours.alarm : colours.soft;
  pen.lineWidth = 1;
  pen.globalAlpha = 0.75;
  pen.beginPath();
  if (what !== "dead") {
    const step = 7, slant = what === "cut off" ? 9 : 0;
    for (let x = from - (from - X(one.begin)) % step - 18; x < to + 18; x += step) {
      pen.moveTo(x - slant, y + 9);
      pen.lineTo(x + slant, y - 9);
    }
  }
  pen.stroke();
  pen.restore();
  pen.strokeStyle = colours.soft;
  pen.strokeRect(from + 0.5, y - 8.5, wide - 1, 17);
  if (wide > pen.measureText(what).width + 26) {
    const middle = (Math.max(0, from) + Math.min(width, to)) / 2;
    const half = pen.measureText(what).width / 2 + 4;
    pen.fillStyle = what === "dead" ? colours.gone : colours.paper;
    pen.fillRect(middle - half, y - 7, 2 * half, 14);
    pen.fillStyle = colours.ink;
    pen.textAlign = "center";
    pen.fillText(what, middle, y + 0.5);
  }
}

const barTop = (lane, bar) => lane.y + LANE / 2 + bar.row * lane.row;
function paintBar(pen, lane, bar) {
  const from = Math.max(-5, X(bar.begin)), to = Math.min(width + 5, X(bar.end));
  if (to < -4 || from > width + 4) return;
  const y = barTop(lane, bar), wide = Math.max(1.5, to - from - 0.5), high = lane.row - 2;
  const leads = text(bar.what) === "leads";
  pen.fillStyle = epochColour(bar.epoch, colours.soft);
  pen.globalAlpha = leads ? 1 : 0.4;
  pen.fillRect(from, y, wide, high);
  pen.globalAlpha = 1;
  if (isStriped(bar.epoch)) {
    pen.fillStyle = colours.paper;
    for (let x = X(bar.begin) % 8 + 4; x < wide; x += 8) pen.fillRect(from + x, y, 1.5, high);
  }
  if (pinned.includes(bar) || found.has(bar)) {
    pen.strokeStyle = pinned.includes(bar) ? colours.ink : colours.doubt;
    pen.lineWidth = 2;
    pen.strokeRect(from, y, wide, high);
  }
}
// Over the messages, or nobody could read it.
function nameBar(pen, lane, bar) {
  const from = Math.max(0, X(bar.begin)), to = Math.min(width, X(bar.end));
  if (to - from < 14 || lane.row < ROW || text(bar.what) === "call") return;
  const y = barTop(lane, bar), high = ROW - 2, leads = text(bar.what) === "leads";
  const named = [text(bar.key), leads ? "" : text(bar.what),
    bar.epoch === null ? "" : "epoch " + bar.epoch].filter(Boolean).join(" \u00b7 ");
  const short = bar.epoch === null ? "" : String(bar.epoch);
  for (const words of [named, short]) {
    const needs = pen.measureText(words).width + 10;
    if (!words || needs > to - from) continue;
    pen.fillStyle = leads ? epochColour(bar.epoch, colours.soft) : colours.paper;
    pen.fillRect(from, y, needs, high);
    pen.textAlign = "left";
    pen.fillStyle = bar.epoch === null ? (leads ? colours.paper : colours.ink) :
      leads ? colours.on[epochAt(bar.epoch)] : colours.ink;
    pen.fillText(words, from + 5, y + high / 2 + 0.5);
    break;
  }
}
"""
