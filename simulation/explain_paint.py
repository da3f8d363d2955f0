"""What paints messages, marks and the overview on the page of a run; follows `DRAWING`."""

from __future__ import annotations

from typing import Final

NAMED_MAX: Final = 400
"""Marks in view up to which those with room beside them are named."""

PAINTING: Final = r"""
// Where an arrow is on the screen; one that never arrived is a stub that points its way.
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
  // A slanted line gives room to its name only where it is long.
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

// Marks: the rare on top; of equal ones on one spot, one is painted.
function paintMarks(pen) {
  const last = new Map(), labels = lanes.map(() => -Infinity);
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
// A name stands beside its mark where the lane is free up to the next one.
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
  const paint = colour === "epoch" ? thinColour(one.epoch, colours.ink) : colours[colour];
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
  pen.fillStyle = pen.strokeStyle = paint;
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

// The overview: how many messages when, what is rare, and the view as a window.
let density = null;
function paintOverview() {
  const high = 38, pen = fitted(overview, high), wide = overview.clientWidth;
  const at = (time) => (time - whole.from) / (whole.to - whole.from) * wide;
  if (!density || density.length !== Math.ceil(wide / 3)) {
    density = new Array(Math.ceil(wide / 3)).fill(0);
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
"""
