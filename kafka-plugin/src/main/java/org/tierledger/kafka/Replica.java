package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.tierledger.door.v1.Change;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Contents;
import org.tierledger.door.v1.DeletionState;
import org.tierledger.door.v1.Fed;
import org.tierledger.door.v1.FeedReady;
import org.tierledger.door.v1.Slice;
import org.tierledger.door.v1.SnapshotBegun;
import org.tierledger.door.v1.Subscribe;

/**
 * One partition's answers, from the feed items that {@link #take} applies; docs/feed.md is the
 * protocol.
 *
 * <p>It answers as the service did at the same position, or throws {@link NotReady}. The
 * position of its answers never goes back. After each batch its rows add up to the checksum of
 * the feed; if they do not, it drops them all. Safe for threads.
 */
final class Replica {
    /** The replica cannot answer for certain; the service may. */
    static final class NotReady extends Exception {
        NotReady(String message) {
            super(message);
        }
    }

    /** The partition's deletion is finished. */
    static final class Deleted extends Exception {
        Deleted() {
            super("its deletion is finished");
        }
    }

    private static final long NONE = -1;
    /** Heap bytes of a segment's index entries, beside its row. */
    private static final long INDEX_BYTES = 40;
    /** No snapshot is coming; -1 would be the snapshot of an empty log. */
    private static final long NO_SNAPSHOT = Long.MIN_VALUE;

    private Claim claim;
    /** The highest position that it has verified or was offered, and the log's hash there. */
    private long floor = NONE;
    private ByteString floorHash = ByteString.EMPTY;
    /** The highest position of an answer that the service gave in the replica's place. */
    private long asked = NONE;
    private long position;
    private ByteString chainHash;
    private boolean isReady;
    private DeletionState deletion;
    private ByteString checksum;
    /** Position of the snapshot that is coming, or {@link #NO_SNAPSHOT}; and its next slice. */
    private long snapshotPosition;
    private long nextSlice;
    /** When the rows were saved that no host has confirmed yet (epoch ms); 0: a host has. */
    private long savedAt;
    private final List<Change> parts = new ArrayList<>();
    private ReplicaRows rows;

    Replica() {
        drop();
    }

    /** Drop all rows; the floor stays, so no later answer is from before an earlier one. */
    synchronized void drop() {
        position = NONE;
        chainHash = ByteString.EMPTY;
        isReady = false;
        deletion = DeletionState.DELETION_STATE_UNSPECIFIED;
        checksum = ByteString.EMPTY;
        snapshotPosition = NO_SNAPSHOT;
        nextSlice = 0;
        savedAt = 0;
        parts.clear();
        rows = new ReplicaRows();
    }

    /** Not ready until a host confirms this claim; null: until another claim is expected. */
    synchronized void expect(Claim announced) {
        isReady = isReady && announced != null && announced.equals(claim);
        claim = announced;
    }

    synchronized boolean isReady() {
        return isReady;
    }

    synchronized boolean isWhole() {
        return rows.isPlaced();
    }

    /** The last batch that it has applied; -1 without a whole snapshot. */
    synchronized long position() {
        return isWhole() ? position : NONE;
    }

    /** The lowest position that an answer may have: no answer is from before an earlier one. */
    synchronized long floor() {
        return Math.max(floor, asked);
    }

    /** Note that the service has answered, or made a write durable, at that position. */
    synchronized void answered(long there) {
        asked = Math.max(asked, there);
    }

    /** Positions by which it is behind the newest answer or write that this broker knows. */
    synchronized long behind() {
        return Math.max(0, asked - position);
    }

    /** Take a floor: a position that was verified, now or before the broker's restart. */
    synchronized void remember(long there, ByteString hash) {
        floor = there;
        floorHash = hash;
    }

    synchronized void noteIn(Memory memory, TopicIdPartition tip) {
        memory.note(tip, floor, floorHash);
    }

    synchronized int count() {
        return rows.count();
    }

    synchronized long size() {
        return rows.size();
    }

    /** Estimated heap bytes of the replica, with its indexes. */
    synchronized long heapBytes() {
        return rows.size() + INDEX_BYTES * rows.count();
    }

