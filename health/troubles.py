"""The one list of a service's troubles. Pure: made of a `ServiceStatus`.

`tierledger status`, its exit status, its JSON and the metrics all take this list, so none can
be well while another is not. A monitor goes by the code, which stays the same between releases,
and by the severity; the sentences are for people.

To add a trouble: give it a kind in `KINDS`, and find it here from what coordinator and hosts
say, or let the process that knows hold a condition (`actors/conditions.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from tierledger.actors.conditions import (
    CLOCK_JUMPED,
    CLOCK_OFF,
    NO_STEPS,
    NOT_JUDGED,
    STORE_REFUSED,
)
from tierledger.actors.coordinator.attendance import SILENT_MS
from tierledger.actors.coordinator.breaker import BREAKER, BY
from tierledger.actors.coordinator.doors import DOORS_UNREACHABLE, HOST_UNREACHABLE
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.hosts import NOT_STARTED
from tierledger.actors.coordinator.nodes import HEAD_AWAY, HOSTS_CROWDED, NODES_MISSING
from tierledger.events.vocabulary import findings
from tierledger.health.status import (
    BEHIND,
    HOST_SILENT,
    LOADING,
    NO_LEADER,
    NO_SESSION,
    QUARANTINED,
    TROUBLES,
    HostStatus,
    PartitionStatus,
    ServiceStatus,
)
from tierledger.storage.closed_slot import COPIED


class Severity(StrEnum):
    """How soon somebody has to look, the most urgent first."""

    CRITICAL = "critical"
    """Something is not served, or about to cost data: wake somebody if it lasts."""
    WARNING = "warning"
    """All is served, but something failed and does not mend itself: look within the day."""
    NOTE = "note"
    """It passes, or somebody chose it. It does not count for the exit status."""


class TroubleKind(NamedTuple):
    """What all troubles with one code have in common."""

    severity: Severity
    meaning: str
    action: str
    """What an operator does."""


class Trouble(NamedTuple):
    """One thing that is not well."""

    code: str
    severity: Severity
    subject: str
    """`cluster`, `coordinator`, `kafka`, `host NAME`, `broker ID` or `partition TOPIC-N`; what
    an item or a condition is about may follow."""
    since_ms: int | None
    """Since when (ms); None if nobody knows."""
    text: str
    action: str

    def plain(self) -> dict[str, Any]:
        return {**self._asdict(), "severity": str(self.severity)}


_ASK_VERIFY = "run `tierledger verify`, which shows the place, and see the host's log"

NO_SERVICE = "no-service"

KINDS = {
    NO_SERVICE: TroubleKind(
        Severity.CRITICAL,
        "no service runs on the store",
        "start it with `tierledger serve`",
    ),
    HEAD_AWAY: TroubleKind(
        Severity.CRITICAL,
        "the head of the Ray cluster is away: no process is started any more, and a minute "
        "after its loss Ray ends the other nodes, too",
        "start the cluster again, then `serve`, as docs/operations.md has it (The head of the "
        "cluster); the store has everything",
    ),
    "coordinator-silent": TroubleKind(
        Severity.CRITICAL,
        "the coordinator does not answer, and nobody else knows the hosts",
        "see the log of `serve`; if it lasts for more than 15 s, start the service again; if "
        "the head of a Ray cluster of your own is lost, see docs/operations.md",
    ),
    "unplaced": TroubleKind(
        Severity.CRITICAL,
        "leaders or followers of partitions have no host",
        "see the log of `serve` for why no host can be started, or give it more hosts",
    ),
    HOST_SILENT: TroubleKind(
        Severity.CRITICAL,
        "a host does not answer; what is placed there is not served",
        "the coordinator replaces it within seconds; if it does not, see the log of `serve`",
    ),
    NOT_STARTED: TroubleKind(
        Severity.CRITICAL,
        "a host cannot be started",
        "mend what the text names; if it is Ray, start the service again",
    ),
    NODES_MISSING: TroubleKind(
        Severity.WARNING,
        "fewer Ray nodes are alive than the service was started with (`serve --nodes`)",
        "start Ray on the machine that is missing (`ray start --address=…`); if the cluster is "
        "to be smaller, end the service and start it with fewer `--nodes`",
    ),
    HOSTS_CROWDED: TroubleKind(
        Severity.WARNING,
        "the hosts are together on few of the Ray nodes, as after losses: the loss of one node "
        "would take more of them than need be",
        "let each start anew, on the node with the fewest: `tierledger restart`",
    ),
    HOST_UNREACHABLE: TroubleKind(
        Severity.WARNING,
        "a host lives, and clients do not reach its door; what it led has moved to others, as "
        "far as others are reached and have room",
        "see the network, the firewall, what `serve --advertise` names for that host, and "
        "whether the certificate has that name",
    ),
    DOORS_UNREACHABLE: TroubleKind(
        Severity.CRITICAL,
        "the coordinator reaches few of the hosts' doors, so it cannot tell which hosts "
        "clients reach; what they lead stays where it is",
        "see the network between the coordinator's node and the hosts, what `serve "
        "--advertise` names, and whether the certificate has these names",
    ),
    NO_STEPS: TroubleKind(
        Severity.CRITICAL,
        "leaders on a host have made no step for 30 s though callers wait",
        "see whether the store answers; if it does, kill the host's process (its pid is in "
        "`tierledger status --json`): it is replaced",
    ),
    STORE_REFUSED: TroubleKind(
        Severity.CRITICAL,
        "the store takes no writes, such as a file that was replaced while it was open",
        "end the service, put back the store that the text names, and start the service again",
    ),
    "store-older": TroubleKind(
        Severity.CRITICAL,
        "a broker's plugin has seen more than this store has, or another store: that broker "
        "does not read or write what the text names",
        "end the service, put back the newest store, and start the service again; if this one "
        "is right, stop the broker, remove tierledger.positions from its log folder, and start "
        "it again",
    ),
    QUARANTINED: TroubleKind(Severity.CRITICAL, TROUBLES[QUARANTINED], _ASK_VERIFY),
    NO_LEADER: TroubleKind(
        Severity.CRITICAL,
        TROUBLES[NO_LEADER],
        "if it lasts, see the logs of the coordinator and of its host",
    ),
    NO_SESSION: TroubleKind(
        Severity.CRITICAL,
        TROUBLES[NO_SESSION],
        "its broker's writes wait: see whether the store answers, and who claims to lead",
    ),
    BEHIND: TroubleKind(
        Severity.WARNING,
        TROUBLES[BEHIND],
        "if it lasts, the follower's host does not keep up: give it more room",
    ),
    LOADING: TroubleKind(Severity.NOTE, TROUBLES[LOADING], "wait"),
    CLOCK_JUMPED: TroubleKind(
        Severity.WARNING,
        "the clock of a machine jumped ahead; the time in the logs follows only slowly",
        "set the machine's clock right; until then do not end the process, as its successor "
        "believes the clock if most others have that time",
    ),
    CLOCK_OFF: TroubleKind(
        Severity.WARNING,
        "a process's clock differs by more than a minute from the time that most others have, "
        "and it goes by that; of two that differ, the earlier holds",
        "set the clock of that process's machine right",
    ),
    "set-aside": TroubleKind(
        Severity.WARNING,
        "the coordinator has set an item aside that cannot be carried out",
        "mend what the reason names, and restart the broker that announced it",
    ),
    "unknown-condition": TroubleKind(
        Severity.WARNING,
        "a process reports a condition that this release does not know",
        "see that process's log, and use a command of its release",
    ),
    "owner-moving": TroubleKind(
        Severity.NOTE,
        "the metadata moves to another owner, and brokers hold their writes",
        "wait for `tierledger handover` to end",
    ),
    "move-overdue": TroubleKind(
        Severity.CRITICAL,
        "the metadata has been moving for longer than the move may take; brokers hold their "
        "writes all the while",
        "run `tierledger handover --to` the owner from before",
    ),
    "writes-held": TroubleKind(
        Severity.CRITICAL,
        "a broker holds its writes, though the metadata does not move",
        "if nobody owns the metadata yet, run `tierledger handover`; else see the broker's log",
    ),
    "plugin-silent": TroubleKind(
        Severity.CRITICAL,
        "the plugin of a broker has stopped reporting, and the broker is alive as far as "
        "anybody knows",
        "see whether the broker still has the plugin, and reaches the service's doors",
    ),
    "plugin-missing": TroubleKind(
        Severity.CRITICAL,
        "a broker is alive and no plugin of it reports, though tierledger owns the metadata",
        "without the plugin it does not see what others tier, and may delete it: stop the "
        "broker, and start it with the plugin",
    ),
    "deletions-held": TroubleKind(
        Severity.CRITICAL,
        "a broker runs, or ran, without the plugin while tierledger owned the metadata; log "
        "starts may have risen, so brokers may not delete finished segments from the tier",
        "see that all brokers run with the plugin, then what would be deleted: `tierledger "
        "handover --confirm-deletions --dry-run`; without `--dry-run` brokers delete it",
    ),
    BREAKER: TroubleKind(
        Severity.CRITICAL,
        "brokers have deleted too much of the tier, or of a topic, within an hour: nothing "
        "more of it is deleted",
        "see who deletes what: `tierledger log`, and the brokers' logs; if it is all right: "
        "`tierledger hold release` with the hold's name, which lets as much go again",
    ),
    "deletion-unexplained": TroubleKind(
        Severity.CRITICAL,
        "brokers have deleted segments, and no rule of Kafka's explains it; the data is kept "
        "until somebody releases it",
        "compare the text with the topic's settings, and see the broker's log; `tierledger "
        "undelete` brings the records back; if nobody needs them: `tierledger trash release`",
    ),
    NOT_JUDGED: TroubleKind(
        Severity.WARNING,
        "brokers with the guard want to delete, and Kafka does not tell the service its "
        "settings and log starts; the deletions wait, and the tier grows",
        "see that hosts reach the brokers of `serve --kafka`, and that its user may describe "
        "topics and their settings",
    ),
    "hold-refuses": TroubleKind(
        Severity.NOTE,
        "brokers try to delete what is under a hold: their retention of that partition stands "
        "still, and the tier grows",
        "wait, or release the hold when nobody needs it any more: `tierledger hold release`",
    ),
    "broker-down": TroubleKind(
        Severity.WARNING,
        "the plugin of a broker has stopped reporting, and Kafka does not count the broker "
        "among the living",
        "start the broker, or ignore it for an hour if it has left for good",
    ),
    "plugin-mode": TroubleKind(
        Severity.CRITICAL,
        "a broker runs in a mode in which it cannot follow the owner",
        "restart it in the mode that docs/kafka.md names for this owner",
    ),
    "plugin-not-registered": TroubleKind(
        Severity.WARNING,
        "a broker's plugin reports, but has not registered",
        "see the broker's log for why the coordinator does not admit it",
    ),
    "other-ledger": TroubleKind(
        Severity.CRITICAL,
        "another ledger has fed a broker's plugin, and this one owns nothing yet",
        "start the service on the store that fed it; if that store is lost, see docs/kafka.md "
        "before tierledger owns the metadata",
    ),
    "shadow-differs": TroubleKind(
        Severity.WARNING,
        "answers of tierledger and of Kafka's own manager differ on a broker in shadow",
        "see `shadows` in `tierledger status --json`; do not hand over before it is explained",
    ),
    "other-cluster": TroubleKind(
        Severity.CRITICAL,
        "Kafka's brokers are of another cluster than the service; nothing is imported or "
        "mirrored, and their word on leaders is wrong",
        "start `serve` with the brokers of its own cluster, or with the right `--cluster`",
    ),
    "kafka-not-asked": TroubleKind(
        Severity.WARNING,
        "brokers use the service, and it was started without `--kafka`: nobody asks Kafka who "
        "leads, and nothing is imported or mirrored",
        "start `serve` with `--kafka`",
    ),
    "foreign-records": TroubleKind(
        Severity.WARNING,
        "Kafka's metadata topic has records that tierledger neither wrote nor imported: a "
        "broker runs, or ran, without the plugin",
        "stop that broker; then let tierledger take over what it tiered and deleted: "
        "`tierledger handover --to kafka --accept-losses`, and `--to tierledger` again",
    ),
    "follower-silent": TroubleKind(
        Severity.WARNING,
        "the process that follows Kafka's metadata topic has stopped reporting",
        "see whether `serve --kafka` still runs",
    ),
    "import-fails": TroubleKind(
        Severity.WARNING,
        "the import of Kafka's metadata topic fails",
        "mend what the text names; until then the metadata cannot be handed over",
    ),
    "mirror-fails": TroubleKind(
        Severity.WARNING,
        "the mirror into Kafka's metadata topic fails",
        "mend what the text names; until then the metadata cannot go back",
    ),
    "seal-fails": TroubleKind(
        Severity.WARNING,
        "Kafka's metadata topic cannot be sealed",
        "mend what the text names; until then start no broker without the plugin",
    ),
}
"""All kinds of trouble, by code; `docs/runbook.md` has a section for each."""


def troubles_of(status: ServiceStatus) -> list[Trouble]:
    """All troubles, the most urgent first, then by code."""
    found = [*_of_coordinator(status), *_of_holds(status)]
    for host in status.hosts:
        found += _of_host(host, status)
    for partition in status.partitions:
        found += _of_partition(partition)
    return sorted(found, key=_urgency)


def no_service(cluster: str, closed: str | None = None) -> Trouble:
    """The only trouble of a store on which no service runs; `closed`: why none can."""
    trouble = _trouble(NO_SERVICE, f"cluster {cluster}")
    if closed is None:
        return trouble
    action = "let the command that makes the store end, or run it again"
    if closed.startswith(COPIED):
        action = "look at the store where the ledger goes on: give its `--store`"
    return trouble._replace(text=closed, action=action)


class TroublesOfCode(NamedTuple):
    """All troubles with one code, for a line."""

    code: str
    severity: Severity
    subjects: str
    """The first `SUBJECTS_SHOWN`, and how many there are beside them."""
    since_ms: int | None
    """The earliest time."""
    text: str
    """What the first one says."""
    action: str


SUBJECTS_SHOWN = 3


def by_code(troubles: Sequence[Trouble]) -> Iterator[TroublesOfCode]:
    """The troubles by their codes, in their order."""
    for code in dict.fromkeys(one.code for one in troubles):
        same = [one for one in troubles if one.code == code]
        first, left = same[0], len(same) - SUBJECTS_SHOWN
        subjects = [one.subject for one in same[:SUBJECTS_SHOWN]]
        more = [f"and {left} more"] if left > 0 else []
        since_ms = min((one.since_ms for one in same if one.since_ms is not None), default=None)
        yield TroublesOfCode(
            code,
            first.severity,
            ", ".join([*subjects, *more]),
            since_ms,
            first.text,
            first.action,
        )


def are_well(troubles: Iterable[Trouble]) -> bool:
    """Whether there are none besides notes."""
    return not findings(one.severity for one in troubles)


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}
_CODES = {code: rank for rank, code in enumerate(KINDS)}


def _urgency(one: Trouble) -> tuple[int, int]:
    return _RANKS[one.severity], _CODES[one.code]


def _trouble(
    code: str, subject: str, text: str | None = None, since_ms: int | None = None
) -> Trouble:
    kind = KINDS[code]
    return Trouble(code, kind.severity, subject, since_ms, text or kind.meaning, kind.action)


def _of_conditions(conditions: Iterable[Mapping[str, Any]], process: str) -> Iterator[Trouble]:
    for one in conditions:
        code, text = one["code"], one["text"]
        if code not in KINDS:
            code, text = "unknown-condition", f"{code}: {text}"
        subject = f"{process}, {one['subject']}" if one["subject"] else process
        yield _trouble(code, subject, text, one["since_ms"])


def _of_host(host: HostStatus, status: ServiceStatus) -> Iterator[Trouble]:
    if not host.is_up:
        lost = "" if host.placed is None else f"; {host.placed['leaders']} leaders are there"
        since_ms = _before(status, host.heard_ms_ago)
        yield _trouble(HOST_SILENT, f"host {host.name}", f"{host.silence}{lost}", since_ms)
    yield from _of_conditions(host.conditions, f"host {host.name}")


def _of_partition(one: PartitionStatus) -> Iterator[Trouble]:
    if one.unexplained is not None:
        yield _trouble(
            "deletion-unexplained",
            f"partition {one.topic}-{one.partition}",
            f"{one.unexplained['segments']} segments, the first: {one.unexplained['reason']}",
            one.unexplained["since_ms"],
        )
    if one.trouble is None:
        return
    served = (one.leader, *one.followers)
    reason = next((each.reason for each in served if each and each.reason), None)
    text = TROUBLES[one.trouble]
    yield _trouble(
        one.trouble,
        f"partition {one.topic}-{one.partition}",
        text if reason is None else f"{text}: {reason}",
    )


def _before(status: ServiceStatus, ago_ms: int | None) -> int | None:
    """The time that was `ago_ms` before the coordinator's answer."""
    now_ms = None if status.coordinator is None else status.coordinator["now_ms"]
    return None if now_ms is None or ago_ms is None else now_ms - ago_ms


