"""`tierledger status`: whether a service runs on a store, and what it serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import typer

from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import ClusterOption, JsonOption, StoreOption
from tierledger.cli.output import print_json, print_pairs, print_table, time_text

if TYPE_CHECKING:
    from tierledger.actors.service_record import ServiceRecord


def status_command(
    store: StoreOption = None, cluster: ClusterOption = None, json: JsonOption = False
) -> None:
    """Show the service on a store: where it is, its hosts, what they lead and follow.

    Exit status 1: no service runs there.
    """
    log_to_stderr()
    if not asyncio.run(_status(StoreOptions(store, cluster), json=json)):
        raise typer.Exit(1)


async def _status(options: StoreOptions, *, json: bool) -> bool:
    from tierledger.actors.service_record import read_record
    from tierledger.cli.service_settings import service_settings

    settings = await service_settings(options)
    record = await read_record(settings)
    if record is None or not record.is_live:
        said = {"cluster": settings.cluster_id, "service": "none runs on this store"}
        if json:
            print_json({"cluster": settings.cluster_id, "service": None})
        else:
            print_pairs(said.items())
        return False

    from tierledger.actors.ray_service import connect

    connection = await connect(settings)
    status = await connection.coordinator.status()
    hosts = {name: await connection.host(name).ping() for name in sorted(status["hosts"])}
    partitions = [
        {"host": name, **one}
        for name in hosts
        for one in await connection.host(name).partitions()
    ]
    if json:
        print_json(
            {"service": record._asdict(), **status, "hosts": hosts, "served": partitions}
        )
    else:
        _print(settings.cluster_id, record, status, hosts, partitions)
    return True


def _print(
    cluster_id: str,
    record: ServiceRecord,
    status: dict[str, Any],
    hosts: dict[str, dict[str, Any]],
    partitions: list[dict[str, Any]],
) -> None:
    print_pairs(
        [
            ("cluster", cluster_id),
            ("service", f"{record.address}, pid {record.pid}"),
            ("since", time_text(record.started_ms)),
            ("partitions known", status["partitions"]),
            ("brokers", len(status["brokers"])),
        ]
    )
    print_table(
        ["host", "pid", "leaders", "followers", "commits", "batches", "alarms"],
        [
            [
                name,
                said["pid"],
                said["leaders"],
                said["followers"],
                said["commits"],
                said["batches"],
                sum(said["alarms"].values()),
            ]
            for name, said in hosts.items()
        ],
    )
    if partitions:
        print_table(
            ["topic", "partition", "role", "phase", "position", "led by", "session", "host"],
            [_row(one) for one in sorted(partitions, key=_order)],
        )


def _order(one: dict[str, Any]) -> tuple[str, int, str]:
    return one["topic"], one["partition"], one["role"]


def _row(one: dict[str, Any]) -> list[object]:
    session = one["session"] or {}
    led_by = session.get("broker_id") if session.get("is_open") else None
    return [
        one["topic"],
        one["partition"],
        one["role"],
        one["phase"],
        one["position"],
        "nobody" if led_by is None else f"broker {led_by}",
        session.get("number"),
        one["host"],
    ]


def register(app: typer.Typer) -> None:
    """Add `tierledger status`."""
    app.command("status")(status_command)
