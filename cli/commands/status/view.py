"""A service's status as text for people: problems come first, on one screen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.cli.brokers import broker_cell, broker_text
from tierledger.cli.output import note_line, print_pairs
from tierledger.cli.table import (
    Cell,
    PrintedTable,
    id_cell,
    print_table,
    size_cell,
    state_cell,
    styled_table,
    time_cell,
    whole_text,
)
from tierledger.events.lifecycle import DeletionCause
from tierledger.events.typed_fields import time_text
from tierledger.events.vocabulary import WORDS
from tierledger.health.troubles import Trouble, by_code, troubles_of
from tierledger.pages.texts import span_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import RenderableType

    from tierledger.health.left import LeftPartition
    from tierledger.health.status import (
        HostStatus,
        PartitionStatus,
        ServedStatus,
        ServiceStatus,
    )

HOST_SPARE = ("batches/commit", "commits", "listens", "fed", "heard", "node", "process")
PLUGIN_SPARE = ("compared", "writes", "heard")
PARTITION_SPARE = ("followers", "session", "disputes", "position")
HOLD_SPARE = ("since", "last refused", "by", "refused", "until", "times")
LEFT_SPARE = ("id",)
LEFT_DO = "no broker hosts it: tierledger forget removes them"
FOREIGN_SPARE = ("topic id", "state")

TROUBLE_SPARE = ("since", "severity")

NODE_SHOWN = 8
"""Shown digits of a node's id, enough to tell it from others; JSON has all 56."""


class ServiceIdentity(NamedTuple):
    """Which service the status is of."""

    cluster: str
    store: str | None = None
    """The store without a password. It and the next fields are none if doors were given."""
    address: str | None = None
    pid: int | None = None
    since_ms: int | None = None
    metrics: str | None = None
    """The address of the service's metrics; none if it serves none."""
    doors: str | None = None
    """The doors that were given."""


class Screen(NamedTuple):
    """The content of the screen, from top to bottom."""

    pairs: list[tuple[str, object]]
    tables: list[PrintedTable]
    remark: str | None = None


def page_of(
    identity: ServiceIdentity,
    status: ServiceStatus,
    limit: int | None,
    left: Sequence[LeftPartition] = (),
) -> Screen:
    """The page about a service, with at most `limit` partitions.

    `left`: partitions with segments that no broker hosts.
    """
    shown = status.partitions[:limit]
    brokers = [_broker_row(broker, report) for broker, report in status.brokers.items()]
    troubles = troubles_of(status)
    plugins = [] if status.coordinator is None else _plugin_rows(status.coordinator)
    tables = [
        PrintedTable.of(_trouble_rows(troubles), TROUBLE_SPARE),
        PrintedTable.of([_host_row(one) for one in status.hosts], HOST_SPARE),
        PrintedTable.of([_partition_row(one) for one in shown], PARTITION_SPARE),
        PrintedTable.of(brokers[:limit]),
        PrintedTable.of(plugins[:limit], PLUGIN_SPARE),
        holds_table(status),
        PrintedTable.of([_left_row(one) for one in left[:limit]], LEFT_SPARE),
        PrintedTable.of(_foreign_rows(status.coordinator)[:limit], FOREIGN_SPARE),
    ]
    more = len(status.partitions) - len(shown)
    remark = f"{more} more partitions, none of them worse; --all shows them" if more else None
    pairs = [*_identity_pairs(identity), *_total_pairs(status, troubles)]
    return Screen(pairs, [_without_empty(one) for one in tables if one.rows], remark)


def holds_table(status: ServiceStatus) -> PrintedTable:
    """The holds that operators have placed."""
    rows: list[dict[str, object]] = [
        {
            "hold": one["name"],
            "topic": one["topic"]
            if one["topic_id"] is None
            else f"{one['topic']} ({one['topic_id']})",
            "partition": one["partition"],
            "offsets": _range_text(one["first_offset"], one["last_offset"], str),
            "times": _in_lengths(_times_text, one),
            "until": _in_lengths(_until_text, one),
            "by": one["by"],
            "since": time_cell(one["since_ms"]),
            "refused": one["refused"] or None,
            "last refused": one["refused_last"],
            "reason": one["reason"],
        }
        for one in status.holds()
    ]
    return _without_empty(PrintedTable.of(rows, HOLD_SPARE))


