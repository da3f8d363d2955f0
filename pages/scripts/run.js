// Draws the page of a run, and reacts to the pointer and to keys.
//
// Each view is painted anew on canvases, with only the details that can be seen at its zoom. So
// a run of many thousand messages moves as smoothly as one of a hundred.
"use strict";
{
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
const spans = data.spans.map(([lane, begin, end, what, epoch, key, detail], at) =>
  ({type: "s", at, begin, end: Math.max(begin, end), lane, what, epoch, key, detail,
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
// On a phone both ends of a lane's name are shown: a partition's number is at one of them.
const NAME = 9;
const shortened = (name) => name.length <= NAME || innerWidth > 720 ? name
  : name.slice(0, NAME >> 1) + "…" + name.slice(-(NAME >> 1));
const lanes = data.lanes.map(([name, kind]) => ({name, kind, y: 0, bars: [], rows: 0}));
function layOut() {
  lanes.forEach((lane) => { lane.bars = []; lane.rows = 0; });
  const taken = lanes.map(() => []);
  for (const span of spans) {
    if (span.isState || !isShown(span)) continue;
    const rows = taken[span.lane], mine = (row) => row.end <= span.begin;
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
    // Overlapping calls are many and tell little: they get thin bars.
    lane.row = lane.rows > 2 && lane.bars.every((bar) => text(bar.what) === "call") ? 5 : ROW;
    lane.bottom = y + LANE + lane.rows * lane.row + (lane.rows ? 5 : 0);
    const button = label("button", shortened(lane.name || "run"), "", lane.y - 12);
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
  const element = make(name, words, names);
  element.className = cls;
  element.style.top = y + "px";
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
  const apart = Math.max(1, [1, 2, 5, 10].find((one) => one * power >= wanted) * power);
  const list = [], first = Math.ceil(view.from / apart) * apart;
  for (let at = first || 0; at <= view.to; at += apart) list.push(at);
  return {list, digits: apart >= 1000 ? 0 : Math.min(3, 3 - Math.floor(Math.log10(apart)))};
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
    const gap = 7, slant = what === "cut off" ? 9 : 0;
    for (let x = from - (from - X(one.begin)) % gap - 18; x < to + 18; x += gap) {
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
// Painted over the messages, so that it can be read.
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

// An arrow's place on the screen; for a message that never arrived, a stub towards its receiver.
function ends(one) {
  const x = X(one.begin), y = lanes[one.source].y, to = lanes[one.target].y;
  if (one.lost || one.received === null) {
    const down = Math.sign(to - y) || -1;
    return [x, y, x + 9, y + down * Math.min(26, Math.abs(to - y) * 0.6 || 16)];
  }
  return [x, y, X(one.received), to];
}
const looks = (one) => one.lost ? "lost" : one.received === null ? "open" :
  one.epoch === null ? "plain" : String(epochAt(one.epoch));

function paintArrows(pen) {
  let seen = arrows.filter((one) => one.end >= view.from && one.begin <= view.to &&
    isShown(one));
  const every = Math.ceil(seen.length / data.painted);
  if (every > 1) seen = seen.filter((one) => one.at % every === 0);
  const groups = new Map();
  for (const one of seen) {
    const look = looks(one);
    if (!groups.has(look)) groups.set(look, []);
    groups.get(look).push(one);
  }
  const crowd = seen.length;
  for (const [look, some] of groups) {
    const isStub = look === "lost" || look === "open";
    pen.strokeStyle = pen.fillStyle = look === "lost" ? colours.alarm :
      isStub || look === "plain" ? colours.soft : colours.thin[Number(look)];
    pen.globalAlpha = isStub ? 1 : Math.max(0.25, Math.min(1, 900 / crowd));
    pen.lineWidth = crowd > 1500 ? 0.7 : 1.3;
    pen.setLineDash(isStub ? [3, 3] : []);
    pen.beginPath();
    some.forEach((one) => trace(pen, one));
    pen.stroke();
    pen.setLineDash([]);
    if (crowd < 2500) some.forEach((one) => paintHead(pen, one, look));
  }
  pen.globalAlpha = 1;
  for (const one of arrows) if (found.has(one) || pinned.includes(one)) paintChosen(pen, one);
  if (crowd < 60) seen.forEach((one) => nameArrow(pen, one));
  return every;
}
function trace(pen, one) {
  const [x1, y1, x2, y2] = ends(one);
  pen.moveTo(x1, y1);
  if (one.source === one.target && !one.lost && one.received !== null)
    pen.quadraticCurveTo((x1 + x2) / 2, y1 - 30, x2, y2);
  else pen.lineTo(x2, y2);
}
function paintHead(pen, one, look) {
  const [x1, y1, x2, y2] = ends(one);
  pen.beginPath();
  if (look === "lost") {
    pen.moveTo(x2 - 4, y2 - 4); pen.lineTo(x2 + 4, y2 + 4);
    pen.moveTo(x2 + 4, y2 - 4); pen.lineTo(x2 - 4, y2 + 4);
    pen.stroke();
  } else if (look === "open") {
    pen.arc(x2, y2, 3.5, 0, 7);
    pen.stroke();
  } else {
    const angle = one.source === one.target ? Math.PI / 4 : Math.atan2(y2 - y1, x2 - x1);
    pen.moveTo(x2, y2);
    pen.lineTo(x2 - 8 * Math.cos(angle - 0.35), y2 - 8 * Math.sin(angle - 0.35));
    pen.lineTo(x2 - 8 * Math.cos(angle + 0.35), y2 - 8 * Math.sin(angle + 0.35));
    pen.fill();
  }
}
function paintChosen(pen, one) {
  if (!isShown(one)) return;
  pen.strokeStyle = pinned.includes(one) ? colours.ink : colours.found;
  pen.lineWidth = 3;
  pen.beginPath();
  trace(pen, one);
  pen.stroke();
  pen.fillStyle = pen.strokeStyle;
  paintHead(pen, one, looks(one));
}
function nameArrow(pen, one) {
  const [x1, y1, x2, y2] = ends(one), words = text(one.what);
  const from = Math.max(0, Math.min(x1, x2)), to = Math.min(width, Math.max(x1, x2));
  // A slanted line has room for its name only if it is long.
  const share = 0.3, x = x1 + (x2 - x1) * share, y = y1 + (y2 - y1) * share;
  const isStub = one.lost || one.received === null;
  if (!isStub && (to - from < 24 && Math.abs(y2 - y1) < 30 || x < 0 || x > width)) return;
  const left = isStub ? x2 + 7 : x + 5, wide = pen.measureText(words).width;
  pen.globalAlpha = 0.8;
  pen.fillStyle = colours.paper;
  pen.fillRect(left - 1, (isStub ? y2 : y) - 6, wide + 2, 12);
  pen.globalAlpha = 1;
  pen.textAlign = "left";
  pen.fillStyle = one.lost ? colours.alarm : colours.soft;
  pen.fillText(words, left, isStub ? y2 : y);
}

// Marks: rare ones on top; of equal ones on one spot, only one is painted.
function paintMarks(pen) {
  const last = new Map();
  for (const isRare of [false, true]) for (const one of moments) {
    if (!!one.mark[3] !== isRare || one.begin < view.from || one.begin > view.to) continue;
    if (!isShown(one)) continue;
    const x = X(one.begin), spot = one.lane + " " + one.what + " " + one.epoch;
    const isChosen = pinned.includes(one) || found.has(one);
    if (!isChosen && x - last.get(spot) < 1.5) continue;
    last.set(spot, x);
    paintMark(pen, one, x);
  }
  nameMarks(pen);
  for (const one of pinned) if (one.type !== "s") paintGuide(pen, one.begin);
}
// A name is written beside its mark if the lane is free up to the next mark.
function nameMarks(pen) {
  const shown = moments.filter((one) => one.begin >= view.from && one.begin <= view.to &&
    isShown(one));
  if (shown.length > data.named) return;
  pen.textAlign = "left";
  pen.lineWidth = 3;
  pen.strokeStyle = colours.paper;
  const next = lanes.map(() => width);
  shown.reverse().forEach((one) => {
    const x = X(one.begin), free = next[one.lane] - x - 16;
    next[one.lane] = x;
    const detail = ["append", "decision"].includes(text(one.what)) ? text(one.detail) : "";
    const words = [detail, text(one.what)].find((some) =>
      some && pen.measureText(some).width <= free);
    if (!words) return;
    const y = lanes[one.lane].y - 14;
    pen.strokeText(words, x + 8, y);
    pen.fillStyle = colours.ink;
    pen.fillText(words, x + 8, y);
  });
}
function paintMark(pen, one, x) {
  const [path, colour, mode] = one.mark, y = lanes[one.lane].y;
  const tint = colour === "epoch" ? thinColour(one.epoch, colours.ink) : colours[colour];
  pen.save();
  pen.translate(x, y);
  if (pinned.includes(one) || found.has(one)) {
    pen.fillStyle = pinned.includes(one) ? colours.ink : colours.found;
    pen.globalAlpha = 0.5;
    pen.beginPath();
    pen.arc(0, 0, 12, 0, 7);
    pen.fill();
    pen.globalAlpha = 1;
  }
  pen.lineWidth = mode === "stroke" ? 5 : 3;
  pen.strokeStyle = colours.paper;
  pen.stroke(shape(path));
  pen.fillStyle = pen.strokeStyle = tint;
  pen.lineWidth = 2;
  if (mode === "fill") pen.fill(shape(path)); else pen.stroke(shape(path));
  if (colour === "epoch" && isStriped(one.epoch)) {
    pen.fillStyle = colours.paper;
    pen.fillRect(-1, -3, 2, 6);
  }
  pen.restore();
}
function paintGuide(pen, time) {
  const x = Math.round(X(time)) + 0.5;
  pen.strokeStyle = colours.ink;
  pen.lineWidth = 1;
  pen.setLineDash([2, 3]);
  pen.beginPath();
  pen.moveTo(x, AXIS - 6);
  pen.lineTo(x, height);
  pen.stroke();
  pen.setLineDash([]);
}

// The overview: messages over time, rare marks, and the view as a window.
let density = null;
function paintOverview() {
  const high = 38, pen = fitted(overview, high), wide = overview.clientWidth;
  const at = (time) => (time - whole.from) / (whole.to - whole.from) * wide;
  if (!density || density.length !== Math.ceil(wide / 3)) {
    density = Array.from({length: Math.ceil(wide / 3)}, () => 0);
    arrows.forEach((one) => {
      density[Math.min(density.length - 1, Math.floor(at(one.begin) / 3))] += 1;
    });
  }
  const most = Math.log1p(Math.max(1, ...density));
  pen.fillStyle = colours.soft;
  pen.globalAlpha = 0.45;
  density.forEach((count, n) => {
    const tall = Math.log1p(count) / most * (high - 12);
    pen.fillRect(n * 3, high - tall, 2.4, tall);
  });
  pen.globalAlpha = 1;
  rare.forEach((one) => {
    if (!isShown(one)) return;
    const colour = one.mark[1];
    pen.fillStyle = colour === "epoch" ? thinColour(one.epoch, colours.ink) : colours[colour];
    pen.fillRect(at(one.begin) - 1, 0, 2, 10);
  });
  pen.fillStyle = colours.link;
  pen.globalAlpha = 0.16;
  const from = at(view.from), to = Math.max(from + 4, at(view.to));
  pen.fillRect(from, 0, to - from, high);
  pen.globalAlpha = 1;
  pen.strokeStyle = colours.link;
  pen.lineWidth = 1.5;
  pen.strokeRect(from + 0.75, 0.75, to - from - 1.5, high - 1.5);
}

// Moving the view.
function show(from, to) {
  const most = whole.to - whole.from;
  const span = Math.min(most, Math.max(SPAN_MIN, to - from));
  const start = Math.min(whole.to - span, Math.max(whole.from, (from + to - span) / 2));
  view.from = start;
  view.to = start + span;
  hideTip();
  paintSoon();
}
function zoom(factor, middle = (view.from + view.to) / 2) {
  const span = Math.min(whole.to - whole.from,
    Math.max(SPAN_MIN, (view.to - view.from) * factor));
  const share = (middle - view.from) / (view.to - view.from);
  show(middle - share * span, middle + (1 - share) * span);
}
function pan(share) {
  const by = (view.to - view.from) * share;
  const inside = Math.max(whole.from - view.from, Math.min(whole.to - view.to, by));
  show(view.from + inside, view.to + inside);
}
const fit = () => show(whole.from, whole.to);
const acts = {"in": () => zoom(0.5), out: () => zoom(2), fit, left: () => pan(-0.3),
  right: () => pan(0.3), next: () => step(1), previous: () => step(-1),
  found: () => goFound(1)};
all("[data-act]").forEach((button) =>
  button.addEventListener("click", acts[button.dataset.act]));

canvas.addEventListener("wheel", (event) => {
  const across = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
  const lines = event.deltaMode === 1 ? 16 : 1;
  if (across) {
    event.preventDefault();
    pan((event.deltaX || event.deltaY) * lines / width);
    return;
  }
  // All is in view already: let the page scroll.
  if (event.deltaY > 0 && view.to - view.from >= whole.to - whole.from) return;
  event.preventDefault();
  zoom(Math.exp(event.deltaY * lines * 0.0018), timeAt(event.offsetX));
}, {passive: false});

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  drag = {x: event.clientX, from: view.from, to: view.to, moved: false};
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return hover(event);
  const by = event.clientX - drag.x;
  if (Math.abs(by) > 4) drag.moved = true;
  if (!drag.moved) return;
  canvas.classList.add("drags");
  const shift = -by / width * (drag.to - drag.from);
  const inside = Math.max(whole.from - drag.from, Math.min(whole.to - drag.to, shift));
  show(drag.from + inside, drag.to + inside);
});
canvas.addEventListener("pointerup", (event) => {
  if (drag && !drag.moved) pin(hits(event.offsetX, event.offsetY));
  letGo();
});
canvas.addEventListener("pointercancel", letGo);
canvas.addEventListener("pointerleave", () => hideTip());
canvas.addEventListener("dblclick", (event) => zoom(0.3, timeAt(event.offsetX)));
function letGo() { drag = null; canvas.classList.remove("drags"); }

function centre(event) {
  const time = whole.from + event.offsetX / overview.clientWidth * (whole.to - whole.from);
  const half = (view.to - view.from) / 2;
  show(time - half, time + half);
}
overview.addEventListener("pointerdown", (event) => {
  overview.setPointerCapture(event.pointerId);
  centre(event);
});
overview.addEventListener("pointermove", (event) => { if (event.buttons) centre(event); });

canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {ArrowLeft: acts.left, ArrowRight: acts.right, "+": acts["in"], "=": acts["in"],
    "-": acts.out, "0": fit, Home: fit, n: acts.next, p: acts.previous,
    Escape: () => pin([])}[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// What is under the pointer, the nearest first: marks, then messages, then bars and states.
function hits(x, y) {
  const near = [];
  const slack = timeAt(x + 10) - timeAt(x), time = timeAt(x);
  for (const one of moments) {
    if (Math.abs(one.begin - time) > slack || Math.abs(lanes[one.lane].y - y) > 10) continue;
    if (isShown(one)) near.push([Math.abs(X(one.begin) - x) - (one.mark[3] ? 1 : 0), one]);
  }
  if (!near.length) for (const one of arrows) {
    if (one.begin - 2 * slack > time || one.end + 2 * slack < time || !isShown(one)) continue;
    const far = distance(x, y, ends(one));
    if (far < 5) near.push([far, one]);
  }
  if (!near.length) for (const one of spans) {
    if (one.begin - slack / 5 > time || one.end + slack / 5 < time || !isShown(one)) continue;
    const lane = lanes[one.lane], top = one.isState ? lane.y - 9 : barTop(lane, one);
    if (y >= top && y < top + (one.isState ? 18 : lane.row)) near.push([0, one]);
  }
  return near.sort((one, other) => one[0] - other[0]).map((pair) => pair[1]);
}
function distance(x, y, [x1, y1, x2, y2]) {
  const long = (x2 - x1) ** 2 + (y2 - y1) ** 2 || 1;
  const along = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / long;
  const at = Math.max(0, Math.min(1, along));
  return Math.hypot(x - x1 - at * (x2 - x1), y - y1 - at * (y2 - y1));
}

// The text about a thing under the pointer.
function facts(one) {
  const lane = (at) => lanes[at].name || "run", list = [];
  if (one.type === "a") {
    list.push([text(one.what), lane(one.source) + " \u2192 " + lane(one.target)]);
    list.push(["sent", ms(one.begin) + " ms"]);
    list.push(["received", one.lost ? "never: lost" : one.received === null ?
      "not by the end of the run" : ms(one.received) + " ms, after " +
      ms(one.received - one.begin) + " ms"]);
  } else {
    list.push([text(one.what), lane(one.lane)]);
    list.push(["at", ms(one.begin) + " ms" + (one.type === "s" ? " to " + ms(one.end) +
      " ms, " + ms(one.end - one.begin) + " ms long" : "")]);
  }
  if (one.epoch !== null) list.push(["epoch", String(one.epoch)]);
  if (text(one.key)) list.push(["partition", text(one.key)]);
  if (text(one.detail)) list.push(["detail", text(one.detail)]);
  return list;
}
function tell(some, most, into) {
  into.replaceChildren();
  for (const one of some.slice(0, most)) {
    describe(facts(one), into);
  }
  if (some.length > most) {
    make("p", "and " + (some.length - most) + " more here: zoom in", into).className = "note";
  }
}
const tip = $("tip");
const hideTip = () => { tip.hidden = true; };
function hover(event) {
  const some = hits(event.offsetX, event.offsetY);
  canvas.style.cursor = some.length ? "pointer" : "";
  if (!some.length) return hideTip();
  tell(some, 4, tip);
  placeTip(tip, event.clientX, event.clientY);
}
const unpinned = $("pinned").firstElementChild;
function pin(some) {
  pinned = some;
  if (some.length) tell(some, 30, $("pinned")); else $("pinned").replaceChildren(unpinned);
  paintSoon();
}
function go(one) {
  const middle = (one.begin + one.end) / 2, most = (whole.to - whole.from) / 8;
  const half = Math.max(one.end - one.begin, Math.min(most, view.to - view.from)) / 2;
  if (one.begin < view.from || one.end > view.to || view.to - view.from > most)
    show(middle - half, middle + half);
  pin([one]);
}
function step(by) {
  const list = moments.filter(isShown);
  if (!list.length) return;
  const now = list.indexOf(pinned[0]);
  const near = list.findIndex((one) => one.begin >= view.from);
  const at = now >= 0 ? now + by : near < 0 ? 0 : near;
  go(list[Math.max(0, Math.min(list.length - 1, at))]);
}

// Filters: partitions, kinds, words.
const partition = $("partition");
partition.addEventListener("change", () => { onlyKey = Number(partition.value); refill(); });
function refill() { layOut(); refind(); paintSoon(); }
function toggle(chip, isOn) {
  hidden[chip.dataset.kind][isOn ? "delete" : "add"](Number(chip.dataset.what));
  chip.setAttribute("aria-pressed", isOn);
}
all(".chip").forEach((chip) => chip.addEventListener("click", (event) => {
  const others = all(".chip", chip.closest("fieldset"));
  if (event.shiftKey) others.forEach((one) => toggle(one, one === chip));
  else toggle(chip, chip.getAttribute("aria-pressed") !== "true");
  refill();
}));
all("[data-all]").forEach((button) => button.addEventListener("click", () => {
  all(".chip", button.closest("fieldset")).forEach((one) =>
    toggle(one, button.dataset.all === "show"));
  refill();
}));
const search = $("find");
let foundAt = -1, foundList = [];
function refind() {
  const wanted = search.value.trim().toLowerCase();
  foundList = !wanted ? [] : [...moments, ...arrows, ...spans].filter((one) => isShown(one) &&
    facts(one).flat().join(" ").toLowerCase().includes(wanted)).sort((one, other) =>
    one.begin - other.begin);
  found.clear();
  foundList.forEach((one) => found.add(one));
  foundAt = -1;
  $("count").textContent = wanted ? foundList.length + " found" : "";
}
function goFound(by) {
  if (!foundList.length) return;
  foundAt = (foundAt + by + foundList.length) % foundList.length;
  $("count").textContent = foundAt + 1 + " of " + foundList.length;
  go(foundList[foundAt]);
}
search.addEventListener("input", () => { refind(); paintSoon(); });
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") goFound(event.shiftKey ? -1 : 1);
});

// A link to a thing of the picture: of a decision, or of a line of the table.
function reveal() {
  const parts = /^#([mas])(\d+)$/.exec(location.hash);
  const one = parts && things[parts[1]][Number(parts[2])];
  if (!one) return;
  go(one);
  $("stage").scrollIntoView({block: "nearest"});
}
addEventListener("hashchange", reveal);
all('a[href^="#"]').forEach((link) => link.addEventListener("click", () => {
  if (link.hash === location.hash) reveal();
}));

$("copy").addEventListener("click", async () => {
  const command = $("command");
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(command.textContent);
  } catch {
    getSelection().selectAllChildren(command);
    isCopied = document.execCommand("copy");
  }
  $("copy").textContent = isCopied ? "copied" : "press Ctrl+C";
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColours();
  paintSoon();
});
new ResizeObserver(paintSoon).observe(canvas);
$("workshop").hidden = false;
readColours();
layOut();
paint();
reveal();
}
