package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.Uuid;
import org.tierledger.door.v1.Contents;
import org.tierledger.door.v1.EpochNumbers;
import org.tierledger.door.v1.Strays;

/** A replica's rows, placed as they say, and what they answer; no rule of a lifecycle. */
final class ReplicaRows {
    private static final int MANY = 100;
    /** They hash many rows beside the thread that places them, and end when there are none. */
    private static final ThreadPoolExecutor HASHERS = new ThreadPoolExecutor(
        0, Math.max(1, Math.min(4, Runtime.getRuntime().availableProcessors() - 1)),
        1, TimeUnit.SECONDS, new SynchronousQueue<>(), Loop.daemons("tierledger-hasher"),
        new ThreadPoolExecutor.CallerRunsPolicy());

    /** The sum over rows, strays and epochs' numbers, but for what is being hashed. */
    private final Blake2b shares = new Blake2b();
    private final List<CompletableFuture<Blake2b>> hashing = new ArrayList<>();
    private final Slab slab = new Slab();
    private final IdTable ids = new IdTable(slab);
    private final Map<Uuid, Strays> strays = new HashMap<>();
    private final Map<Integer, EpochNumbers> numbers = new HashMap<>();
    private final Map<Integer, Epoch> epochs = new HashMap<>();
    /** Whether the snapshot is whole. Until then rows are only appended where they belong. */
    private boolean isPlaced;
    /** Whether some of those are gone, or elsewhere by now. */
    private boolean isOutOfPlace;

    /** An epoch's rows. */
    private static final class Epoch {
        /** Those that Kafka serves, by where the epoch begins in them. */
        final SortedRows referenced = new SortedRows();
        /** The others that list it, by start offset. */
        final SortedRows others = new SortedRows();
        /** No row that was ever here goes further. */
        long highestEnd = Long.MIN_VALUE;
    }

    /** A row that is to be listed. */
    private static final class Listed {
        final int ref;
        final long start;
        final Uuid id;

        Listed(int ref, Row row) {
            this.ref = ref;
            this.start = row.start;
            this.id = new Uuid(row.idHigh(), row.idLow());
        }

        long start() {
            return start;
        }

        static int byId(Listed one, Listed other) {
            int high = Long.compareUnsigned(
                one.id.getMostSignificantBits(), other.id.getMostSignificantBits());
            return high != 0 ? high : Long.compareUnsigned(
                one.id.getLeastSignificantBits(), other.id.getLeastSignificantBits());
        }
    }

    int count() {
        return ids.size();
    }

    /** The bytes that rows take. */
    long size() {
        return slab.size();
    }

    byte[][] view() {
        return slab.view();
    }

    Row row(int ref) {
        return slab.row(ref);
    }

    // Placing.

    /** Replace what {@code contents} hold, but for those ids and epochs. */
    void put(Contents contents, Set<Uuid> butIds, Set<Integer> butEpochs) {
        Map<Uuid, Strays> given = new HashMap<>();
        for (Strays one : contents.getStraysList()) {
            given.put(Segments.uuid(one.getSegmentId()), one);
        }
        for (ByteString id : contents.getGoneList()) {
            remove(Segments.uuid(id));
        }
        List<byte[]> taken = new ArrayList<>(contents.getRowsCount());
        for (ByteString bytes : contents.getRowsList()) {
            byte[] row = bytes.toByteArray();
            if (butIds.isEmpty() || !butIds.contains(idOf(row))) {
                taken.add(row);
            }
        }
        share(taken);
        for (byte[] row : taken) {
            Uuid id = idOf(row);
            remove(id);
            add(id, row, given.get(id));
        }
        for (EpochNumbers one : contents.getEpochsList()) {
            if (!butEpochs.contains(one.getEpoch())) {
                EpochNumbers before = numbers.put(one.getEpoch(), one);
                if (before != null) {
                    byte[] element = element(before);
                    shares.remove(element, 0, element.length);
                }
                byte[] element = element(one);
                shares.add(element, 0, element.length);
            }
        }
    }

    static Uuid idOf(byte[] row) {
        if (row.length < Row.ID_AT + 16) {
            throw new IllegalArgumentException("expected a row, got " + row.length + " bytes");
        }
        return new Uuid(Slab.longAt(row, Row.ID_AT), Slab.longAt(row, Row.ID_AT + 8));
    }

    private void share(List<byte[]> rows) {
        if (rows.size() < MANY) {
            shares.add(sum(rows));
        } else {
            hashing.add(CompletableFuture.supplyAsync(() -> sum(rows), HASHERS));
        }
    }