def plugins_table(status: ServiceStatus) -> PrintedTable:
    """The brokers' plugins, those in trouble first."""
    rows = [] if status.coordinator is None else _plugin_rows(status.coordinator)
    return _without_empty(PrintedTable.of(rows, PLUGIN_SPARE))


def _in_lengths(
    text_of: Callable[[Mapping[str, Any], Callable[[int], str]], str | None],
    hold: Mapping[str, Any],
) -> Cell | None:
    """A text about a hold whose times are whole, for people, and brief."""

    def of(time_ms: int) -> Cell:
        cell = time_cell(time_ms)
        assert cell is not None, "a time was given"
        return cell

    whole = text_of(hold, time_text)
    if whole is None:
        return None
    shown = text_of(hold, lambda ms: of(ms).shown)
    brief = text_of(hold, lambda ms: of(ms).brief)
    return Cell(whole, shown or whole, brief or whole)


def _times_text(hold: Mapping[str, Any], at: Callable[[int], str]) -> str | None:
    return _range_text(hold["after_ms"], hold["before_ms"], at)


def _until_text(hold: Mapping[str, Any], at: Callable[[int], str]) -> str | None:
    texts = []
    if hold.get("term_ms") is not None:  # An older service tells none.
        cause = DeletionCause(hold["cause"])
        by = "" if cause is DeletionCause.UNKNOWN else f" by {cause.name.lower()}"
        texts.append(f"{span_text(hold['term_ms'])} after a deletion{by}")
    if hold["until_ms"] is not None:
        texts.append(at(hold["until_ms"]) + (", over" if hold["is_over"] else ""))
    return "; ".join(texts) or None


def _range_text(low: int | None, high: int | None, text: Callable[[int], str]) -> str | None:
    if low is None and high is None:
        return None
    return f"{'' if low is None else text(low)}-{'' if high is None else text(high)}"


def _left_row(left: LeftPartition) -> dict[str, object]:
    return {
        "left of": left.topic,
        "id": id_cell(left.topic_id),
        "partition": left.partition,
        "segments": left.segments,
        "bytes": size_cell(left.bytes),
        "what to do": LEFT_DO,
    }


def _foreign_rows(known: Mapping[str, Any] | None) -> list[dict[str, object]]:
    """Segments that a broker without the plugin has tiered, and tierledger does not know."""
    return [
        {
            "tiered by others": one["topic"],
            "topic id": id_cell(one["topic_id"]),
            "partition": one["partition"],
            "segment": id_cell(one["id"]),
            "offsets": f"{one['start_offset']}-{one['end_offset']}",
            "bytes": size_cell(one["bytes"]),
            "state": state_cell(one["state"]),
        }
        for one in ((known or {}).get("kafka") or {}).get("foreign_segments", ())
    ]


def _without_empty(table: PrintedTable) -> PrintedTable:
    """A table without the columns that are empty in every row: room is scarce."""
    columns, rows, spare = table
    kept = [at for at in range(len(columns)) if any(row[at] is not None for row in rows)]
    return PrintedTable(
        [columns[at] for at in kept], [tuple(row[at] for at in kept) for row in rows], spare
    )


def print_page(page: Screen, *, wide: bool = False) -> None:
    print_pairs(page.pairs)
    for table in page.tables:
        print_table(table, wide=wide)
    if page.remark is not None:
        print(page.remark)


def rendered(page: Screen, footer: str, width: int, *, wide: bool = False) -> RenderableType:
    """A page for a live display of that width, with notes of what was left out."""
    from rich.console import Group
    from rich.text import Text

    from tierledger.cli.output import escaped

    shown = [(name, value) for name, value in page.pairs if value is not None]
    named = max(len(name) for name, _ in shown)
    head = [Text(f"{name:<{named}}  {escaped(str(value))}") for name, value in shown]
    notes: list[str] = []
    tables = [
        whole_text(one) if wide else styled_table(one, width, notes.append)
        for one in page.tables
    ]
    feet = [
        Text(one) for one in (*map(note_line, notes), page.remark, footer) if one is not None
    ]
    return Group(*head, *tables, *feet)


