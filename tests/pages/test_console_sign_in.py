"""The console on other addresses: TLS, a session that a token begins, and when that ends."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from time import time
from urllib.parse import urlencode, urlsplit

import pytest
from structlog.testing import capture_logs

from tests.models.actors.secrets import TOKENS, Secrets, line
from tests.models.cli.command_line import orders, refused, run, write
from tests.models.pages.chromium import WAIT_S, Browser
from tests.models.pages.rules import broken, broken_in_the_dark
from tierledger.actors.door.security.renewed import Renewed
from tierledger.actors.door.security.tls import Pair
from tierledger.actors.door.security.tokens import read_list
from tierledger.cli.commands.console import gate
from tierledger.cli.commands.console.gate import Sessions
from tierledger.cli.commands.console.serving import Console, ConsoleSecurity
from tierledger.cli.opened_store import StoreOptions
from tierledger.events.errors import InvalidArgument, NotAuthorized

READER = TOKENS["reader"]
SAME = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    return Secrets(tmp_path_factory.mktemp("console"))


class SecuredConsole:
    """A console with TLS and tokens, and how programs ask it."""

    def __init__(self, console: Console, secrets: Secrets, tokens: Path, pair: Pair) -> None:
        self.console, self.tokens, self.pair = console, tokens, pair
        self._context = ssl.create_default_context(cafile=secrets.authority.certificate)
        self.cookie = ""

    def ask(
        self, path: str, form: dict[str, str] | None = None, **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """The answer to a form, or to a request for `path`, with the cookie that is known."""
        where = urlsplit(self.console.url)
        connection = HTTPSConnection(where.netloc, timeout=WAIT_S, context=self._context)
        given = {"Cookie": self.cookie, **headers}
        try:
            if form is None:
                connection.request("GET", path, headers=given)
            else:
                given |= {"Content-Type": "application/x-www-form-urlencoded"}
                connection.request("POST", path, urlencode(form), given)
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read().decode()
        finally:
            connection.close()

    def sign_in(self, token: str = READER) -> None:
        status, headers, _ = self.ask("/sign-in", {"token": token, "to": "/"}, **SAME)
        assert status == 303
        self.cookie = headers["set-cookie"].partition(";")[0]

    def shown_certificate(self) -> int:
        """The serial number of what a new connection is shown."""
        where = urlsplit(self.console.url)
        connection = HTTPSConnection(where.netloc, timeout=WAIT_S, context=self._context)
        connection.connect()
        try:
            return int(connection.sock.getpeercert()["serialNumber"], 16)  # type: ignore[index, arg-type]
        finally:
            connection.close()


@contextmanager
def guarded(folder: Path, secrets: Secrets) -> Iterator[SecuredConsole]:
    write(folder / "store", orders)
    tokens, files = folder / "tokens", Pair(str(folder / "c.pem"), str(folder / "c.key"))
    tokens.write_text(secrets.tokens.read_text())
    for source, path in zip(secrets.pair, files, strict=True):
        Path(path).write_bytes(source.read_bytes())
    security = ConsoleSecurity(files, str(tokens), "localhost")
    console = Console(
        StoreOptions(f"sqlite:{folder / 'store'}"), "127.0.0.1:0", "--listen", security
    )
    console.start()
    try:
        yield SecuredConsole(console, secrets, tokens, files)
    finally:
        console.close()


@pytest.fixture
def served(tmp_path: Path, made: Secrets) -> Iterator[SecuredConsole]:
    with guarded(tmp_path, made) as found:
        yield found


@pytest.fixture
def opened(served: SecuredConsole, browser: Browser) -> Iterator[Browser]:
    """A browser that believes the tests' authority, at the console."""
    browser.driver.execute_cdp_cmd("Security.setIgnoreCertificateErrors", {"ignore": True})
    browser.driver.get(served.console.url + "partitions?find=orders")
    try:
        yield browser
    finally:
        browser.driver.delete_all_cookies()
        browser.driver.get("about:blank")
        browser.driver.execute_cdp_cmd("Security.setIgnoreCertificateErrors", {"ignore": False})
        browser.complaints()


def sign_in(browser: Browser, token: str = READER) -> None:
    browser.type("#token", token)
    browser.click("form button")