def _of_coordinator(status: ServiceStatus) -> Iterator[Trouble]:
    known = status.coordinator
    if known is None:
        yield _trouble("coordinator-silent", "coordinator")
        return
    if unplaced := known["unplaced"]:
        yield _trouble("unplaced", "cluster", f"{unplaced} leaders or followers have no host")
    for item in known["set_aside_items"]:
        yield _trouble("set-aside", f"item {item['what']}", item["reason"], item["since_ms"])
    yield from _of_conditions(known["conditions"] or (), "coordinator")
    yield from _of_owner(known)
    yield from _of_store(known)
    yield from _of_plugins(status, known)
    if known["kafka"] is not None:
        yield from _of_follower(status, known["kafka"])
    elif known["attending"] or known["owner"] in {Owner.KAFKA, Owner.MOVING}:
        yield _trouble("kafka-not-asked", "cluster")


def _of_owner(known: Mapping[str, Any]) -> Iterator[Trouble]:
    if held := known["deletions_held"]:  # An older service has none.
        since_ms = min(one["since_ms"] for one in held)
        yield _trouble("deletions-held", "cluster", known["deletions_held_text"], since_ms)
    if known["owner"] != Owner.MOVING:
        return
    since_ms, limit_ms = known["owner_since_ms"], known["give_up_after_ms"]
    now_ms = known["now_ms"]
    overdue = since_ms is not None and limit_ms and now_ms - since_ms > limit_ms + SILENT_MS
    text = (
        f"the metadata moves from {known['source']} to {known['heading']}, in owner epoch "
        f"{known['owner_epoch']}; brokers hold their writes"
    )
    yield _trouble("move-overdue" if overdue else "owner-moving", "cluster", text, since_ms)


