package org.tierledger.kafka;

import java.nio.ByteBuffer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/** The fields of a segment's row: a msgpack array, as the service stores it. */
final class Row {
    static final int FINISHED = 1;
    static final int REFERENCED = 0;
    static final int LOST = 2;
    /** Index of the id in a row: after the array's header and the id's own. */
    static final int ID_AT = 3;
    /** Bytes of a row in which its id is. */
    static final int HEAD = ID_AT + 16;
    /** Index of the start offset: after the state, which takes a byte. */
    private static final int START_AT = ID_AT + 16 + 1;

    final Uuid id;
    final int state;
    final long start;
    final long end;
    /** For each leader epoch, ascending: epoch, offset at which it begins, placement. */
    final long[] epochs;
    final int size;
    final long maxTimestampMs;
    final int brokerId;
    final long eventTimestampMs;
    /** Null if there is none. */
    final byte[] custom;
    final boolean isTxnIndexEmpty;
    final long finishedAt;
    /** Kafka's object, once one was made; threads may each make theirs. */
    RemoteLogSegmentMetadata metadata;

    /** Read the row that begins at {@code from}; bytes that are no row: a RuntimeException. */
    Row(byte[] bytes, int from) {
        ByteBuffer in = ByteBuffer.wrap(bytes).position(from);
        if (length(in) != 12) {
            throw wrong(in, "an array of 12 fields");
        }
        if (in.getShort() != (short) 0xc410) {
            throw wrong(in, "an id of 16 bytes");
        }
        id = new Uuid(in.getLong(), in.getLong());
        state = (int) number(in);
        start = number(in);
        end = number(in);
        epochs = new long[length(in)];
        for (int i = 0; i < epochs.length; i++) {
            epochs[i] = number(in);
        }
        size = (int) number(in);
        maxTimestampMs = number(in);
        brokerId = (int) number(in);
        eventTimestampMs = number(in);
        custom = binary(in);
        isTxnIndexEmpty = truth(in);
        finishedAt = number(in);
    }

    /** The index of an epoch's three numbers; -1 if the row does not name it. */
    private int indexOf(int epoch) {
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

    /** Whether {@code offset} of {@code epoch} is in the segment. */
    boolean holds(int epoch, long offset) {
        int index = indexOf(epoch);
        return index >= 0 && epochs[index + 1] <= offset && offset <= endIn(index);
    }

    /** Whether Kafka's tables have lost the segment in {@code epoch}. */
    boolean isLostIn(int epoch) {
        int index = indexOf(epoch);
        return index >= 0 && epochs[index + 2] == LOST;
    }

    /** The id of the row that begins at {@code from}. */
    static Uuid idAt(byte[] bytes, int from) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        return new Uuid(in.getLong(from + ID_AT), in.getLong(from + ID_AT + 8));
    }

    /** The start offset of that row. */
    static long startAt(byte[] bytes, int from) {
        return number(ByteBuffer.wrap(bytes).position(from + START_AT));
    }

    private static long number(ByteBuffer in) {
        byte head = in.get();
        switch (head & 0xff) {
            case 0xcc: return in.get() & 0xff;
            case 0xcd: return in.getShort() & 0xffff;
            case 0xce: return in.getInt() & 0xffffffffL;
            case 0xcf: return in.getLong();
            case 0xd0: return in.get();
            case 0xd1: return in.getShort();
            case 0xd2: return in.getInt();
            case 0xd3: return in.getLong();
            default:
                if (head < -32) {
                    throw wrong(in, "a number");
                }
                return head;
        }
    }

    private static int length(ByteBuffer in) {
        int head = in.get() & 0xff;
        if (head == 0xdc) {
            return in.getShort() & 0xffff;
        }
        if (head >> 4 != 9) {
            throw wrong(in, "an array");
        }
        return head & 0x0f;
    }

    private static byte[] binary(ByteBuffer in) {
        int length;
        switch (in.get() & 0xff) {
            case 0xc0: return null;
            case 0xc4: length = in.get() & 0xff; break;
            case 0xc5: length = in.getShort() & 0xffff; break;
            case 0xc6: length = in.getInt(); break;
            default: throw wrong(in, "bytes");
        }
        if (length < 0 || length > in.remaining()) {
            throw wrong(in, "fewer bytes");
        }
        byte[] bytes = new byte[length];
        in.get(bytes);
        return bytes;
    }

    private static boolean truth(ByteBuffer in) {
        int head = in.get() & 0xff;
        if (head != 0xc2 && head != 0xc3) {
            throw wrong(in, "true or false");
        }
        return head == 0xc3;
    }

    private static IllegalArgumentException wrong(ByteBuffer in, String expected) {
        return new IllegalArgumentException(
            "expected " + expected + " before byte " + in.position() + " of a row");
    }
}
