"""Rules of every page: values are escaped, none is missing, all files exist."""

import base64
import hashlib
import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from jinja2 import DictLoader, UndefinedError
from markupsafe import escape

from tests.models.pages import sample_pages
from tests.models.pages.html_page import HtmlPage
from tierledger.pages import environment

ROOT = Path(__file__).parents[2]
HOSTILE = (
    "</title></script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x00\ud800"
)
PAGES = {**sample_pages.JOBS, "report": sample_pages.report, "run": sample_pages.run}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Templates to be written by a test; `page.html` shows `value`."""
    templates: dict[str, str] = {}
    loaded = environment._ENVIRONMENT.overlay(loader=DictLoader(templates))
    monkeypatch.setattr(environment, "_ENVIRONMENT", loaded)
    return templates


@pytest.mark.parametrize(
    "template",
    [
        "{{ value }}",
        "{{ value|coded }}",
        '<p title="{{ value }}">',
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(value) }}",
        '{{ value ~ "-" ~ 1 }}',
        "{{ [value]|join }}",
        "{% set x %}{{ value }}{% endset %}{{ x }}",
        "{{ [value]|tojson }}",
        "{% for x in [value] %}{{ loop.index }}{{ x|replace('_', ' ') }}{% endfor %}",
    ],
)
def test_no_value_becomes_markup_or_hides(page: dict[str, str], template: str) -> None:
    page["page.html"] = template

    html = environment.render("page.html", value=HOSTILE)

    assert html.encode()
    assert "<script" not in html
    assert "<img" not in html
    assert not {"\u202e", "\x00"} & set(html)
    if "tojson" not in template:
        assert str(escape(HOSTILE[:40])) in html


def test_what_stands_between_backticks_is_code(page: dict[str, str]) -> None:
    page["page.html"] = "{{ value|coded }}"

    html = environment.render("page.html", value="run `a <b>`, or `c`; not `")

    assert html == "run <code>a &lt;b&gt;</code>, or <code>c</code>; not `"


def test_json_cannot_end_its_script(page: dict[str, str]) -> None:
    page["page.html"] = "{{ value|tojson }}"

    text = environment.render("page.html", value=["</script><!--&\u2028"])

    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == ["</script><!--&\u2028"]


def test_a_value_that_nobody_gave_is_an_error(page: dict[str, str]) -> None:
    page["page.html"] = "{{ other }}"

    with pytest.raises(UndefinedError, match="'other' is undefined"):
        environment.render("page.html", value=1)


@pytest.mark.parametrize("name", sample_pages.JOBS)
def test_hostile_names_stay_names_on_the_pages_of_jobs(name: str) -> None:
    shown = HtmlPage(sample_pages.JOBS[name](HOSTILE))

    shown.assert_harmless()
    assert shown.count("script") == 3, "those of the page itself"
    assert "</script><script>alert(1)" in shown.text()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_may_run_its_own_scripts_and_no_others(name: str) -> None:
    shown = HtmlPage(PAGES[name]())

    (policy,) = shown.having("meta", http_equiv="Content-Security-Policy")
    allowed = re.findall(r"'sha256-([^']+)'", str(policy["content"]))
    scripts = [one for one in shown.of("script") if one[0] not in "[{"]
    assert allowed == [
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts
    ]
    assert "unsafe-inline" not in str(policy["content"]).partition("script-src")[2]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_when_by_what_and_of_which_store_it_was_made(name: str) -> None:
    shown = HtmlPage(PAGES[name]())

    text = shown.text()
    assert shown.count("p", _class="stamp") == 1
    assert all(one in text for one in sample_pages.STAMP)


@pytest.mark.parametrize("name", sample_pages.JOBS)
def test_every_section_of_a_job_has_a_link_of_its_own(name: str) -> None:
    shown = HtmlPage(sample_pages.JOBS[name]())

    ids = [found["id"] for _, found in shown.elements if "id" in found]
    assert len(ids) == len(set(ids))
    assert {str(link) for link in shown.values("a", "href")} <= {f"#{one}" for one in ids}
    assert all("id" in found for found in shown.having("section"))
    assert shown.count("a", _class="anchor")


@pytest.mark.parametrize("name", sample_pages.JOBS)
def test_every_box_of_a_job_tells_what_it_is_without_a_script(name: str) -> None:
    html = re.sub(r'<ul class="legend".*?</ul>', "", sample_pages.JOBS[name](), flags=re.DOTALL)

    boxes = re.findall(r"<rect class=\"[^>]* x=[^>]*>", html)
    assert boxes
    assert len(re.findall(r"<rect class=\"[^>]* x=[^>]*><title>[^<]+</title>", html)) == len(
        boxes
    )


def test_every_file_of_the_package_is_installed() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    data = setuptools["package-data"]
    patterns = [*data["*"], *data["tierledger.pages"]]
    folder = ROOT / "pages"

    files = [path.relative_to(folder) for path in folder.rglob("*.*") if path.is_file()]
    others = [str(one) for one in files if one.suffix not in {".py", ".pyc"}]
    assert others
    assert not [one for one in others if not any(fnmatch(one, wanted) for wanted in patterns)]