    private static Blake2b sum(List<byte[]> rows) {
        Blake2b sum = new Blake2b();
        for (byte[] row : rows) {
            sum.add(row, 0, row.length);
        }
        return sum;
    }

    /** The sum over rows, strays and epochs' numbers. */
    Blake2b shares() {
        hashing.forEach(one -> shares.add(one.join()));
        hashing.clear();
        return shares;
    }

    /** The snapshot is whole: questions follow. */
    void place() {
        if (isOutOfPlace) {
            isOutOfPlace = false;
            epochs.clear();
            for (int ref : ids.refs()) {
                place(ref, slab.row(ref));
            }
        }
        isPlaced = true;
    }

    private void add(Uuid id, byte[] bytes, Strays given) {
        Row row = new Row(bytes, 0);
        int ref = slab.put(bytes, 0, bytes.length);
        ids.put(id.getMostSignificantBits(), id.getLeastSignificantBits(), ref);
        if (given != null) {
            strays.put(id, given);
            byte[] element = element(given);
            shares.add(element, 0, element.length);
        }
        place(ref, row);
    }

    private void place(int ref, Row row) {
        for (int i = 0; i < row.epochs.length; i += 3) {
            Epoch epoch = epochs.computeIfAbsent((int) row.epochs[i], number -> new Epoch());
            boolean isReferenced = row.epochs[i + 2] == Row.REFERENCED;
            SortedRows rows = isReferenced ? epoch.referenced : epoch.others;
            long key = isReferenced ? row.epochs[i + 1] : row.start;
            epoch.highestEnd = Math.max(epoch.highestEnd, row.endIn(i));
            put(rows, key, ref);
        }
        for (int number : strayEpochs(row)) {
            put(epochs.computeIfAbsent(number, any -> new Epoch()).others, row.start, ref);
        }
    }

    private void put(SortedRows rows, long key, int ref) {
        if (isPlaced) {
            rows.add(key, ref);
        } else {
            rows.append(key, ref);
        }
    }

    private int[] strayEpochs(Row row) {
        Strays found = strays.isEmpty() ? null : strays.get(new Uuid(row.idHigh(), row.idLow()));
        return found == null
            ? new int[0]
            : found.getEpochsList().stream().mapToInt(Integer::intValue).toArray();
    }

    private void remove(Uuid id) {
        int ref = ids.get(id.getMostSignificantBits(), id.getLeastSignificantBits());
        if (ref == IdTable.NONE) {
            return;
        }
        if (isPlaced) {
            displace(ref, slab.row(ref));
        } else {
            isOutOfPlace = true;
        }
        shares.remove(slab.bytes(ref), Slab.rowAt(ref), slab.length(ref));
        Strays former = strays.remove(id);
        if (former != null) {
            byte[] element = element(former);
            shares.remove(element, 0, element.length);
        }
        ids.remove(id.getMostSignificantBits(), id.getLeastSignificantBits());
        if (slab.drop(ref)) {
            empty(Slab.chunkOf(ref));
        }
    }

    private void displace(int ref, Row row) {
        for (int i = 0; i < row.epochs.length; i += 3) {
            Epoch epoch = epochs.get((int) row.epochs[i]);
            if (row.epochs[i + 2] == Row.REFERENCED) {
                epoch.referenced.remove(row.epochs[i + 1], ref);
            } else {
                epoch.others.remove(row.start, ref);
            }
        }
        for (int number : strayEpochs(row)) {
            epochs.get(number).others.remove(row.start, ref);
        }
    }

    /** Move what is left in a chunk, mostly of rows that count no more, to where rows go now. */
    private void empty(int chunk) {
        for (int before : slab.rowsOf(chunk)) {
            Row row = slab.row(before);
            if (ids.get(row.idHigh(), row.idLow()) == before) {
                int ref = slab.put(slab.bytes(before), Slab.rowAt(before), slab.length(before));
                ids.put(row.idHigh(), row.idLow(), ref);
                if (isPlaced) {
                    move(row, before, ref);
                }
            }
        }
        slab.release(chunk);
    }

    private void move(Row row, int before, int ref) {
        for (int i = 0; i < row.epochs.length; i += 3) {
            Epoch epoch = epochs.get((int) row.epochs[i]);
            if (row.epochs[i + 2] == Row.REFERENCED) {
                epoch.referenced.replace(row.epochs[i + 1], before, ref);
            } else {
                epoch.others.replace(row.start, before, ref);
            }
        }
        for (int number : strayEpochs(row)) {
            epochs.get(number).others.replace(row.start, before, ref);
        }
    }

