"""The site: the pages as they stand in the repository, found by `docs/README.md`.

The headings of that page are the parts of the navigation, and its lists the pages. The page of
the public Python names gets their signatures and docstrings from the program.
"""

import importlib
import inspect
import re
import shutil
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

ROOT = Path(__file__).resolve().parents[1]
MAP = ROOT / "docs" / "README.md"
LISTED = re.compile(r"^- \[(.+?)\]\((.+?)\): (.+)$")
LINK = re.compile(r"(\[[^\]\n]+\])\(([^)\s#:]+)\)")
"""Without those to a heading, and to other hosts."""
ROW = re.compile(r"^\| `([\w.]+)` \| ", re.MULTILINE)
LINE = 88
"""Characters of a signature that stands on one line."""
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

# Quotes are as in the repository: making them round takes a tenth of a build.
smartquotes = False
myst_heading_anchors = 4  # As hosts of git repositories have them.

html_theme = "furo"
html_title = "tierledger"
html_copy_source = True
html_sourcelink_suffix = ""
html_show_copyright = False
html_use_index = False
# A page that was opened as a file may not read the others.
html_show_search_summary = False
html_search_scorer = str(Path(__file__).parent / "site" / "search_order.js")
html_static_path = ["site"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
highlight_language = "none"  # Where a block names no language: not Python.


SHARED: dict[str, object] = {}


class English(SearchEnglish):
    """Finds the stem of each word once, not once for each page: a tenth of a build, too."""

    stem = cache(SearchEnglish.stem)


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
    if name == "docs/python":
        pieces.append(reference(source[0]))
    if name.startswith("docs/adr/"):
        # The architecture lists them; in each page's navigation they cost half of the build.
        pieces.insert(0, "---\norphan: true\n---\n")
    source[0] = "".join(pieces)


def reference(page: str) -> str:
    """Signatures and docstrings of the names in the tables of `page`."""
    made = ["\n## Reference\n"]
    for part in page.split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        for name in ROW.findall(text):
            module, _, last = f"{title.strip('`')}.{name}".rpartition(".")
            made += entry(f"{module}.{last}", getattr(importlib.import_module(module), last))
    return "\n".join(made)


def entry(name: str, of: object) -> Iterator[str]:
    """A name with its signature, what it says, and its methods."""
    last = name.rpartition(".")[2]
    yield f"\n### `{last}`\n\nFrom `{name}`.\n"
    yield told(last, of)
    if not inspect.isclass(of) or issubclass(of, tuple | Enum | BaseException):
        return
    if inspect.isfunction(begin := vars(of).get("__init__")):
        yield f"{docstring(begin)}\n"
    for called, member in vars(of).items():
        if not called.startswith("_") and inspect.isroutine(member):
            yield told(f"{last}.{called}", inspect.unwrap(getattr(of, called)))


def told(called: str, of: object) -> str:
    """How something is called, and its docstring."""
    kind = "class " if inspect.isclass(of) else ""
    kind = "async " if inspect.iscoroutinefunction(of) else kind
    return f"```python\n{kind}{signature(called, of)}\n```\n\n{docstring(of)}\n"


class AsWritten:
    """A value as it stands in the source."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def written(value: Any) -> Any:  # noqa: ANN401 - An annotation or a default, of any type.
    """An annotation of text without its quotes, and a member of an enum by its name."""
    if isinstance(value, Enum):
        return AsWritten(f"{type(value).__name__}.{value.name}")
    return AsWritten(value) if isinstance(value, str) else value


def signature(called: str, of: object) -> str:
    """How `called` is called; a line for each parameter if it is long."""
    try:
        found = inspect.signature(of)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return called
    given = [
        one.replace(
            annotation=written(one.annotation),
            # A text is a default with its quotes.
            default=one.default if isinstance(one.default, str) else written(one.default),
        )
        for one in found.parameters.values()
        if one.name not in {"self", "cls"}
    ]
    gives = found.empty if inspect.isclass(of) else written(found.return_annotation)
    text = f"{called}{found.replace(parameters=given, return_annotation=gives)}"
    if len(text) <= LINE:
        return text
    lines, keyword = [], inspect.Parameter.KEYWORD_ONLY
    for before, one in zip([None, *given], given, strict=False):
        is_first = one.kind is keyword and (before is None or before.kind is not keyword)
        if is_first and (before is None or before.kind is not inspect.Parameter.VAR_POSITIONAL):
            lines.append("*")
        lines.append(str(one))
    after = "" if gives is found.empty else f" -> {inspect.formatannotation(gives)}"
    return f"{called}(\n" + "".join(f"    {one},\n" for one in lines) + f"){after}"


def docstring(of: object) -> str:
    """A docstring as Markdown: its lists of arguments and errors become lists."""
    lines = []
    for block in inspect.cleandoc(of.__doc__ or "").split("\n\n"):
        head, _, rest = block.partition("\n")
        if head not in {"Args:", "Raises:", "Returns:", "Yields:"}:
            lines.append(block)
            continue
        items = re.sub(r"\n\s{8,}", " ", rest)
        named = re.sub(r"^ {4}([\w*]+): ", r"- `\1`: ", items, flags=re.MULTILINE)
        lines.append(f"{head[:-1]}:\n\n{inspect.cleandoc(named)}")
    return "\n\n".join(lines)


def linked(app: Sphinx, name: str, link: re.Match[str]) -> str:
    """The link, or its text alone if it leads to what is only in the repository."""
    target = ((ROOT / name).parent / link[2]).resolve()
    page = target / "README.md" if target.is_dir() else target
    if page.suffix != ".md" or not target.exists():
        return link[0]
    if page.relative_to(ROOT).with_suffix("").as_posix() not in app.env.found_docs:
        return link[1][1:-1]
    return f"{link[1]}({Path(link[2]) / 'README.md' if target.is_dir() else link[2]})"


def share(_: Sphinx, name: str, __: str, context: dict[str, Any], ___: object) -> None:
    """Make the navigation of the decisions once: they are beside each other, and not in it."""
    make = context.get("toctree")
    if name.startswith("docs/adr/") and make is not None:

        def shared(**asked: object) -> object:
            key = str(sorted(asked.items()))
            if key not in SHARED:
                SHARED[key] = make(**asked)
            return SHARED[key]

        context["toctree"] = shared


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
    app.add_search_language(English)
    app.connect("source-read", prepare)
    app.connect("env-get-outdated", lambda *_: [root_doc])  # The navigation is another file.
    app.connect("html-page-context", share, priority=400)  # Before the theme's own.
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
