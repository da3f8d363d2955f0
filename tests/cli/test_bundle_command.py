"""`tierledger bundle`: all that an incident needs is in it, and no secret."""

import json
import sys
import zipfile
from pathlib import Path

import pytest

from tests.models.cli.command_line import invoke, orders, write
from tierledger.cli.commands import bundle
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.redaction import REMOVED, Redaction

KEY = "-----BEGIN PRIVATE KEY-----\nMIGHAgEA\nqhkjOPQ\n-----END PRIVATE KEY-----"


def contents(file: Path) -> dict[str, str]:
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        return {one: archive.read(one).decode() for one in archive.namelist()}


def test_a_bundle_has_what_commands_print_and_the_logs_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "ledger.sqlite", orders)
    token, properties, logs = tmp_path / "token", tmp_path / "kafka.properties", tmp_path / "s"
    token.write_text("token-of-a-reader-1\n")
    (tmp_path / "key.pem").write_text(KEY)
    monkeypatch.setenv("TIERLEDGER_KEY", str(tmp_path / "key.pem"))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")  # These are no secrets, and no words go.
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    monkeypatch.setenv("PGPASSWORD", 'with "quotes" 1')
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ledger\n"
        "sasl.password=of-kafka-1\n"
    )
    monkeypatch.setenv("TIERLEDGER_TOKEN", str(token))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of/the+bucket=1")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of-ray-1")
    secrets = ["token-of-a-reader-1", "of-kafka-1", "of/the+bucket=1", "of-ray-1"]
    quoted = ['with "quotes" 1', r"with \"quotes\" 1", "of%2Fthe%2Bbucket%3D1"]
    (logs / "logs").mkdir(parents=True)
    told = [
        f"a PRIVATE token {one}"
        for one in (*secrets, *quoted, "postgresql://u:unknown-1@db/x", KEY)
    ]
    (logs / "logs" / "worker-1-2.err").write_text("\n".join([*told, "the end"]))
    out = tmp_path / "incident.zip"

    result = invoke(
        "bundle", out, "--store", f"sqlite:{tmp_path / 'ledger.sqlite'}", "--ray-logs", logs,
        "--kafka", "127.0.0.1:1", "--kafka-config", properties, "--topic", "orders",
        "--partition", 1,
    )  # fmt: skip

    assert result.exit_code == ExitStatus.WELL, result.stderr
    found = contents(out)
    index = {one["part"]: one["exit_status"] for one in json.loads(found["index.json"])}
    assert {index[one] for one in ("partitions", "segments", "log", "trash")} == {0}
    for name, text in found.items():
        lines = text.splitlines() if name.endswith(".jsonl") else []
        assert all(json.loads(line) for line in lines), name
    assert len(found["log.jsonl"].splitlines()) > 40
    assert "doctor.jsonl" in found
    assert "tierledger" in json.loads(found["versions.json"])["packages"]
    assert found["ray/worker-1-2.err"].endswith("\nthe end")
    assert f"postgresql://u:{REMOVED}@db/x" in found["ray/worker-1-2.err"]
    assert found["ray/worker-1-2.err"].count("a PRIVATE token ") == len(told)
    for secret in (*secrets, *quoted, "unknown-1", "MIGHAgEA"):
        assert secret not in "".join(found.values()), secret
    again = invoke("bundle", out, "--store", f"sqlite:{tmp_path / 'ledger.sqlite'}")
    assert again.exit_code == ExitStatus.USAGE


def test_a_part_that_hangs_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = "import sys, time; print('{}', flush=True); 'status' in sys.argv and time.sleep(60)"
    monkeypatch.setattr(bundle, "PROGRAM", (sys.executable, "-c", hangs))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    out = tmp_path / "incident.zip"

    result = invoke("bundle", out, "--store", "tierledger://127.0.0.1:1", "--timeout", "1s")

    assert result.exit_code == ExitStatus.WELL
    assert "status: no end within 1 s" in result.stderr
    found = contents(out)
    index = [(one["part"], one["exit_status"]) for one in json.loads(found["index.json"])]
    assert index == [("doctor", 0), ("status", None)]
    assert found["status.jsonl"] == "{}\n"


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("x postgresql://ledger:abc@db/x y", f"x postgresql://ledger:{REMOVED}@db/x y"),
        ("metadata: Bearer abc.d-e", f"metadata: Bearer {REMOVED}"),
        (f"a {KEY} b", f"a {REMOVED} b"),
        ("-----BEGIN EC PRIVATE KEY-----\nMIGH", REMOVED),
        ("id AKIAABCDEFGHIJKLMNOP.", f"id {REMOVED}."),
        ("?X-Amz-Signature=ab12&x=1", f"?X-Amz-Signature={REMOVED}&x=1"),
        ('{"sasl.password": "a b", "n": 1}', f'{{"sasl.password": "{REMOVED}", "n": 1}}'),
        ('password="a b" next', f"password={REMOVED} next"),
        ("client_secret=abc, next", f"client_secret={REMOVED}, next"),
        ("this a known one", f"this {REMOVED} one"),
        ("s3://bucket/prefix at 10:20:30, 5 tokens: 7", None),
        ('{"token_count": 5, "tokens": 3}', None),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, without: str | None) -> None:
    assert Redaction(["a known", "of"]).without_secrets(text) == (without or text)
