package org.tierledger.kafka;

/** Bytes that all replicas of a broker may take in its heap. All of it happens on the loop. */
final class Room {
    final long max;
    private long taken;

    Room(long max) {
        this.max = max;
    }

    /** Whether there is room after a replica has grown by that much, or shrunk. */
    boolean grow(long bytes) {
        taken += bytes;
        return taken <= max;
    }

    boolean has(long bytes) {
        return bytes <= max - taken;
    }
}