def _identity_pairs(identity: ServiceIdentity) -> list[tuple[str, object]]:
    named = [("cluster", identity.cluster), ("store", identity.store)]
    if identity.doors is not None:
        return [*named, ("service", identity.doors)]
    assert identity.since_ms is not None, "its record says it"
    return [
        *named,
        ("service", f"on the Ray cluster at {identity.address}, pid {identity.pid}"),
        ("since", time_text(identity.since_ms)),
        ("metrics", identity.metrics),
    ]


def _total_pairs(status: ServiceStatus, troubles: list[Trouble]) -> list[tuple[str, object]]:
    totals = status.totals()
    counts = Counter(one.code for one in troubles if WORDS[one.severity].is_finding)
    bad = ", ".join(f"{code} {count}" for code, count in counts.items())
    not_well = ("not well", bad or "nothing")
    if status.coordinator is None:
        return [("coordinator", "does not answer; nobody else knows the hosts"), not_well]
    served = (
        f"{totals['partitions_known']} known, {totals['partitions_led']} led, "
        f"{totals['sessions_open']} with an open session"
    )
    behind = f"{totals['followers']}, at most {totals['lag_events_max']} events behind"
    return [
        ("coordinator", _coordinator_text(status.coordinator)),
        ("Ray nodes", _nodes_text(status.coordinator["nodes"])),
        ("owner", _owner_text(status.coordinator)),
        ("kafka's topic", _following_text(status.coordinator["kafka"])),
        ("partitions", served),
        ("followers", behind),
        ("disputes", totals["disputes"] or None),
        not_well,
    ]


def _trouble_rows(troubles: list[Trouble]) -> list[dict[str, object]]:
    """One row for each code, with what the first trouble says."""
    return [
        {
            "not well": one.code,
            "severity": state_cell(str(one.severity)),
            "of": one.subjects,
            "since": time_cell(one.since_ms),
            "what": one.text,
            "do": one.action,
        }
        for one in by_code(troubles)
    ]


def _host_row(one: HostStatus) -> dict[str, object]:
    ratio = one.batches_per_commit
    alarms = ", ".join(f"{kind} {count}" for kind, count in sorted(one.alarms.items()))
    heard = None if one.heard_ms_ago is None else f"{one.heard_ms_ago / 1000:.1f} s ago"
    return {
        "host": one.name,
        "process": f"pid {one.pid}" if one.is_up else f"silent: {one.silence}",
        "listens": one.door,
        "node": None if one.node is None else one.node[:NODE_SHOWN],
        "leaders": _count_on(one, "leaders"),
        "followers": _count_on(one, "followers"),
        "commits": one.commits,
        "batches/commit": None if ratio is None else f"{ratio:.1f}",
        "fed": _fed(one),
        "alarms": alarms or None,
        "heard": heard,
    }


def _fed(one: HostStatus) -> str | None:
    """How many replicas a host feeds, and any trouble with them."""
    counts = one.feeds
    if not counts.get("replicas"):
        return None
    counted = {
        "snapshots": counts["snapshots"] + counts["snapshots_waiting"],
        "events behind": counts["lag_events_max"],
        "overtaken": counts["overtaken"],
    }
    more = [f"{count} {what}" for what, count in counted.items() if count]
    return ", ".join([str(counts["replicas"]), *more])


def _count_on(one: HostStatus, role: str) -> object:
    """How many leaders or followers run on a host; of a silent host, how many should."""
    running: int | None = getattr(one, role)
    if running is None and one.placed is not None:
        return f"({one.placed[role]})"
    return running


def _broker_row(broker: int, report: dict[str, Any]) -> dict[str, object]:
    announced = report["announced"]
    last = None if announced is None else f"{announced[0]}/{announced[1]}"
    return {
        "broker": broker_cell(broker),
        "incarnation": report["incarnation"],
        "last announcement": last,
    }


def _coordinator_text(status: dict[str, Any]) -> str:
    on = "" if status["node"] is None else f", on node {status['node'][:NODE_SHOWN]}"
    return f"at position {status['position']}{on}"


def _nodes_text(nodes: Mapping[str, Any] | None) -> str | None:
    """How many nodes of the Ray cluster live, if it has or should have several."""
    if nodes is None or max(nodes["expected"], len(nodes["alive"])) == 1:
        return None
    alive, expected = len(nodes["alive"]), nodes["expected"]
    return f"{alive} alive" if alive >= expected else f"{alive} alive, expected {expected}"


