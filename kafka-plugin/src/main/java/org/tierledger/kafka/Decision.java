package org.tierledger.kafka;

import org.tierledger.door.v1.OwnerWord;
import org.tierledger.door.v1.PluginMode;

/** By which manager a broker decides: as its mode and the newest word on the owner have it. */
final class Decision {
    /** Whose answers a broker gets; nobody's: it is not ready. */
    enum By { NOBODY, KAFKA, TIERLEDGER }

    /** Of the word; 0: none was heard. */
    final long number;
    final By reads;
    /** Nobody: writes are held. */
    final By writes;
    /** Whether the next word says where writes go that can wait. */
    final boolean isMoving;

    private Decision(long number, By reads, boolean isMoving) {
        this.number = number;
        this.reads = reads;
        this.writes = isMoving ? By.NOBODY : reads;
        this.isMoving = isMoving;
    }

    static Decision of(PluginMode mode, OwnerWord word) {
        boolean isMoving = word.getOwner().equals("moving");
        String whose = isMoving ? word.getSource() : word.getOwner();
        return new Decision(word.getNumber(), reads(mode, whose), isMoving);
    }

    /** Never by another manager than the owner's: brokers that do would not see each other. */
    private static By reads(PluginMode mode, String owner) {
        switch (owner) {
            case "kafka": return mode == PluginMode.MODE_TIERLEDGER ? By.NOBODY : By.KAFKA;
            case "tierledger": return mode == PluginMode.MODE_SHADOW ? By.NOBODY : By.TIERLEDGER;
            case "": // No word was heard.
            case "nobody":
                return mode == PluginMode.MODE_SHADOW ? By.KAFKA
                    : mode == PluginMode.MODE_TIERLEDGER ? By.TIERLEDGER : By.NOBODY;
            default: return By.NOBODY;
        }
    }

    @Override
    public String toString() {
        return "reads by " + reads + ", writes by " + writes + ", as of word " + number;
    }
}