    // Answers.

    /** The segment that serves {@code offset}; null if none does. */
    Row lookup(int number, long offset) {
        Epoch epoch = epochs.get(number);
        if (epoch == null || offset > epoch.highestEnd) {
            return null;
        }
        int index = epoch.referenced.above(offset) - 1;
        if (index >= 0) {
            Row row = slab.row(epoch.referenced.ref(index));
            if (offset <= row.endIn(row.indexOf(number))) {
                return row;
            }
        }
        return lastFinished(epoch.others, number, offset,
            lastFinished(epoch.referenced, number, offset, null));
    }

    /** Of those that hold {@code offset}, or {@code best}, the one that finished last. */
    private Row lastFinished(SortedRows rows, int number, long offset, Row best) {
        Row found = best;
        for (int index = 0; index < rows.size(); index++) {
            Row row = slab.row(rows.ref(index));
            int at = row.state == Row.FINISHED ? row.indexOf(number) : -1;
            if (at >= 0 && row.holds(at, offset)
                && (found == null || row.finishedAt > found.finishedAt)) {
                found = row;
            }
        }
        return found;
    }

    /** The first segment from {@code offset} on that may have a transaction index, or null. */
    Row nextWithTxnIndex(int number, long offset) {
        long from = offset;
        while (true) {
            Row row = lookup(number, from);
            if (row == null || !row.isTxnIndexEmpty) {
                return row;
            }
            if (row.end < from || row.end == Long.MAX_VALUE) {
                return null;
            }
            from = row.end + 1;
        }
    }

    /** Where all rows are, in no order. */
    int[] listAll() {
        return ids.refs();
    }

    /** Where an epoch's rows are, in Kafka's order; lost ones behind Kafka's at their offset. */
    int[] listEpoch(int number) {
        Epoch epoch = epochs.get(number);
        if (epoch == null) {
            return new int[0];
        }
        if (epoch.others.size() == 0) {
            return epoch.referenced.refs();
        }
        List<Listed> kafka = new ArrayList<>();
        List<Listed> unreferenced = new ArrayList<>();
        List<Listed> lost = new ArrayList<>();
        for (int ref : epoch.referenced.refs()) {
            kafka.add(new Listed(ref, slab.row(ref)));
        }
        for (int ref : epoch.others.refs()) {
            Row row = slab.row(ref);
            int at = row.indexOf(number);
            boolean isLost = at >= 0 && row.epochs[at + 2] == Row.LOST;
            (isLost ? lost : unreferenced).add(new Listed(ref, row));
        }
        if (!unreferenced.isEmpty()) {
            unreferenced.sort(Listed::byId);
            kafka.addAll(unreferenced);
            kafka.sort(Comparator.comparingLong(Listed::start));
        }
        lost.sort(Comparator.comparingLong(Listed::start).thenComparing(Listed::byId));
        return merged(kafka, lost);
    }

    private static int[] merged(List<Listed> kafka, List<Listed> lost) {
        int[] refs = new int[kafka.size() + lost.size()];
        int count = 0;
        int late = 0;
        for (Listed one : kafka) {
            while (late < lost.size() && lost.get(late).start < one.start) {
                refs[count++] = lost.get(late++).ref;
            }
            refs[count++] = one.ref;
        }
        while (late < lost.size()) {
            refs[count++] = lost.get(late++).ref;
        }
        return refs;
    }

    /** The highest offset that ever finished in the epoch; null if none did. */
    Long highest(int epoch) {
        EpochNumbers found = numbers.get(epoch);
        return found == null || !found.hasHighest() ? null : (Long) found.getHighest();
    }

    /** Bytes over {@link #listEpoch}. */
    long size(int epoch) {
        EpochNumbers found = numbers.get(epoch);
        return found == null ? 0 : found.getSize();
    }

    // Elements of the checksum.

    private static byte[] element(EpochNumbers one) {
        return ByteBuffer.allocate(22).put((byte) 'E').putInt(one.getEpoch())
            .put((byte) (one.hasHighest() ? 1 : 0)).putLong(one.getHighest())
            .putLong(one.getSize()).array();
    }

    private static byte[] element(Strays one) {
        ByteBuffer element = ByteBuffer.allocate(17 + 4 * one.getEpochsCount()).put((byte) 'S');
        element.put(one.getSegmentId().asReadOnlyByteBuffer());
        one.getEpochsList().forEach(element::putInt);
        return element.array();
    }
}
