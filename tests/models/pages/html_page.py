"""A page as a parser reads it; a page that is not well-formed fails the test."""

import json
from html.parser import HTMLParser
from typing import Any

from typing_extensions import override


class HtmlPage(HTMLParser):
    """Elements with their attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def having(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        wanted = {name.replace("_", "-").strip("-"): one for name, one in attributes.items()}
        return [
            found
            for name, found in self.elements
            if name == tag and all(found.get(one) == wanted[one] for one in wanted)
        ]

    def count(self, tag: str, **attributes: str) -> int:
        return len(self.having(tag, **attributes))

    def of(self, tag: str) -> list[str]:
        return [text for found, text in self.texts if found == tag]

    def values(self, tag: str, attribute: str) -> list[str | None]:
        return [found[attribute] for found in self.having(tag) if attribute in found]

    def text(self) -> str:
        return " ".join(text for _, text in self.texts)

    def data(self) -> Any:  # noqa: ANN401 - The JSON of the page's script.
        (text,) = [one for one in self.of("script") if one[0] in "[{"]
        return json.loads(text)

    def assert_harmless(self) -> None:
        """Assert that the page loads nothing, and that only its own scripts can run."""
        loading = {"src", "srcset", "action", "poster", "background", "xlink:href"}
        names = {name for _, found in self.elements for name in found}
        assert not loading & names
        assert not [name for name in names if name.startswith("on")]
        assert not {tag for tag, _ in self.elements} & {
            "img", "link", "iframe", "object", "embed", "base",
        }  # fmt: skip
        assert all(str(link).startswith("#") for link in self.values("a", "href"))
        assert "://" not in self.html
        assert "@import" not in self.html
        (policy,) = self.having("meta", http_equiv="Content-Security-Policy")
        assert str(policy["content"]).startswith("default-src 'none'")
        assert self.html.encode()
        assert not {"\x00", "\x1b", "\u202e"} & set(self.html)
