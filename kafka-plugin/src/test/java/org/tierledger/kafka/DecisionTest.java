package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.tierledger.door.v1.OwnerWord;
import org.tierledger.door.v1.PluginMode;

/** By which manager a broker reads, and writes, in each mode under each word. */
class DecisionTest {
    private static final PluginMode[] MODES = {
        PluginMode.MODE_SHADOW, PluginMode.MODE_HANDOVER, PluginMode.MODE_TIERLEDGER};

    // The owner, whose it was, and by mode: who reads, who writes.
    @ParameterizedTest
    @CsvSource({
        "'',         '',         KAFKA KAFKA,     NOBODY NOBODY,         TIERLEDGER TIERLEDGER",
        "nobody,     '',         KAFKA KAFKA,     NOBODY NOBODY,         TIERLEDGER TIERLEDGER",
        "kafka,      '',         KAFKA KAFKA,     KAFKA KAFKA,           NOBODY NOBODY",
        "moving,     kafka,      KAFKA NOBODY,    KAFKA NOBODY,          NOBODY NOBODY",
        "moving,     tierledger, NOBODY NOBODY,   TIERLEDGER NOBODY,     TIERLEDGER NOBODY",
        "tierledger, '',         NOBODY NOBODY,   TIERLEDGER TIERLEDGER, TIERLEDGER TIERLEDGER",
        "another,    '',         NOBODY NOBODY,   NOBODY NOBODY,         NOBODY NOBODY",
    })
    void isTheOwners(
        String owner, String source, String shadow, String handover, String tierledger) {
        OwnerWord word =
            OwnerWord.newBuilder().setNumber(7).setOwner(owner).setSource(source).build();
        String[] wanted = {shadow, handover, tierledger};
        for (int i = 0; i < MODES.length; i++) {
            Decision decision = Decision.of(MODES[i], word);
            assertEquals(wanted[i], decision.reads + " " + decision.writes, MODES[i].name());
            assertEquals(owner.equals("moving"), decision.isMoving);
            assertEquals(7, decision.number);
        }
    }
}
