"""What each command's help shows at its end: the command as one would type it."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup
from typing_extensions import override

EXAMPLES: dict[str, tuple[str, ...]] = {
    "serve": (
        "tierledger serve --store sqlite:ledger.sqlite --cluster my-cluster",
        "tierledger serve --kafka broker-1:9092 --store postgresql://ledger@db/ledger",
    ),
    "handover": (
        "tierledger handover --fresh --kafka broker-1:9092",
        "tierledger handover --to tierledger --kafka broker-1:9092",
    ),
    "backup make": ("tierledger backup make BACKUPS --store sqlite:ledger.sqlite",),
    "backup ls": ("tierledger backup ls BACKUPS",),
    "backup verify": ("tierledger backup verify BACKUPS",),
    "backup prune": (
        "tierledger backup prune BACKUPS --keep-hourly 48 --keep-daily 30 --dry-run",
        "tierledger backup prune BACKUPS --keep-hourly 48 --keep-daily 30",
    ),
    "backup restore": (
        "tierledger backup restore BACKUPS --store sqlite:restored.sqlite",
        "tierledger backup restore BACKUPS --as-of 1d --store sqlite:yesterday.sqlite",
    ),
    "storage copy": (
        "tierledger storage copy sqlite:ledger.sqlite postgresql://HOST/DATABASE",
    ),
    "storage reopen": ("tierledger storage reopen --store sqlite:ledger.sqlite",),
    "hold add": (
        "tierledger hold add audit --topic 'orders-*' --reason 'the audit'",
        "tierledger hold add case-7 --topic payments --offsets 11-48 --reason law",
        "tierledger hold add week --topic '*' --term 7d --reason undo",
    ),
    "hold ls": ("tierledger hold ls", "tierledger hold ls --json"),
    "hold release": ("tierledger hold release audit --reason 'it is done'",),
    "trash ls": ("tierledger trash ls", "tierledger trash ls --topic orders --json"),
    "trash show": ("tierledger trash show orders 0",),
    "trash release": ("tierledger trash release orders --reason 'it was DeleteRecords'",),
    "trash purge": (
        "tierledger trash purge --tier s3://BUCKET/PREFIX --dry-run",
        "tierledger trash purge old-topic --tier s3://BUCKET/PREFIX --yes",
    ),
    "clean plan": (
        "tierledger clean plan --tier s3://BUCKET/PREFIX --out clean.plan",
        "tierledger clean plan --tier s3://BUCKET/PREFIX --kind orphan --json",
    ),
    "clean apply": ("tierledger clean apply clean.plan --tier s3://BUCKET/PREFIX --yes",),
    "clean undo": ("tierledger clean undo clean.plan --tier s3://BUCKET/PREFIX",),
    "console": (
        "tierledger console",
        "tierledger console --store sqlite:ledger.sqlite --listen 127.0.0.1:8712",
    ),
    "status": (
        "tierledger status",
        "tierledger status --watch --topic orders",
        "tierledger status --store tierledger://127.0.0.1:4711 --cluster my-cluster",
    ),
    "restart": (
        "tierledger restart",
        "tierledger restart --host host-1 --json",
        "tierledger restart --node 6e98df2e",
    ),
    "doctor": (
        "tierledger doctor --store sqlite:ledger.sqlite",
        "tierledger doctor --tier s3://BUCKET/PREFIX --kafka broker-1:9092 --json",
    ),
    "bundle": ("tierledger bundle incident.zip --topic orders --partition 0",),
    "metrics alerts": (
        "tierledger metrics alerts",
        "tierledger metrics alerts --runbook https://wiki/runbook.md",
    ),
    "metrics dashboard": ("tierledger metrics dashboard",),
    "ls": ("tierledger ls", "tierledger ls --as-of 2h --json"),
    "describe": ("tierledger describe orders", "tierledger describe orders 0 --as-of 1d"),
    "segments": (
        "tierledger segments orders 0",
        "tierledger segments orders 0 --epoch 3 --from leader",
    ),
    "lookup": ("tierledger lookup orders 0 3 4711",),
    "log": ("tierledger log orders 0 --start 100 --limit 20",),
    "cat": (
        "tierledger cat orders 0 --tier s3://BUCKET/PREFIX --from-timestamp 90m",
        "tierledger cat orders 0 --tier local-tiered:/tier --from-offset 4711",
    ),
    "sql": (
        "tierledger sql 'select topic, sum(size_in_bytes) from segments group by 1'",
        "tierledger sql 'from segments' --as-of 1d --out yesterday.parquet",
    ),
    "verify": ("tierledger verify", "tierledger verify orders 0 --json"),
    "scrub": ("tierledger scrub --tier s3://BUCKET/PREFIX --rate 50MiB/s --resume progress",),
    "export": ("tierledger export records.jsonl.gz", "tierledger export -"),
    "forget": (
        "tierledger forget old-topic 0 --dry-run",
        "tierledger forget old-topic 0 --tier s3://BUCKET/PREFIX --yes",
    ),
    "undelete": (
        "tierledger undelete orders --to back --tier s3://B/TIER --kafka broker:9092",
    ),
    "replay": ("tierledger replay RECORDING --store memory: --check --from all",),
    "check": ("tierledger check history.jsonl",),
    "tables events": ("tierledger tables events --out events --topic orders --partition 0",),
    "tables trash": ("tierledger tables trash --out trash --format csv",),
    "tables segments": (
        "tierledger tables segments --out segments --format csv",
        "tierledger tables segments --out yesterday --as-of 1d",
    ),
    "tables epochs": ("tierledger tables epochs --out epochs",),
    "tables sizes": ("tierledger tables sizes --out sizes --format json",),
    "tables transitions": ("tierledger tables transitions --out transitions",),
    "tables anomalies": ("tierledger tables anomalies --out anomalies --format csv",),
    "columns write": (
        "tierledger columns write",
        "tierledger columns write --columns s3://BUCKET/columns --follow --every 5m",
    ),
    "columns ls": ("tierledger columns ls",),
    "columns drop": ("tierledger columns drop",),
    "jobs import": (
        "tierledger jobs import kafka:broker-1:9092 --store sqlite:ledger.sqlite",
        "tierledger jobs import records.jsonl.gz --cluster my-cluster",
    ),
    "jobs costs": (
        "tierledger jobs costs --prices prices.toml",
        "tierledger jobs costs --prices prices.toml --labels labels.toml --by owner",
    ),
    "jobs coverage": ("tierledger jobs coverage --page coverage.html",),
    "jobs audit": ("tierledger jobs audit --tier s3://BUCKET/PREFIX --page audit.html",),
    "jobs stuck": ("tierledger jobs stuck --older-than 2h --json",),
    "jobs retention": (
        "tierledger jobs retention --what-if retention.ms=7d --until +30d",
        "tierledger jobs retention --what-if retention.ms=7d --prices prices.toml",
    ),
    "simulate run": (
        "tierledger simulate run --seeds 0:1000",
        "tierledger simulate run --minutes 10 --world service",
    ),
    "simulate replay": (
        "tierledger simulate replay --seed 42 --trace trace.txt",
        "tierledger simulate replay --seed 263 --mutant M05 --world service",
    ),
    "simulate explain": ("tierledger simulate explain --seed 42 --out run.html",),
    "simulate mutants": ("tierledger simulate mutants --only M01",),
    "simulate slips": ("tierledger simulate slips --only S05",),
    "simulate coverage": ("tierledger simulate coverage --seeds 0:300",),
    "simulate live": (
        "tierledger simulate live --minutes 5 --hosts 3 --history history.jsonl",
    ),
}
"""Examples by the command's name, with its group's name before it."""

_EXAMPLES_BY_FORMER_NAME = {
    f"spark {name.partition(' ')[2]}": told
    for name, told in EXAMPLES.items()
    if name.startswith(("tables ", "jobs "))
}
"""The same under the former name of two groups."""

SENTENCE_MAX = 1000
"""Characters of a command's first sentence; it is wrapped, not cut to what fits a line."""


class CommandsWithExamples(TyperGroup):
    """Commands whose help ends with examples, and whose list tells whole sentences."""

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        told = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(SENTENCE_MAX)) for name, one in told.items()]
            )

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        name = " ".join((*ctx.command_path.split()[1:], cmd_name))
        known = EXAMPLES.get(name) or _EXAMPLES_BY_FORMER_NAME.get(name)
        if command is not None and known is not None:
            # Click leaves a paragraph alone that begins with this mark.
            command.epilog = "\n".join(("\b", "Examples:", *(f"  {one}" for one in known)))
        return command
