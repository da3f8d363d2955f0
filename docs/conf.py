"""The site: the pages as they stand in the repository, found by `docs/README.md`.

The headings of that page are the parts of the navigation, and its lists the pages.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
MAP = ROOT / "docs" / "README.md"
LISTED = re.compile(r"^- \[(.+?)\]\((.+?)\): (.+)$")
LINK = re.compile(r"(\[[^\]\n]+\])\(([^)\s#:]+)\)")
"""Without those to a heading, and to other hosts."""
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)

project = "tierledger"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "kafka-plugin/README.md"]
# Other folders are not looked through: environments and what was built have pages of their own.
exclude_patterns = [
    one.name
    for one in ROOT.iterdir()
    if one.is_dir() and one.name not in {"docs", "kafka-plugin"}
] + ["kafka-plugin/src", "kafka-plugin/target"]

myst_heading_anchors = 4  # As hosts of git repositories have them.

html_theme = "furo"
html_title = "tierledger"
html_copy_source = True
html_sourcelink_suffix = ""
html_show_copyright = False
html_use_index = False
# A page that was opened as a file may not read the others.
html_show_search_summary = False


class ListedPage(NamedTuple):
    """A line of the navigation."""

    title: str
    path: Path
    holds: str

    @property
    def name(self) -> str:
        """By which Sphinx knows the page."""
        return self.path.relative_to(ROOT).with_suffix("").as_posix()


def parts() -> Iterator[tuple[str, list[ListedPage]]]:
    """Each part of the navigation with its pages."""
    for part in MAP.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, *lines = part.splitlines()
        pages = [
            ListedPage(found[1], (MAP.parent / found[2]).resolve(), found[3])
            for line in lines
            if (found := LISTED.match(line))
        ]
        yield title, pages


def toctree(*options: str) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", *options, "```", ""])


def prepare(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the navigation to the page on which it hangs, and fit the page to the site."""
    pieces = FENCE.split(source[0])
    pieces[::2] = [LINK.sub(lambda link: linked(app, name, link), one) for one in pieces[::2]]
    pieces[1::2] = [one.replace("```mermaid", "```text", 1) for one in pieces[1::2]]
    if name == root_doc:
        pieces.append(toctree("", f"All pages </{MAP.relative_to(ROOT).with_suffix('')}>"))
        for title, pages in parts():
            entries = (f"{one.title} </{one.name}>" for one in pages)
            pieces.append(toctree(f":caption: {title}", "", *entries))
    if name.startswith("docs/adr/"):
        # The architecture lists them; in each page's navigation they cost half of the build.
        pieces.insert(0, "---\norphan: true\n---\n")
    source[0] = "".join(pieces)


def linked(app: Sphinx, name: str, link: re.Match[str]) -> str:
    """The link, or its text alone if it leads to what is only in the repository."""
    target = ((ROOT / name).parent / link[2]).resolve()
    page = target / "README.md" if target.is_dir() else target
    if page.suffix != ".md" or not target.exists():
        return link[0]
    if page.relative_to(ROOT).with_suffix("").as_posix() not in app.env.found_docs:
        return link[1][1:-1]
    return f"{link[1]}({Path(link[2]) / 'README.md' if target.is_dir() else link[2]})"


def finish(app: Sphinx, failure: Exception | None) -> None:
    """Add what is not a page: where a browser begins, and the list for language models."""
    if failure is not None:
        return
    site = Path(app.outdir)
    shutil.copy(site / f"{root_doc}.html", site / "index.html")
    (site / "llms.txt").write_text(llms(), encoding="utf-8")


def llms() -> str:
    """One line for each page, with the page as Markdown."""
    title, about = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[:2]
    lines = [title, "", *(f"> {one}" for one in about.rstrip(":.").splitlines()), ""]
    for title, pages in parts():
        lines += [f"## {title}", ""]
        lines += [f"- [{one.title}](_sources/{one.name}.md): {one.holds}" for one in pages]
        lines.append("")
    lines += ["## Decisions", ""]
    for path in sorted((ROOT / "docs" / "adr").glob("*.md")):
        number, _, title = (
            path.read_text(encoding="utf-8").partition("\n")[0][2:].partition(": ")
        )
        lines.append(f"- [{number}](_sources/docs/adr/{path.name}): {title}")
    return "\n".join(lines) + "\n"


def setup(app: Sphinx) -> dict[str, bool]:
    # All pages are read anew when this file has changed.
    app.add_config_value("made_by", Path(__file__).read_text(encoding="utf-8"), "env")
    app.connect("source-read", prepare)
    app.connect("env-get-outdated", lambda *_: [root_doc])  # The navigation is another file.
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