def _owner_text(status: dict[str, Any]) -> str:
    """The owner of the cluster's metadata, and the owner epoch."""
    moves = f" from {status['source']} to {status['heading']}" if status["heading"] else ""
    epoch = f", owner epoch {status['owner_epoch']}" if status["owner_epoch"] else ""
    return f"{status['owner']}{moves}{epoch}"


def _following_text(report: Mapping[str, Any] | None) -> str | None:
    """What `serve --kafka` does with the metadata topic, and its trouble."""
    if report is None:
        return None
    trouble = "" if not report["trouble"] else f": {report['trouble']}"
    ago = report["heard_ms_ago"] / 1000
    return f"{report['task']}, round {report['round']}, {ago:.1f} s ago{trouble}"


def _plugin_rows(status: dict[str, Any]) -> list[dict[str, object]]:
    """The state of the brokers' plugins, those in trouble first."""
    compared = {one["broker_id"]: one for one in status["shadows"]}
    rows = sorted(status["attending"], key=lambda one: (not one["trouble"], one["broker_id"]))
    return [
        {
            "plugin of": one["broker_id"],
            "mode": one["mode"],
            "owner epoch": one["owner_epoch"] or "none",
            "guard": _GUARDS[one.get("is_guarded")],
            "writes": "none" if one["is_idle"] else None,
            "heard": f"{one['heard_ms_ago'] / 1000:.1f} s ago",
            "trouble": one["trouble"],
            "compared": _compared_text(compared.get(one["broker_id"])),
        }
        for one in rows
    ]


_GUARDS = {True: "yes", False: "no", None: None}
"""Whether a broker's storage manager is guarded; an older plugin does not say."""

_COMPARED = ("equal", "recovered", "different", "resolved", "standing", "skipped")


def _compared_text(shadow: Mapping[str, Any] | None) -> str | None:
    """What a broker in shadow has compared."""
    if shadow is None:
        return None
    counts = [f"{shadow[name]} {name}" for name in _COMPARED]
    return f"{_verified_text(shadow)}: {', '.join(counts)}"


def _verified_text(shadow: Mapping[str, Any]) -> str:
    """How far the answers of a broker in shadow are verified, and since when."""
    match shadow["verification"]:
        case None:
            return "an older plugin"
        case "never":
            return "never verified"
        case "differs":
            return f"{shadow['standing']} differ"
        case state:
            ago = f"{shadow['verified_ms_ago'] // 60_000} min ago"
            return f"{state} {ago} over {shadow['verified']} answers"


def _partition_row(one: PartitionStatus) -> dict[str, object]:
    leader = one.leader
    reasons = [served.reason for served in (leader, *one.followers) if served and served.reason]
    trouble = one.trouble
    if trouble is not None and reasons:
        trouble = f"{trouble}: {reasons[0]}"
    followers = "; ".join(_follower_text(follower) for follower in one.followers)
    return {
        "topic": one.topic,
        "partition": one.partition,
        "trouble": trouble,
        "leader": one.placed_on if leader is None else f"{leader.host}, {leader.phase}",
        "position": one.position,
        "session": _session_text(one.session),
        "followers": followers or None,
        "disputes": _dispute_text(one),
    }


def _session_text(session: Mapping[str, Any] | None) -> str | None:
    """A session's number, broker, incarnation/announcement, and leader epoch if known."""
    if session is None:
        return None
    claim = f"{session['incarnation']}/{session['announcement']}"
    epoch = session["leader_epoch"]
    known = "" if epoch is None else f", epoch {epoch}"
    closed = "" if session["is_open"] else ", closed"
    broker = broker_text(session["broker_id"])
    return f"{session['number']}: {broker}, {claim}{known}{closed}"


def _follower_text(one: ServedStatus) -> str:
    behind = "" if not one.lag_events else f", {one.lag_events} behind"
    return f"{one.host} at {one.position}{behind}"


def _dispute_text(one: PartitionStatus) -> str | None:
    if not one.disputes:
        return None
    last = "" if one.last_dispute_ms is None else f", last {time_text(one.last_dispute_ms)}"
    return f"{one.disputes}{last}"
