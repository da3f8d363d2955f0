package org.tierledger.kafka;

import java.util.Arrays;

/** The fields of a segment's row: a msgpack array, as the service stores it. */
final class Row {
    static final int FINISHED = 1;
    static final int REFERENCED = 0;
    static final int UNREFERENCED = 1;
    static final int LOST = 2;
    /** Where the id stands in a row: behind the array's header and its own. */
    static final int ID_AT = 3;

    final int state;
    final long start;
    final long end;
    /** Epoch, offset at which it begins, placement, for each leader epoch ascending. */
    final long[] epochs;
    final int size;
    final long maxTimestampMs;
    final int brokerId;
    final long eventTimestampMs;
    /** Null if there is none. */
    final byte[] custom;
    final boolean isTxnIndexEmpty;
    final long finishedAt;

    private final byte[] bytes;
    private final int from;
    private int at;

    /** The row that begins at {@code from}; whatever is no row is an IllegalArgumentException. */
    Row(byte[] bytes, int from) {
        this.bytes = bytes;
        this.from = from;
        this.at = from;
        if (length() != 12) {
            throw wrong("an array of 12 fields");
        }
        if (next() != 0xc4 || next() != 16) {
            throw wrong("an id of 16 bytes");
        }
        at += 16;
        state = (int) number();
        start = number();
        end = number();
        epochs = new long[length()];
        for (int i = 0; i < epochs.length; i++) {
            epochs[i] = number();
        }
        size = (int) number();
        maxTimestampMs = number();
        brokerId = (int) number();
        eventTimestampMs = number();
        custom = binary();
        isTxnIndexEmpty = truth();
        finishedAt = number();
    }

    long idHigh() {
        return Slab.longAt(bytes, from + ID_AT);
    }

    long idLow() {
        return Slab.longAt(bytes, from + ID_AT + 8);
    }

    /** The index of an epoch's three numbers; -1 if the row does not name it. */
    int indexOf(int epoch) {
        for (int i = 0; i < epochs.length; i += 3) {
            if (epochs[i] == epoch) {
                return i;
            }
        }
        return -1;
    }

    /** The last offset of the epoch at {@code index}: before the next epoch, or the end. */
    long endIn(int index) {
        return index + 3 < epochs.length ? epochs[index + 4] - 1 : end;
    }

    /** Whether {@code offset} of the epoch at {@code index} is in the segment. */
    boolean holds(int index, long offset) {
        return epochs[index + 1] <= offset && offset <= endIn(index);
    }

    private int next() {
        return bytes[at++] & 0xff;
    }

    private long bigEndian(int size) {
        long value = 0;
        for (int i = 0; i < size; i++) {
            value = value << 8 | next();
        }
        return value;
    }

    private long number() {
        int head = next();
        if (head <= 0x7f || head >= 0xe0) {
            return (byte) head;
        }
        switch (head) {
            case 0xcc: return bigEndian(1);
            case 0xcd: return bigEndian(2);
            case 0xce: return bigEndian(4);
            case 0xcf: return bigEndian(8);
            case 0xd0: return (byte) bigEndian(1);
            case 0xd1: return (short) bigEndian(2);
            case 0xd2: return (int) bigEndian(4);
            case 0xd3: return bigEndian(8);
            default: throw wrong("a number");
        }
    }

    private int length() {
        int head = next();
        if (head >= 0x90 && head <= 0x9f) {
            return head & 0x0f;
        }
        if (head == 0xdc) {
            return (int) bigEndian(2);
        }
        throw wrong("an array");
    }

    private byte[] binary() {
        int head = next();
        if (head == 0xc0) {
            return null;
        }
        if (head < 0xc4 || head > 0xc6) {
            throw wrong("bytes");
        }
        int length = (int) bigEndian(1 << head - 0xc4);
        if (length < 0 || length > bytes.length - at) {
            throw wrong("fewer bytes");
        }
        at += length;
        return Arrays.copyOfRange(bytes, at - length, at);
    }

    private boolean truth() {
        int head = next();
        if (head != 0xc2 && head != 0xc3) {
            throw wrong("true or false");
        }
        return head == 0xc3;
    }

    private IllegalArgumentException wrong(String expected) {
        return new IllegalArgumentException(
            "expected " + expected + " before byte " + (at - from) + " of a row");
    }
}