    /**
     * Take the rows of {@code saved}, of the time {@code when} (epoch ms); whether it took them.
     * It does not if a host has fed this replica meanwhile, or without a floor: then an operator
     * lets this broker take any ledger. Until a host confirms them the rows serve segments that
     * are found, and nothing else. They may be from before the floor: then a host is asked for
     * all rows.
     */
    synchronized boolean adopt(Replica saved, long when) {
        boolean isFed = position != NONE || snapshotPosition != NO_SNAPSHOT;
        if (floor == NONE || isFed || !saved.isWhole()) {
            return false;
        }
        position = saved.position;
        chainHash = saved.chainHash;
        deletion = saved.deletion;
        checksum = saved.checksum;
        rows = saved.rows;
        savedAt = when;
        if (position > floor) {
            remember(position, chainHash);
        }
        return true;
    }

    /** When the rows were saved that no host has confirmed yet (epoch ms); 0 without any. */
    synchronized long savedAt() {
        return savedAt;
    }

    /**
     * The replica as the items of a feed that make an equal one, to be read from one thread at
     * any time; empty unless it is whole.
     */
    synchronized Optional<Iterator<Fed>> items() {
        if (!isWhole()) {
            return Optional.empty();
        }
        Fed begun = Fed.newBuilder().setSnapshot(SnapshotBegun.newBuilder().setPosition(position)
            .setChainHash(chainHash).setDeletion(deletion).setChecksum(checksum)).build();
        Slice.Builder slice = Slice.newBuilder().setPosition(position).setNumber(NONE);
        Iterator<Contents> contents = rows.contents();
        return Optional.of(new Iterator<>() {
            private boolean isBegun;

            @Override
            public boolean hasNext() {
                return contents.hasNext();
            }

            @Override
            public Fed next() {
                if (!isBegun) {
                    isBegun = true;
                    return begun;
                }
                slice.setNumber(slice.getNumber() + 1).setContents(contents.next())
                    .setIsLast(!contents.hasNext());
                return Fed.newBuilder().setSlice(slice).build();
            }
        });
    }

    /** The subscription to send to a host: from the floor on, with rows if none are held. */
    synchronized Subscribe.Builder subscription() {
        Subscribe.Builder wanted = Subscribe.newBuilder();
        if (claim != null) {
            wanted.setClaim(claim);
        }
        if (floor() != NONE) {
            wanted.setFloor(floor());
        }
        if (floor != NONE) {
            wanted.setPosition(floor).setChainHash(floorHash)
                .setWithoutRows(!isWhole() || position < floor);
        }
        return wanted;
    }

    // The feed.

    /**
     * Apply the next item; null, or why a new subscription is needed. Applying an item again is
     * harmless. After a RuntimeException the replica is empty: its rows could not be trusted.
     */
    synchronized String take(Fed item) {
        try {
            return apply(item);
        } catch (RuntimeException error) { // Bytes that are no row may raise any of them.
            drop();
            throw error;
        }
    }

    private String apply(Fed item) {
        switch (item.getWhatCase()) {
            case SNAPSHOT: begin(item.getSnapshot()); return null;
            case SLICE: slice(item.getSlice()); return null;
            case CHANGE: return change(item.getChange());
            case READY: return ready(item.getReady());
            case FENCED:
                isReady = isReady && !item.getFenced().getClaim().equals(claim);
                return null;
            case OTHER_HISTORY:
                throw new IllegalStateException(
                    "the log is another at " + item.getOtherHistory().getPosition());
            default:
                throw new IllegalArgumentException("expected what a replica is given");
        }
    }

    private void begin(SnapshotBegun begun) {
        if (begun.getPosition() < floor) {
            throw new IllegalStateException(
                "a snapshot of " + begun.getPosition() + " came after " + floor);
        }
        drop();
        position = begun.getPosition();
        chainHash = begun.getChainHash();
        deletion = begun.getDeletion();
        checksum = begun.getChecksum();
        snapshotPosition = position;
        remember(position, chainHash);
    }

    private void slice(Slice part) {
        if (snapshotPosition == NO_SNAPSHOT || part.getPosition() < snapshotPosition
            || part.getPosition() == snapshotPosition && part.getNumber() < nextSlice) {
            return;
        }
        if (part.getPosition() != snapshotPosition || part.getNumber() != nextSlice) {
            throw new IllegalStateException(
                "slice " + part.getNumber() + " of " + part.getPosition() + " came, "
                + nextSlice + " of " + snapshotPosition + " was next");
        }
        nextSlice++;
        rows.put(part.getContents(), true);
        if (part.getIsLast()) {
            complete();
        }
    }

