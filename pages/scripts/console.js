// Keeps a page of the console new: the server says when there is something, and the parts with
// `data-live` are replaced. It says since when it hears nothing, and when its session has ended.
"use strict";
{
const RETRY_MS = 2000;
let lost = null, out = null, isFetching = false, isWanted = false, isMoving = false;

const clock = (time) => time.toISOString().slice(0, 19) + "Z";
function tell() {
  $("line").textContent = out ? "signed out at " + clock(out.at) + ": " + out.why + ". " :
    lost ? "no answer since " + clock(lost) + ": what is shown is from before" : "";
  $("line").classList.toggle("blind", Boolean(out || lost));
  if (!out) return;
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "Sign in";
  $("line").append(link);
}
function signedOut(why) {
  out = out || {at: new Date(), why};
  tell();
}
// Whether the session has ended; where nobody signs in there is none that could.
async function isOut() {
  const answer = await fetch("/session", {cache: "no-store"});
  if (answer.status === 401) signedOut(await answer.text());
  return answer.status === 401;
}
// What somebody looks at closely stays: it has the focus, text of it is selected, or it was zoomed.
const isSelected = (part) => !getSelection().isCollapsed && getSelection().containsNode(part, true);
const isInUse = (part) => part.contains(document.activeElement) && document.activeElement !== document.body ||
  isSelected(part) ||
  all(".plot", part).some((plot) => Number(getComputedStyle(plot).getPropertyValue("--zoom")) > 1);

function replaceParts(page) {
  // What was a first look has become the page itself.
  if ($("first") && !page.getElementById("first")) { location.reload(); return; }
  document.title = page.title;
  all("[data-live]").forEach((part) => {
    const newer = page.getElementById(part.id);
    if (!newer || newer.innerHTML === part.dataset.was) return;
    if (isMoving && part.id === "then") return;
    if (isInUse(part)) { part.dataset.held = part.dataset.held || clock(new Date()); return; }
    delete part.dataset.held;
    part.dataset.was = newer.innerHTML;
    const open = all("details[id]", part).map((one) => [one.id, one.open]);
    part.replaceChildren(...newer.childNodes);
    open.forEach(([id, is]) => { if ($(id)) $(id).open = is; });
    all("table", part).forEach(nameCells);
    all(".script", part).forEach((one) => { one.hidden = false; });
  });
  const range = $("at"), newest = page.getElementById("at");
  if (range && newest) {
    const atEnd = range.value === range.max && !new URLSearchParams(location.search).has("at");
    range.max = newest.max;
    range.dataset.times = newest.dataset.times;
    if (atEnd && !isMoving) range.value = newest.value;
  }
}

async function renew(address) {
  if (isFetching) { isWanted = true; return; }
  isFetching = true;
  try {
    const answer = await fetch(address, {cache: "no-cache"});
    if (answer.status === 401 && await isOut()) { isFetching = isWanted = false; return; }
    if (out) { out = null; listen(); }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    // Another moment may have been asked for meanwhile.
    if (new URL(address, location).href === location.href) replaceParts(page);
    else isWanted = true;
  } catch {
    lost = lost || new Date();
  }
  isFetching = false;
  tell();
  if (isWanted) { isWanted = false; renew(location.href); return; }
  if ($("picture")) $("picture").ariaBusy = "false";
}

function listen() {
  const source = new EventSource("/live");
  source.addEventListener("message", () => {
    lost = null;
    tell();
    if (!document.hidden) renew(location.href);
  });
  source.addEventListener("out", (told) => {
    source.close();
    signedOut(told.data);
  });
  source.addEventListener("error", async () => {
    lost = lost || new Date();
    tell();
    if (source.readyState !== EventSource.CLOSED) return;
    if (!await isOut().catch(() => false)) setTimeout(listen, RETRY_MS);
  });
}
// A page that the browser has kept has old data, and boxes ticked as somebody left it.
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) renew(location.href); });

// The slider: while it moves it tells where it is; when it is let go, that moment is shown. Of a
// long log that takes seconds, so it is said that the picture is still the one from before.
if ($("at")) {
  // Steps by keys and buttons are one entry of the browser's history, however many they are.
  let isStep = false, wasStep = false;
  // The time of the last position before it that the page knows; the page of a moment has its own.
  function near() {
    const known = $("at").dataset.times.split(" ").map(Number);
    let ms = known[1];
    for (let at = 0; at < known.length && known[at] <= $("at").value; at += 2) ms = known[at + 1];
    const isTime = ms >= 0 && ms <= 253402300799999; // The end of the year 9999.
    return isTime ? ", about " + clock(new Date(ms)) : "";
  }
  const where = () => location.pathname + location.search;
  let shown = where();
  $("at").addEventListener("keydown", () => { isStep = true; });
  $("at").addEventListener("pointerdown", () => { isStep = false; });
  $("at").addEventListener("input", () => {
    $("then").textContent = "after position " + Number($("at").value).toLocaleString("en") + near();
    $("then").dataset.was = "";
    isMoving = true;
  });
  $("at").addEventListener("change", () => {
    const asked = new URLSearchParams(location.search);
    asked.delete("as_of");
    $("as_of").value = "";
    if ($("at").value === $("at").max) asked.delete("at"); else asked.set("at", $("at").value);
    const address = location.pathname + (asked.size ? "?" + asked : "");
    history[isStep && wasStep ? "replaceState" : "pushState"](null, "", address);
    wasStep = isStep;
    shown = where();
    isMoving = false;
    $("then").textContent += ", being drawn";
    $("picture").ariaBusy = "true";
    renew(address);
  });
  all("[data-step]").forEach((button) => button.addEventListener("click", () => {
    isStep = true;
    $("at").value = Number($("at").value) + Number(button.dataset.step);
    ["input", "change"].forEach((name) => $("at").dispatchEvent(new Event(name)));
  }));
  // The newest moment is not asked for by its position: the page is to go on.
  $("moment").addEventListener("submit", () => {
    $("at").disabled = $("as_of").value !== "" || $("at").value === $("at").max;
    ["as_of", "since"].forEach((id) => { $(id).disabled = $(id).value === ""; });
  });
  // A link to a part of the page is no other moment.
  addEventListener("popstate", () => { if (where() !== shown) location.reload(); });
}
all(".script").forEach((one) => { one.hidden = false; });
listen();
}
