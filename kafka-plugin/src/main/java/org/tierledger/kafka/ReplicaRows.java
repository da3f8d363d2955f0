package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.PrimitiveIterator;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.Uuid;
import org.tierledger.door.v1.Contents;
import org.tierledger.door.v1.EpochNumbers;
import org.tierledger.door.v1.Strays;

/**
 * A replica's rows and its answers from them. Each row tells where it belongs; the rules of a
 * segment's lifecycle are applied by the service alone.
 */
final class ReplicaRows {
    private static final int MANY = 100;
    /** Rows of a slice that is made here. */
    private static final int SLICE = 4096;
    /** Threads that hash rows while another places them; idle ones end. */
    private static final ThreadPoolExecutor HASHERS = new ThreadPoolExecutor(
        0, Math.max(1, Math.min(4, Runtime.getRuntime().availableProcessors() - 1)),
        1, TimeUnit.SECONDS, new SynchronousQueue<>(), Loop.daemons("tierledger-hasher"),
        new ThreadPoolExecutor.CallerRunsPolicy());
    private static final Epoch NO_EPOCH = new Epoch();

    /** The sum over rows, strays and epochs' numbers, without those still being hashed. */
    private final HashSum shares = new HashSum();
    private final List<CompletableFuture<HashSum>> hashing = new ArrayList<>();
    private final Slab slab = new Slab();
    private final IdTable ids = new IdTable(slab);
    private final Map<Uuid, Strays> strays = new HashMap<>();
    private Map<Integer, Epoch> epochs = new HashMap<>();
    /** Whether the snapshot is whole. Until then rows are only appended to their epochs. */
    private boolean isPlaced;
    /** Ids and epochs that changes brought before that: newer than those in later slices. */
    private final Set<Object> newer = new HashSet<>();
    /** Whether appended rows were replaced or removed: then place() rebuilds the epochs. */
    private boolean isOutOfPlace;

    /** An epoch's rows. */
    private static final class Epoch {
        /** Rows that Kafka's tables serve, by the offset at which the epoch begins in them. */
        final SortedRows referenced = new SortedRows();
        /** Other rows that list the epoch, by their own references. */
        final SortedRows others = new SortedRows();
        /** The highest end offset of all rows that were ever here: an upper bound. */
        long highestEnd = Long.MIN_VALUE;
        /** The epoch's highest offset and size, from the feed; null: none came. */
        EpochNumbers numbers;
    }

    boolean isPlaced() {
        return isPlaced;
    }

    int count() {
        return ids.size();
    }

    /** The row of a segment; null: there is none. */
    Row of(Uuid id) {
        int ref = ids.get(id);
        return ref == IdTable.NONE ? null : slab.view().apply(ref);
    }

    /** Bytes of the chunks that have the rows. */
    long size() {
        return slab.size();
    }

    /** Reads rows by references listed now, also while another thread changes rows. */
    IntFunction<Row> view() {
        return slab.view();
    }

    /** All of it as the contents of slices; to be read from one thread, at any time. */
    Iterator<Contents> contents() {
        IntFunction<ByteString> copies = slab.copies();
        Map<Uuid, Strays> strayed = Map.copyOf(strays);
        List<EpochNumbers> numbers = epochs.values().stream().map(one -> one.numbers)
            .filter(Objects::nonNull).collect(Collectors.toList());
        PrimitiveIterator.OfInt refs = Arrays.stream(ids.refs()).iterator();
        return new Iterator<>() {
            private boolean isDone;

            @Override
            public boolean hasNext() {
                return !isDone;
            }

            @Override
            public Contents next() {
                Contents.Builder next = Contents.newBuilder();
                while (refs.hasNext() && next.getRowsCount() < SLICE) {
                    ByteString row = copies.apply(refs.nextInt());
                    next.addRows(row);
                    Strays given = strayed.get(Row.idAt(row.substring(0, Row.HEAD).toByteArray(), 0));
                    if (given != null) {
                        next.addStrays(given);
                    }
                }
                isDone = !refs.hasNext();
                return isDone ? next.addAllEpochs(numbers).build() : next.build();
            }
        };
    }

