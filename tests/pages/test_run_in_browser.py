"""The page of a run, operated: zoom, pan, find, filter, select, and links into the picture."""

import pytest
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.models.pages import sample_pages
from tests.models.pages.chromium import Browser

ALL = "0.000 to 90.000 ms"
BROKERS, HOSTS = ([f"{kind}-{at}" for at in (1, 2, 3)] for kind in ("broker", "host"))
LANES = ["run", *BROKERS, "coordinator", *HOSTS, "store"]


@pytest.fixture
def run(browser: Browser) -> Browser:
    browser.open(sample_pages.run())
    browser.wait_for("document.getElementById('seen').textContent !== ''")
    assert browser.text("#seen") == ALL
    return browser


def view(run: Browser) -> tuple[float, float]:
    """The first and last ms in view, once they are painted."""
    run.driver.execute_async_script(
        "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
    )
    first, last = run.text("#seen").removesuffix(" ms").split(" to ")
    return float(first), float(last)


def test_the_picture_is_painted_with_a_name_for_each_lane(run: Browser) -> None:
    colours = run.run(
        "new Set(new Uint32Array(arguments[0].getContext('2d').getImageData(0, 0,"
        " arguments[0].width, arguments[0].height).data.buffer)).size",
        run.one("#picture"),
    )
    assert colours > 50
    assert run.shown("#names button") == LANES


def test_buttons_zoom_and_move_the_view(run: Browser) -> None:
    run.click("[data-act='in']")
    first, last = view(run)
    assert 40 < last - first < 50
    run.click("[data-act='right']")
    assert view(run)[0] > first
    run.click("[data-act='left']")
    assert abs(view(run)[0] - first) < 1
    run.click("[data-act='fit']")

    assert view(run) == (0, 90)


def test_keys_zoom_and_move_the_view(run: Browser) -> None:
    run.type("#picture", "++")
    first, last = view(run)
    assert last - first < 25
    run.type("#picture", Keys.ARROW_RIGHT)
    assert view(run)[0] > first
    run.type("#picture", "0")

    assert view(run) == (0, 90)


def test_the_wheel_zooms_where_it_points_and_a_drag_moves(run: Browser) -> None:
    picture = run.one("#picture")
    run.hands.scroll_from_origin(ScrollOrigin.from_element(picture), 0, -600).perform()
    first, last = view(run)
    assert last - first < 60
    run.hands.move_to_element(picture).click_and_hold().move_by_offset(
        200, 0
    ).release().perform()

    assert view(run)[0] < first


def test_the_overview_centres_the_view_where_it_is_clicked(run: Browser) -> None:
    run.type("#picture", "+++")
    width = run.one("#overview").size["width"]
    run.hands.move_to_element_with_offset(run.one("#overview"), width // 4, 0).click().perform()

    first, last = view(run)
    assert 60 < (first + last) / 2 < 75


def test_a_decision_leads_to_its_mark_which_tells_what_it_is(run: Browser) -> None:
    run.one("#decisions li:nth-child(7) a").click()
    run.wait_for("document.querySelector('#pinned dl')")
    assert "cut host-2 off from the coordinator" in run.text("#pinned")

    picture, lane = run.one("#picture"), run.one("#names button")
    y = run.run("arguments[0].offsetTop + 12", lane) - picture.size["height"] // 2
    first, last = view(run)
    x = round(((38 - first) / (last - first) - 0.5) * picture.size["width"])
    run.hands.move_to_element_with_offset(picture, x, y).perform()
    assert "cut host-2 off" in run.text("#tip")
    run.type("#picture", Keys.ESCAPE)
    assert "stays here" in run.text("#pinned")
    run.hands.move_to_element_with_offset(picture, x, y).click().perform()

    assert "decision" in run.text("#pinned")


def test_marks_follow_each_other(run: Browser) -> None:
    run.click("[data-act='next']")
    first = run.text("#pinned")
    run.click("[data-act='next']")
    assert run.text("#pinned") != first
    run.click("[data-act='previous']")

    assert run.text("#pinned") == first


def test_what_is_found_can_be_visited(run: Browser) -> None:
    run.type("#find", "slot 5 is taken")
    assert run.text("#count") == "1 found"

    run.type("#find", Keys.ENTER)

    assert run.text("#count") == "1 of 1"
    assert "fenced" in run.text("#pinned")


def test_kinds_and_partitions_can_be_left_out(run: Browser) -> None:
    def found() -> int:
        return int(run.text("#count").split()[0])

    run.type("#find", "orders")
    whole = found()
    Select(run.one("#partition")).select_by_visible_text("orders-1")
    of_one = found()
    assert 0 < of_one < whole
    kinds = [text.split()[0] for text in run.shown(".chip[data-kind='a']")]
    calls = run.all(".chip[data-kind='a']")[kinds.index("call")]
    calls.click()
    assert calls.get_attribute("aria-pressed") == "false"
    assert found() < of_one
    for button in run.all("[data-all='hide']"):
        button.click()
    assert found() == 0
    chip = run.one(".chip[data-kind='m']")
    run.hands.key_down(Keys.SHIFT).click(chip).key_up(Keys.SHIFT).perform()

    assert chip.get_attribute("aria-pressed") == "true"
    assert len(run.all(".chip[data-kind='m'][aria-pressed='true']")) == 1


def test_a_lanes_name_leaves_only_its_messages(run: Browser) -> None:
    def picture() -> object:
        return run.run("arguments[0].toDataURL()", run.one("#picture"))

    before = picture()
    button = run.all("#names button")[LANES.index("host-2")]

    button.click()
    view(run)

    assert button.get_attribute("aria-pressed") == "true"
    assert picture() != before


def test_a_line_of_the_table_leads_into_the_picture(run: Browser) -> None:
    run.click("details summary")
    run.one("tbody tr:nth-child(30) a").click()
    run.wait_for("document.querySelector('#pinned dl')")

    kind = run.text("tbody tr:nth-child(30) td:nth-child(3)")
    assert run.text("#pinned dt").startswith(kind)


def test_the_command_can_be_copied(run: Browser) -> None:
    run.click("#copy")

    run.wait_for("document.getElementById('copy').textContent !== 'copy'")
    assert run.text("#copy") in {"copied", "press Ctrl+C"}
