"""By which manager a broker decides, as the plugin's README says."""

from itertools import product

import pytest

from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Decision, Ownership, PluginMode, decision

KAFKA, LEDGER = Owner.KAFKA, Owner.TIERLEDGER
NOT_READY = Decision(None, None)
HOLDS_KAFKA, HOLDS_LEDGER = Decision(KAFKA, None), Decision(LEDGER, None)
BY_KAFKA, BY_LEDGER = Decision(KAFKA, KAFKA), Decision(LEDGER, LEDGER)

DECISIONS = {
    Ownership(): (BY_KAFKA, NOT_READY, BY_LEDGER),
    Ownership(1, KAFKA): (BY_KAFKA, BY_KAFKA, NOT_READY),
    Ownership(2, Owner.MOVING, KAFKA, LEDGER): (HOLDS_KAFKA, HOLDS_KAFKA, NOT_READY),
    Ownership(3, LEDGER): (NOT_READY, BY_LEDGER, BY_LEDGER),
    Ownership(4, Owner.MOVING, LEDGER, KAFKA): (NOT_READY, HOLDS_LEDGER, HOLDS_LEDGER),
    Ownership(5, "another"): (NOT_READY, NOT_READY, NOT_READY),
}
"""By the ownership: in shadow, handover and tierledger."""


@pytest.mark.parametrize(("ownership", "mode"), list(product(DECISIONS, PluginMode)))
def test_a_broker_decides_by_the_owners_manager_alone(
    ownership: Ownership, mode: PluginMode
) -> None:
    assert decision(mode, ownership) == DECISIONS[ownership][list(PluginMode).index(mode)]