def _of_holds(status: ServiceStatus) -> Iterator[Trouble]:
    for one in status.holds():
        if one["by"] == BY:
            yield _trouble(BREAKER, f"hold {one['name']}", one["reason"], one["since_ms"])
        if one["refused"]:
            text = (
                f"the hold {one['name']} of {one['by']} has refused {one['refused']} "
                f"deletions, the last in {one['refused_last']}"
            )
            yield _trouble("hold-refuses", f"hold {one['name']}", text, one["refused_since_ms"])


def _of_store(known: Mapping[str, Any]) -> Iterator[Trouble]:
    """Troubles of a store that is not the newest one, as far as plugins remember that."""
    if known["owner"] == Owner.NOBODY:
        return  # `other-ledger` tells it.
    for one in known["attending"]:
        found = []
        if one.get("seen_epoch", 0) > known["owner_epoch"]:
            found.append(
                f"it has seen owner epoch {one['seen_epoch']}, and the store is at "
                f"{known['owner_epoch']}"
            )
        if others := one.get("other_logs"):
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            found.append(
                f"the log of {others[0]}{more} ends before what it was fed, or differs"
            )
        if found:
            text = f"its plugin remembers another store: {'; '.join(found)}"
            yield _trouble("store-older", f"broker {one['broker_id']}", text)


