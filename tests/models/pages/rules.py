"""Rules that each page keeps, as a browser finds what breaks them: nothing, if all are kept."""

from tests.models.pages.chromium import Browser

CONTROLS = """[...document.querySelectorAll(
  "a[href], button, input:not([type=hidden]), select, summary, [tabindex]"
)].filter((one) => one.checkVisibility() && one.getBoundingClientRect().width)"""

NAMELESS = f"""{CONTROLS}.filter((one) => ![
  one.getAttribute("aria-label"), one.title, one.textContent,
  ...[...(one.labels || [])].map((label) => label.textContent),
].some((name) => name && name.trim())).map((one) => one.outerHTML.slice(0, 90)).join()"""
"""Controls of which a screen reader could say nothing."""

SMALL = f"""{CONTROLS}.filter((one) => {{
  const isInText = getComputedStyle(one).display === "inline"
    && one.closest("p, td, tbody th, li, dd");
  const target = one.type === "checkbox" ? one.labels[0] : one;
  const {{width, height}} = target.getBoundingClientRect();
  const least = matchMedia("(pointer: coarse)").matches ? 39.5 : 23;
  return !one.closest("svg, .stage") && !isInText && Math.min(width, height) < least;
}}).map((one) => one.outerHTML.slice(0, 90)).join()"""
"""Controls that a finger would miss, at less than 40 pixels, or a mouse, at less than 24. Those
within a text are as high as its line, and the names of a run's lanes as its lanes; its buttons
do the same."""

FAINT = """(() => {
  const parsed = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
    return {r, g, b, a};
  };
  const over = (upper, lower) => {
    const mixed = {a: 1};
    for (const one of "rgb") mixed[one] = upper[one] * upper.a + lower[one] * (1 - upper.a);
    return mixed;
  };
  const up = (one) => one ? [one, ...up(one.parentElement)] : [];
  const ground = (one) => up(one).reverse().reduce((lower, it) =>
    over(parsed(getComputedStyle(it).backgroundColor), lower), {r: 255, g: 255, b: 255, a: 1});
  const light = ({r, g, b}) => [r, g, b].map((value) => value / 255)
    .map((value) => value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4)
    .reduce((sum, value, at) => sum + value * [.2126, .7152, .0722][at], 0);
  const isFaint = (one, style) => {
    const colour = parsed(style.color), under = ground(one);
    colour.a *= Number(style.opacity);
    up(one).forEach((it) => { colour.a *= Number(getComputedStyle(it).opacity); });
    const [more, less] = [light(over(colour, under)), light(under)].sort((a, b) => b - a);
    return (more + .05) / (less + .05) < 4.5;
  };
  const faint = [...document.querySelectorAll("body *")].filter((one) =>
    one.checkVisibility() && !one.closest("svg, [aria-pressed=false], [aria-busy=true]")
    && (one.placeholder && isFaint(one, getComputedStyle(one, "::placeholder"))
      || [...one.childNodes].some((text) => text.nodeType === 3 && text.data.trim())
      && isFaint(one, {color: getComputedStyle(one).color, opacity: 1})));
  return faint.map((one) => one.outerHTML.slice(0, 90)).join();
})()"""
"""Text that does not stand out from its ground as WCAG 2.2 wants it (1.4.3): 4.5 to 1."""

BACKTICKS = """[...document.body.innerText.matchAll(/`.*`/g)].map((found) => found[0]).join()"""
"""What should be drawn as code."""

UNMARKED = f"""{CONTROLS}.filter((one) => {{
  one.focus({{focusVisible: true, preventScroll: true}});
  const style = getComputedStyle(one);
  return document.activeElement === one
    && (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2);
}}).map((one) => one.outerHTML.slice(0, 90)).join()"""
"""Controls that do not show that they have the focus."""

RULES = (NAMELESS, SMALL, FAINT, BACKTICKS, UNMARKED)


def broken(browser: Browser) -> list[str]:
    """What on the page breaks a rule."""
    return [found for rule in RULES if (found := browser.run(rule))]


def broken_in_the_dark(browser: Browser) -> str:
    """Text that is too faint where the reader wants pages dark."""
    asked = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", asked)
    try:
        found: str = browser.run(FAINT)
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    return found


def beside(browser: Browser, larger: bool = False) -> int:
    """By how many pixels the page is wider than the window, with text as it is or `larger`."""
    browser.run(f"(document.documentElement.style.fontSize = '{'200%' if larger else ''}')")
    # A phone shows all of a page that is too wide, and so makes its window as wide.
    window = "matchMedia('(pointer: coarse)').matches ? screen.width : innerWidth"
    found: int = browser.run(f"document.documentElement.scrollWidth - ({window})")
    browser.run("(document.documentElement.style.fontSize = '')")
    return found