    // Placing.

    /** Add or replace rows; those of a slice unless a change has brought newer ones. */
    void put(Contents contents, boolean isSlice) {
        Map<Uuid, Strays> given = new HashMap<>();
        contents.getStraysList().forEach(one -> given.put(Segments.uuid(one.getSegmentId()), one));
        contents.getGoneList().stream().map(Segments::uuid).filter(id -> isNew(id, isSlice))
            .forEach(this::remove);
        List<byte[]> taken = new ArrayList<>(contents.getRowsCount());
        for (ByteString one : contents.getRowsList()) {
            byte[] bytes = one.toByteArray();
            Row row = new Row(bytes, 0);
            if (isNew(row.id, isSlice)) {
                remove(row.id);
                add(row, bytes, given.get(row.id));
                taken.add(bytes);
            }
        }
        share(taken);
        for (EpochNumbers one : contents.getEpochsList()) {
            if (isNew(one.getEpoch(), isSlice)) {
                Epoch epoch = epoch(one.getEpoch());
                if (epoch.numbers != null) {
                    shares.remove(element(epoch.numbers));
                }
                epoch.numbers = one;
                shares.add(element(one));
            }
        }
    }

    private boolean isNew(Object idOrEpoch, boolean isSlice) {
        if (!isSlice && !isPlaced) {
            newer.add(idOrEpoch);
        }
        return !isSlice || !newer.contains(idOrEpoch);
    }

    private void share(List<byte[]> added) {
        if (added.size() < MANY) {
            added.forEach(shares::add);
        } else {
            hashing.add(CompletableFuture.supplyAsync(() -> {
                HashSum sum = new HashSum();
                added.forEach(sum::add);
                return sum;
            }, HASHERS));
        }
    }

    /** The sum of all rows, strays and epochs, for the checksum. */
    HashSum shares() {
        hashing.forEach(one -> shares.add(one.join()));
        hashing.clear();
        return shares;
    }

    /** The snapshot is whole: make the rows ready for questions. */
    void place() {
        isPlaced = true;
        newer.clear();
        if (isOutOfPlace) {
            Map<Integer, Epoch> before = epochs;
            epochs = new HashMap<>();
            before.forEach((number, epoch) -> epoch(number).numbers = epoch.numbers);
            for (int ref : ids.refs()) {
                place(slab.row(ref), ref, true);
            }
        }
    }

    private Epoch epoch(int number) {
        return epochs.computeIfAbsent(number, any -> new Epoch());
    }

    private void add(Row row, byte[] bytes, Strays given) {
        if (given != null) {
            strays.put(row.id, given);
            shares.add(element(given));
        }
        int ref = slab.put(bytes);
        ids.put(row.id, ref);
        place(row, ref, true);
    }

    /** Add a row to the epochs that list it, or remove it from them. */
    private void place(Row row, int ref, boolean isHere) {
        for (int i = 0; i < row.epochs.length; i += 3) {
            Epoch epoch = epoch((int) row.epochs[i]);
            epoch.highestEnd = Math.max(epoch.highestEnd, row.endIn(i));
            boolean isReferenced = row.epochs[i + 2] == Row.REFERENCED;
            put(isReferenced ? epoch.referenced : epoch.others,
                isReferenced ? row.epochs[i + 1] : ref, ref, isHere);
        }
        strays.getOrDefault(row.id, Strays.getDefaultInstance()).getEpochsList()
            .forEach(number -> put(epoch(number).others, ref, ref, isHere));
    }

    private static void put(SortedRows rows, long key, int ref, boolean isHere) {
        if (isHere) {
            rows.add(key, ref);
        } else {
            rows.remove(key, ref);
        }
    }