def listed(browser: Browser) -> None:
    browser.wait_for("document.querySelectorAll('#list tbody tr').length === 1")


def test_somebody_signs_in_and_sees_what_was_asked_for(opened: Browser) -> None:
    asked = opened.text("h1")
    told = opened.text("body")
    unfit = [*broken(opened), broken_in_the_dark(opened)]
    with opened.phone():
        unfit += broken(opened)
    sign_in(opened, "a-token-that-nobody-has-given")
    opened.wait_for("document.querySelector('#why')?.textContent.startsWith('this')")
    refusal = opened.text("#why")
    sign_in(opened)
    listed(opened)
    address = opened.run("location.pathname + location.search")
    cookies = opened.driver.get_cookies()
    opened.click("nav form button")
    opened.wait_for("document.querySelector('#token') !== null")

    assert asked == "Sign in"
    assert not any(unfit)
    assert "sqlite" not in told, "the store is named to who is let in"
    assert refusal == "this bearer token is not known here"
    assert address == "/partitions?find=orders"
    (cookie,) = cookies
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    assert READER not in str(cookie)
    assert opened.driver.get_cookies() == []


def test_an_open_page_says_that_its_token_has_expired(
    opened: Browser, served: SecuredConsole
) -> None:
    sign_in(opened)
    listed(opened)
    opened.run("(window.isTheSame = true)")

    served.tokens.write_text(line(READER, "reader", "2026-01-01T00:00:00Z"))

    opened.wait_for("document.querySelector('#line').textContent.startsWith('signed out at')")
    assert "the bearer token of reader has expired. Sign in" in opened.text("#line")
    assert opened.run("window.isTheSame"), "what was shown stays"
    served.tokens.write_text(line(READER, "reader"))
    opened.click("#line a")
    listed(opened)


