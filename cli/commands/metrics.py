"""`metrics`: what a monitor needs of a service, made from the program's own tables."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tierledger.cli.handlers import group_of


def metrics_group() -> typer.Typer:
    return group_of(
        "Alerts for Prometheus and a dashboard for Grafana; no service is needed.",
        {"alerts": print_alerts, "dashboard": print_dashboard},
    )


def print_alerts(
    runbook: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where docs/runbook.md is read, to which each alert links."
        ),
    ] = None,
) -> None:
    """Print alerting rules for Prometheus, as a file of `rule_files`."""
    from tierledger.health.alerts import RUNBOOK, rules

    for line in rules(runbook or RUNBOOK):
        print(line)


def print_dashboard() -> None:
    """Print a dashboard for Grafana, which imports it as it is."""
    from tierledger.health.alerts import dashboard

    print(json.dumps(dashboard(), indent=2))