    private void remove(Uuid id) {
        int ref = ids.get(id);
        if (ref == IdTable.NONE) {
            return;
        }
        if (isPlaced) {
            place(slab.row(ref), ref, false);
        } else {
            isOutOfPlace = true;
        }
        ids.remove(id);
        shares.remove(slab.bytes(ref));
        Strays former = strays.remove(id);
        if (former != null) {
            shares.remove(element(former));
        }
        if (slab.drop(ref)) {
            empty(Slab.chunkOf(ref));
        }
    }

    /** Move a chunk's live rows to the current chunk, and release it. */
    private void empty(int chunk) {
        for (int ref : slab.rowsOf(chunk)) {
            Row row = slab.row(ref);
            if (ids.get(row.id) == ref) {
                int now = slab.put(slab.bytes(ref));
                ids.put(row.id, now);
                if (isPlaced) {
                    place(row, ref, false);
                    place(row, now, true);
                }
            }
        }
        slab.release(chunk);
    }

    // Answers.

    /** The segment that serves {@code offset}; null if none does. */
    Row lookup(int number, long offset) {
        Epoch epoch = epochs.getOrDefault(number, NO_EPOCH);
        if (offset > epoch.highestEnd) {
            return null;
        }
        int ref = epoch.referenced.floor(offset);
        Row row = ref == SortedRows.NONE ? null : slab.recent(ref);
        if (row != null && row.holds(number, offset)) {
            return row;
        }
        return IntStream.concat(epoch.referenced.refs(), epoch.others.refs())
            .mapToObj(slab::row)
            .filter(one -> one.state == Row.FINISHED && one.holds(number, offset))
            .max(Comparator.comparingLong(one -> one.finishedAt)).orElse(null);
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

    /** References of all rows as they lie in memory; a row that lies elsewhere is waited for. */
    int[] listAll() {
        int[] refs = ids.refs();
        Arrays.sort(refs);
        return refs;
    }

    /** References of an epoch's rows in Kafka's order, lost rows among them by offset. */
    int[] listEpoch(int number) {
        Epoch epoch = epochs.getOrDefault(number, NO_EPOCH);
        Map<Boolean, List<Integer>> others = epoch.others.refs().boxed().sorted(this::compareIds)
            .collect(Collectors.partitioningBy(ref -> slab.row(ref).isLostIn(number)));
        List<Integer> lost = others.get(true);
        List<Integer> unreferenced = others.get(false);
        if (lost.isEmpty() && unreferenced.isEmpty()) {
            return epoch.referenced.refs().toArray();
        }
        List<Integer> kafka = epoch.referenced.refs().boxed().collect(Collectors.toList());
        if (!unreferenced.isEmpty()) {
            kafka.addAll(unreferenced);
            kafka.sort(Comparator.comparingLong(this::startOf));
        }
        lost.sort(Comparator.comparingLong(this::startOf));
        IntStream.Builder listed = IntStream.builder();
        int next = 0;
        for (int one : kafka) {
            while (next < lost.size() && startOf(lost.get(next)) < startOf(one)) {
                listed.add(lost.get(next++));
            }
            listed.add(one);
        }
        lost.subList(next, lost.size()).forEach(listed::add);
        return listed.build().toArray();
    }

    private long startOf(int ref) {
        return Row.startAt(slab.chunk(ref), Slab.rowAt(ref));
    }

    private int compareIds(int one, int other) {
        int here = Slab.rowAt(one) + Row.ID_AT;
        int there = Slab.rowAt(other) + Row.ID_AT;
        return Arrays.compareUnsigned(
            slab.chunk(one), here, here + 16, slab.chunk(other), there, there + 16);
    }

    /** The highest offset that ever finished in the epoch; null if none did. */
    Long highest(int epoch) {
        EpochNumbers found = epochs.getOrDefault(epoch, NO_EPOCH).numbers;
        return found == null || !found.hasHighest() ? null : (Long) found.getHighest();
    }

    /** Bytes of all segments of {@link #listEpoch}. */
    long size(int epoch) {
        EpochNumbers found = epochs.getOrDefault(epoch, NO_EPOCH).numbers;
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
        one.getSegmentId().copyTo(element);
        one.getEpochsList().forEach(element::putInt);
        return element.array();
    }
}