def test_an_open_page_says_so_if_the_console_was_started_again(
    opened: Browser, served: SecuredConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sessions are gone, and the page's stream has ended without a word about it."""
    sign_in(opened)
    listed(opened)
    monkeypatch.setattr(Sessions, "check", _gone)

    opened.wait_for("document.querySelector('#line').textContent.includes('sign in with')")


def _gone(*_: object) -> None:
    raise NotAuthorized("sign in with a token")


def test_a_link_from_another_site_finds_the_session(
    opened: Browser, served: SecuredConsole
) -> None:
    """The browser does not send the cookie with it, but the page's own script has it."""
    sign_in(opened)
    listed(opened)
    link = f"<a href='{served.console.url}trash'>trash</a>"
    opened.driver.get(f"data:text/html,{link}")

    opened.click("a")

    opened.wait_for("document.querySelector('h1')?.textContent.startsWith('Trash')")


def test_without_a_session_nothing_is_told(served: SecuredConsole) -> None:
    answers = {
        path: served.ask(path) for path in ("/", "/nothing", "/trash", "/live", "/session")
    }
    foreign = served.ask("/sign-in", {"token": READER}, **{"Sec-Fetch-Site": "cross-site"})
    silent = served.ask("/sign-in", {"token": READER})
    served.sign_in()
    status, _, page = served.ask("/")
    rebound = served.ask("/", Host="evil.example")
    elsewhere = served.ask("/sign-in", {"token": READER, "to": "//evil.example"}, **SAME)
    long = served.ask("/sign-in", {"token": "x" * gate.FORM_MAX}, **SAME)

    assert {one[0] for one in answers.values()} == {401}
    assert not [one for one in answers.values() if "sqlite" in one[2]]
    assert answers["/"][1]["cache-control"] == "no-store"
    assert (foreign[0], silent[0], long[0]) == (403, 403, 403)
    assert "set-cookie" not in foreign[1]
    assert (status, "Sign out" in page) == (200, True)
    assert (served.ask("/session")[0], served.ask("/sign-in")[0]) == (204, 303)
    assert rebound[0] == 421
    assert elsewhere[1]["location"] == "/"


def test_a_refusal_is_in_the_log_without_the_token(served: SecuredConsole) -> None:
    with capture_logs() as logs:
        served.ask("/sign-in", {"token": "token-of-somebody-else"}, **SAME)

    (entry,) = logs
    assert (entry["event"], entry["peer"]) == ("nobody was let in", "127.0.0.1")
    assert "somebody-else" not in str(entry)


def test_a_removed_token_ends_its_sessions_and_others_go_on(served: SecuredConsole) -> None:
    served.sign_in()
    reader = served.cookie
    served.sign_in(TOKENS["admin"])

    served.tokens.write_text(line(TOKENS["admin"], "admin"))

    assert served.ask("/")[0] == 200
    served.cookie = reader
    assert served.ask("/session")[::2] == (401, "this bearer token is not known here")


def test_a_new_certificate_is_shown_and_a_wrong_one_is_not_used(
    served: SecuredConsole, made: Secrets
) -> None:
    first = served.shown_certificate()
    for source, path in zip(made.authority.issue("new", "host"), served.pair, strict=True):
        Path(path).write_bytes(source.read_bytes())
    second = served.shown_certificate()
    with capture_logs() as logs:
        Path(served.pair.key).write_text("no key")
        third = served.shown_certificate()

    assert first != second == third
    assert [one["event"] for one in logs] == ["a changed file is not used"]


def test_a_session_ends_with_its_token_or_after_a_while(made: Secrets, tmp_path: Path) -> None:
    now_ms = [int(time() * 1000)]
    tokens = tmp_path / "tokens"
    tokens.write_text(line(READER, "reader"))
    sessions = Sessions(
        Renewed((str(tokens),), lambda: read_list(str(tokens)), pytest.fail), lambda: now_ms[0]
    )
    first = sessions.begin(READER)
    sessions.check(first)
    now_ms[0] += gate.SESSION_MS

    with pytest.raises(NotAuthorized, match="a session lasts 12 hours"):
        sessions.check(first)
    second = sessions.begin(READER)
    for _ in range(gate.SESSIONS_MAX - 1):
        sessions.begin(READER)
    sessions.check(second)
    sessions.begin(READER)
    with pytest.raises(NotAuthorized, match="sign in with a token"):
        sessions.check(second)


@pytest.mark.parametrize(
    ("listen", "named", "message"),
    [
        ("0.0.0.0:0", None, "0.0.0.0 can be reached from other machines: expected encryption"),
        (
            "ledger.example:0",
            None,
            r"expected encryption \(--tls-cert and --tls-key\) and proof",
        ),
        ("0.0.0.0:0", ConsoleSecurity(Pair("", ""), ""), "expected --advertise NAME"),
        ("127.0.0.1:0", ConsoleSecurity(Pair("none", "none"), ""), "none cannot be read"),
    ],
)
def test_what_is_missing_for_other_machines_is_named(
    listen: str, named: ConsoleSecurity | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Console(StoreOptions(f"sqlite:{tmp_path / 's'}"), listen, "--listen", named)


def test_a_service_gives_it_what_its_doors_have(made: Secrets) -> None:
    pair = Pair(*map(str, made.pair))
    tokens = str(made.tokens)

    assert ConsoleSecurity.of_door(made.door(), None) == (pair, tokens, None)
    assert ConsoleSecurity.of_door(made.door(), "a.b:4711") == (pair, tokens, "a.b")
    assert ConsoleSecurity.of_door(made.door(tokens=False, mutual=True), None) is None


def test_the_command_wants_all_of_it_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "c.pem").touch()

    refused(
        run(tmp_path / "s", "console", "--tls-cert", tmp_path / "c.pem"),
        "expected --tls-cert, --tls-key and --tokens",
    )


def test_on_all_interfaces_it_answers_by_the_name_that_browsers_have(
    tmp_path: Path, made: Secrets
) -> None:
    security = ConsoleSecurity(Pair(*map(str, made.pair)), str(made.tokens), "Ledger.example")
    console = Console(
        StoreOptions(f"sqlite:{tmp_path / 's'}"), "0.0.0.0:0", "--listen", security
    )
    console.start()
    try:
        port = urlsplit(console.url).port
        assert console.url == f"https://Ledger.example:{port}/"
        context = ssl.create_default_context(cafile=made.authority.certificate)
        statuses = []
        for name in (f"ledger.example:{port}", "localhost", "evil.example"):
            connection = HTTPSConnection("127.0.0.1", port, timeout=WAIT_S, context=context)
            connection.request("GET", "/", headers={"Host": name})
            statuses.append(connection.getresponse().status)
            connection.close()
    finally:
        console.close()

    assert statuses == [401, 401, 421]
