// Tells what a thing is: where the mouse is, where a finger taps, and where the keyboard goes.
"use strict";

// Tips of all things with `data-t`, and of those with `data-s`, which `fill` writes.
function useTips(fill) {
  const THINGS = "[data-s],[data-t]", REACH = 24;
  const tip = $("tip");
  let keyed = null, isTouch = false;
  // Without this script the browser itself shows titles, but only to a mouse.
  all("svg title").forEach((title) => {
    title.parentElement.dataset.t = title.textContent;
    title.remove();
  });
  all("[title]").forEach((one) => {
    one.dataset.t = one.title;
    one.removeAttribute("title");
  });

  function show(thing, x, y) {
    tip.replaceChildren();
    if (thing.dataset.s !== undefined) fill(thing, tip);
    else thing.dataset.t.split("; ").forEach((line) => make("div", line, tip));
    placeTip(tip, x, y);
  }
  function hide() { tip.hidden = true; }
  // A finger is thicker than a bar, so the nearest one of the drawing is meant.
  function under(event) {
    const at = event.target.closest && event.target.closest(THINGS);
    const drawing = event.target.closest && event.target.closest(".lane svg");
    if (at || !isTouch || !drawing) return at;
    let nearest = null, least = REACH;
    all(THINGS, drawing).forEach((one) => {
      const box = one.getBoundingClientRect();
      const away = Math.max(box.left - event.clientX, event.clientX - box.right, 0) +
        Math.max(box.top - event.clientY, event.clientY - box.bottom, 0);
      if (away < least) { nearest = one; least = away; }
    });
    return nearest;
  }
  document.addEventListener("pointerdown", (event) => {
    isTouch = event.pointerType === "touch";
    unkey();
  });
  document.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const thing = under(event);
    if (thing) show(thing, event.clientX, event.clientY); else if (!keyed) hide();
  });
  document.addEventListener("click", (event) => {
    if (!isTouch) return;
    const thing = under(event);
    if (!thing) return hide();
    show(thing, event.clientX, event.clientY);
    // The name of a group unfolds it, and its drawing tells.
    if (thing.closest("summary")) event.preventDefault();
  });
  document.documentElement.addEventListener("pointerleave", (event) => {
    if (!keyed && event.pointerType !== "touch") hide();
  });
  document.addEventListener("scroll", () => { if (!keyed) hide(); }, true);

  // Keys: a drawing is one tab stop, and arrows move along its boxes.
  function unkey() {
    if (keyed) keyed.classList.remove("at");
    keyed = null;
    hide();
  }
  function goTo(thing) {
    unkey();
    keyed = thing;
    keyed.classList.add("at");
    keyed.scrollIntoView({block: "nearest", inline: "nearest"});
    const box = keyed.getBoundingClientRect();
    show(keyed, box.left, box.bottom);
  }
  function step(drawing, key) {
    const boxes = all(THINGS, drawing).sort((a, b) =>
      parseFloat(a.getAttribute("x")) - parseFloat(b.getAttribute("x")));
    if (!boxes.length) return;
    const now = boxes.indexOf(keyed);
    goTo(boxes[{ArrowRight: Math.min(now + 1, boxes.length - 1), Home: 0,
      ArrowLeft: now < 0 ? boxes.length - 1 : Math.max(now - 1, 0),
      End: boxes.length - 1}[key]]);
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return unkey();
    const drawing = event.target.closest && event.target.closest("svg[tabindex]");
    if (drawing && ["ArrowRight", "ArrowLeft", "Home", "End"].includes(event.key)) {
      event.preventDefault();
      step(drawing, event.key);
    }
  });
  document.addEventListener("focusin", (event) => {
    const thing = event.target.closest(THINGS);
    if (!thing || !event.target.matches(":focus-visible")) return;
    const box = event.target.getBoundingClientRect();
    show(thing, box.left, box.bottom);
  });
  document.addEventListener("focusout", unkey);
}
