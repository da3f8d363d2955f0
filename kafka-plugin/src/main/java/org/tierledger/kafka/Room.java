package org.tierledger.kafka;

/** The budget of heap bytes for all replicas of a broker. Runs on the loop. */
final class Room {
    final long max;
    private long taken;

    Room(long max) {
        this.max = max;
    }

    /** Count a replica's growth (or shrinking, negative); whether all are within budget. */
    boolean grow(long bytes) {
        taken += bytes;
        return taken <= max;
    }

    boolean has(long bytes) {
        return bytes <= max - taken;
    }
}