    private void complete() {
        snapshotPosition = NO_SNAPSHOT;
        rows.place();
        verify();
    }

    private String change(Change part) {
        if (part.getPosition() <= position) {
            return null;
        }
        if (part.getAfter() != position || part.getNumber() > parts.size()) {
            return "part " + part.getNumber() + " of " + part.getAfter() + " to "
                + part.getPosition() + " came after " + position;
        }
        parts.subList((int) part.getNumber(), parts.size()).clear();
        parts.add(part);
        if (!part.getIsLast()) {
            return null;
        }
        parts.forEach(one -> rows.put(one.getContents(), false));
        parts.clear();
        position = part.getPosition();
        chainHash = part.getChainHash();
        deletion = part.getDeletion();
        checksum = part.getChecksum();
        if (deletion == DeletionState.DELETE_PARTITION_FINISHED) {
            rows = new ReplicaRows();
            complete(); // Slices that are still to come do not matter any more.
        } else if (isWhole()) {
            verify();
        }
        return null;
    }

    private void verify() {
        HashSum sum = new HashSum();
        sum.add(rows.shares());
        sum.add(ByteBuffer.allocate(10 + chainHash.size()).put((byte) 'P').putLong(position)
            .put((byte) (deletion.getNumber() - 1)).put(chainHash.asReadOnlyByteBuffer()).array());
        if (!sum.sum().equals(checksum)) {
            throw new IllegalStateException(
                "the checksum at " + position + " is not that of what is here");
        }
        remember(position, chainHash);
    }

    private String ready(FeedReady report) {
        if (!isWhole()) {
            throw new IllegalStateException("ready came before the last slice");
        }
        if (position < report.getPosition()) {
            return "ready came for position " + report.getPosition() + ", " + position + " is here";
        }
        ready(report.getClaim());
        return null;
    }

    /**
     * A host confirms that the replica has all that was durable when this claim was announced.
     * It counts only if that is still the broker's newest claim.
     */
    synchronized void ready(Claim confirmed) {
        isReady = isReady || Objects.equals(confirmed, claim);
        savedAt = isReady ? 0 : savedAt;
    }

    // Answers, as of the replica's position.

    /** The segment that serves {@code offset}; null: certainly none. */
    synchronized Row lookup(int epoch, long offset) throws NotReady, Deleted {
        return hit(known().lookup(epoch, offset));
    }

    /** The first segment from there on that may have a transaction index; null: none. */
    synchronized Row nextWithTxnIndex(int epoch, long offset) throws NotReady, Deleted {
        return hit(known().nextWithTxnIndex(epoch, offset));
    }

    /** A segment, in whatever state it is; null: certainly none. */
    synchronized Row of(Uuid id) throws NotReady, Deleted {
        return certain().of(id);
    }

    /** All segments at one position, in no order; read without the lock. */
    synchronized Stream<Row> listAll() throws NotReady, Deleted {
        return IntStream.of(certain().listAll()).mapToObj(rows.view());
    }

    /** The segments of an epoch at one position, by start offset; read without the lock. */
    synchronized Stream<Row> listEpoch(int epoch) throws NotReady, Deleted {
        return IntStream.of(certain().listEpoch(epoch)).mapToObj(rows.view());
    }

    /** The highest offset that ever finished in {@code epoch}; null if none did. */
    synchronized Long highest(int epoch) throws NotReady, Deleted {
        return certain().highest(epoch);
    }

    /** Bytes of all segments of an epoch. */
    synchronized long size(int epoch) throws NotReady, Deleted {
        return certain().size(epoch);
    }

    private ReplicaRows known() throws NotReady, Deleted {
        if (!isWhole() || position < asked) {
            throw new NotReady("the replica has no whole snapshot as new as what is known");
        }
        if (deletion == DeletionState.DELETE_PARTITION_FINISHED) {
            throw new Deleted();
        }
        return rows;
    }

    private ReplicaRows certain() throws NotReady, Deleted {
        ReplicaRows known = known();
        if (!isReady) {
            throw new NotReady("the replica may be behind the announced head");
        }
        return known;
    }

    /** A found segment is an answer even if the replica lags; "none" only if it is certain. */
    private Row hit(Row found) throws NotReady, Deleted {
        return found != null || certain() != null ? found : null;
    }
}