def _of_plugins(status: ServiceStatus, known: Mapping[str, Any]) -> Iterator[Trouble]:
    """Troubles of brokers' plugins: of those that report, and of those that should."""
    alive = (known["kafka"] or {}).get("alive")
    # A coordinator that has just started has not heard of any plugin yet.
    is_settled = (known["up_ms"] or 0) > SILENT_MS
    for one in known["attending"]:
        subject = f"broker {one['broker_id']}"
        is_held = one["is_idle"] and known["owner"] != Owner.MOVING
        if one["code"] == "silent":
            is_down = alive is not None and one["broker_id"] not in alive
            code = "broker-down" if is_down else "plugin-silent"
            yield _trouble(code, subject, None, _before(status, one["heard_ms_ago"]))
        elif one["trouble"]:
            text = f"its plugin (mode {one['mode']}): {one['trouble']}"
            yield _trouble(f"plugin-{one['code']}", subject, text)
        elif is_held and one["owner_epoch"] == known["owner_epoch"]:
            text = f"it holds its writes (mode {one['mode']}); the owner is {known['owner']}"
            yield _trouble("writes-held", subject, text)
        if known["owner"] == Owner.NOBODY and (positions := one.get("positions")):
            text = (
                f"its plugin remembers {positions} partitions that another ledger has fed, and "
                "this one owns nothing yet"
            )
            yield _trouble("other-ledger", subject, text)
    attending = {one["broker_id"] for one in known["attending"]}
    if known["owner"] in {Owner.TIERLEDGER, Owner.MOVING} and is_settled:
        for broker in sorted(set(alive or ()) - attending):
            yield _trouble("plugin-missing", f"broker {broker}")
    for one in known["shadows"]:
        if count := one.get("standing", one.get("different")):  # An older service counts all.
            text = f"{count} answers differ from those of Kafka's own manager"
            yield _trouble("shadow-differs", f"broker {one['broker_id']}", text)


def _of_follower(status: ServiceStatus, kafka: Mapping[str, Any]) -> Iterator[Trouble]:
    yield from _of_conditions(kafka.get("conditions") or (), "kafka")
    if kafka["heard_ms_ago"] > SILENT_MS:
        since_ms = _before(status, kafka["heard_ms_ago"])
        yield _trouble("follower-silent", "kafka", None, since_ms)
        return
    if count := kafka.get("foreign"):
        text = (
            f"Kafka's metadata topic has {count} records that tierledger neither wrote nor "
            f"imported; they add {kafka.get('foreign_tiered')} segments "
            f"({kafka.get('foreign_bytes')} bytes) that it does not know, and change "
            f"{kafka.get('foreign_changed')} of others"
        )
        yield _trouble("foreign-records", "kafka", text, kafka.get("foreign_since_ms"))
    if kafka["trouble"]:
        code = {"mirror": "mirror-fails", "seal": "seal-fails"}.get(
            kafka["task"], "import-fails"
        )
        since_ms = _before(status, kafka.get("trouble_ms_ago"))
        yield _trouble(code, "kafka", kafka["trouble"], since_ms)
