package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.kafka.common.Uuid;
import org.junit.jupiter.api.Test;
import org.tierledger.door.v1.Contents;

/** Rows stay what they are while others come and go, and what went takes no room. */
class SlabTest {
    private static final ByteString NOTHING = ByteString.copyFrom(new byte[16]);

    /** A finished row of one epoch, with as much custom metadata. */
    static byte[] row(Uuid id, long start, long end, int custom) {
        ByteBuffer row = ByteBuffer.allocate(100 + custom);
        row.put((byte) 0x9c).put((byte) 0xc4).put((byte) 16);
        row.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits());
        row.put((byte) 1).put((byte) 0xcf).putLong(start).put((byte) 0xcf).putLong(end);
        row.put((byte) 0x93).put((byte) 0).put((byte) 0xcf).putLong(start).put((byte) 0);
        row.put((byte) 0xcd).putShort((short) 1000).put((byte) 0xd3).putLong(-1);
        row.put((byte) 1).put((byte) 0xcf).putLong(1_700_000_000_000L);
        row.put((byte) 0xc5).putShort((short) custom).put(new byte[custom]);
        row.put((byte) 0xc2).put((byte) 0xcf).putLong(start);
        byte[] bytes = new byte[row.position()];
        row.flip().get(bytes);
        return bytes;
    }

    @Test
    void rowsComeAndGo() {
        Random random = new Random(7);
        ReplicaRows rows = new ReplicaRows();
        rows.place();
        Map<Uuid, Long> startById = new HashMap<>();
        TreeMap<Long, Uuid> idByStart = new TreeMap<>();
        for (int step = 0; step < 60_000; step++) {
            if (random.nextInt(100) < 52 || idByStart.isEmpty()) {
                Uuid id = new Uuid(random.nextLong(), random.nextLong());
                long start = 10L * random.nextInt(1_000_000);
                if (idByStart.putIfAbsent(start, id) == null) {
                    startById.put(id, start);
                    put(rows, Contents.newBuilder().addRows(ByteString.copyFrom(
                        row(id, start, start + 9, random.nextInt(200)))));
                }
            } else {
                Long start = idByStart.ceilingKey(10L * random.nextInt(1_000_000));
                start = start == null ? idByStart.firstKey() : start;
                put(rows, Contents.newBuilder().addGone(
                    Segments.bytes(idByStart.remove(start))));
            }
        }
        assertEquals(idByStart.size(), rows.count());
        int[] all = rows.listAll();
        assertEquals(idByStart.size(), all.length);
        assertArrayEquals(IntStream.of(all).sorted().toArray(), all, "as they lie in memory");
        int[] listed = rows.listEpoch(0);
        assertArrayEquals(
            idByStart.keySet().stream().mapToLong(Long::longValue).toArray(),
            starts(rows, listed));
        idByStart.forEach((start, id) -> {
            Row found = rows.lookup(0, start + 5);
            assertEquals(id, found.id);
        });
        // 190 bytes each on average; chunks are half full at least, but for the last.
        assertTrue(rows.size() < 2L * 200 * rows.count() + 2 * (1 << 20), rows::toString);
        idByStart.values().forEach(id -> put(
            rows, Contents.newBuilder().addGone(Segments.bytes(id))));
        assertEquals(0, rows.listEpoch(0).length);
        assertEquals(NOTHING, rows.shares().sum());
        assertTrue(rows.size() <= 1 << 20);
    }

    @Test
    void aRowThatWasReadIsNotTakenForOneThatHasItsPlaceSince() {
        ReplicaRows rows = new ReplicaRows();
        rows.place();
        for (int round = 0; round < 3; round++) {
            for (long start = 0; start < 10_000; start++) {
                put(rows, Contents.newBuilder().addRows(ByteString.copyFrom(
                    row(new Uuid(round, start), start, start, 0))));
                assertEquals(new Uuid(round, start), rows.lookup(0, start).id);
            }
            for (long start = 0; start < 10_000; start++) {
                assertEquals(new Uuid(round, start), rows.lookup(0, start).id);
                put(rows, Contents.newBuilder().addGone(Segments.bytes(new Uuid(round, start))));
            }
        }
    }

    @Test
    void theLastThatFinishedServesAHole() {
        ReplicaRows rows = new ReplicaRows();
        rows.place();
        long[][] segments = {{0, 500}, {10, 400}, {20, 25}};
        for (long[] one : segments) {
            put(rows, Contents.newBuilder().addRows(ByteString.copyFrom(
                row(new Uuid(7, one[0]), one[0], one[1], 0))));
        }
        assertEquals(20, rows.lookup(0, 22).start);
        assertEquals(10, rows.lookup(0, 300).start);
        assertEquals(0, rows.lookup(0, 450).start);
        assertNull(rows.lookup(0, 501));
    }

    @Test
    void rowsOfASnapshotMayGoBeforeItIsWhole() {
        Random random = new Random(7);
        ReplicaRows rows = new ReplicaRows();
        Contents.Builder slice = Contents.newBuilder();
        Map<Long, Uuid> idByStart = new TreeMap<>();
        for (long start = 0; start < 10_000; start += 10) {
            Uuid id = new Uuid(random.nextLong(), random.nextLong());
            idByStart.put(start, id);
            slice.addRows(ByteString.copyFrom(row(id, start, start + 9, 0)));
        }
        put(rows, slice);
        for (long start = 0; start < 10_000; start += 20) {
            put(rows, Contents.newBuilder().addGone(Segments.bytes(idByStart.remove(start))));
        }
        rows.place();
        assertArrayEquals(
            idByStart.keySet().stream().mapToLong(Long::longValue).toArray(),
            starts(rows, rows.listEpoch(0)));
        assertNull(rows.lookup(0, 5));
        idByStart.values().forEach(id -> put(
            rows, Contents.newBuilder().addGone(Segments.bytes(id))));
        // What many rows added at once, each takes away alone.
        assertEquals(NOTHING, rows.shares().sum());
    }

    private static long[] starts(ReplicaRows rows, int[] refs) {
        return IntStream.of(refs).mapToObj(rows.view()).mapToLong(row -> row.start).toArray();
    }

    private static void put(ReplicaRows rows, Contents.Builder contents) {
        rows.put(contents.build(), false);
    }
}
