"""What the page of a run does when it is touched: zoom, pan, filter, find, tell what is there.

The same picture is worked by wheel, by drag, by buttons and by keys.
"""

from __future__ import annotations

from typing import Final

HANDS: Final = r"""
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

// Telling what it is.
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
  if (one.detail !== undefined && text(one.detail)) list.push(["detail", text(one.detail)]);
  return list;
}
function tell(some, most, into) {
  into.replaceChildren();
  for (const one of some.slice(0, most)) {
    const list = document.createElement("dl");
    list.className = "thing";
    for (const [name, value] of facts(one)) for (const [tag, words] of [["dt", name],
      ["dd", value]]) {
      const element = document.createElement(tag);
      element.textContent = words;
      list.append(element);
    }
    into.append(list);
  }
  if (some.length > most) {
    const more = document.createElement("p");
    more.className = "note";
    more.textContent = "and " + (some.length - most) + " more here: zoom in";
    into.append(more);
  }
}
const tip = $("tip");
const hideTip = () => { tip.hidden = true; };
function hover(event) {
  const some = hits(event.offsetX, event.offsetY);
  canvas.style.cursor = some.length ? "pointer" : "";
  if (!some.length) return hideTip();
  tell(some, 4, tip);
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), x = event.clientX, y = event.clientY;
  const above = y + 18 + box.height > innerHeight;
  tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(8, above ? y - box.height - 12 : y + 18) + "px";
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
"""
