package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.tierledger.door.v1.Change;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Contents;
import org.tierledger.door.v1.DeletionState;
import org.tierledger.door.v1.EpochNumbers;
import org.tierledger.door.v1.Fed;
import org.tierledger.door.v1.FeedReady;
import org.tierledger.door.v1.Slice;
import org.tierledger.door.v1.SnapshotBegun;
import org.tierledger.door.v1.Subscribe;

/**
 * One partition's answers, from what {@link #take} is given; docs/feed.md is the protocol.
 *
 * <p>It answers as the service did at the same position, or not at all. Its position never goes
 * back. What it holds adds up to the checksum of each batch, or it holds nothing any more. Safe
 * for threads.
 */
final class Replica {
    /** Why a replica needs a new subscription. */
    static final class Refusal {
        final String reason;
        /** Whether what it held cannot be trusted, and is gone. */
        final boolean isDropped;

        Refusal(String reason, boolean isDropped) {
            this.reason = reason;
            this.isDropped = isDropped;
        }
    }

    /** Rows at one position, for reading without the lock. */
    static final class Listing {
        final byte[][] chunks;
        final int[] refs;

        Listing(byte[][] chunks, int[] refs) {
            this.chunks = chunks;
            this.refs = refs;
        }

        Row row(int index) {
            int ref = refs[index];
            return new Row(chunks[Slab.chunkOf(ref)], Slab.rowAt(ref));
        }
    }

    /** It would not be certain. */
    static final class NotReady extends Exception {
        NotReady(String message) {
            super(message);
        }
    }

    /** The partition's deletion has finished. */
    static final class Deleted extends Exception {
        Deleted() {
            super("its deletion is finished");
        }
    }

    private static final long NONE = -1;
    /** Of a segment, beside its row. */
    private static final long INDEX_BYTES = 120;
    /** A snapshot of an empty log is one of -1. */
    private static final long NO_SNAPSHOT = Long.MIN_VALUE;

    private Claim claim;
    /** The highest position that it answered at, or was offered, and the log's hash there. */
    private long floor = NONE;
    private ByteString floorHash = ByteString.EMPTY;
    /** The highest position that the service answered at in its place. */
    private long asked = NONE;
    private long position;
    private byte[] chainHash;
    private boolean isWhole;
    private boolean isReady;
    private DeletionState deletion;
    private byte[] checksum;
    /** Where the snapshot is that comes, and its next slice; {@link #NO_SNAPSHOT} if none does. */
    private long snapshotPosition;
    private long nextSlice;
    private final Set<Uuid> newerIds = new HashSet<>();
    private final Set<Integer> newerEpochs = new HashSet<>();
    private final List<Change> parts = new ArrayList<>();
    private ReplicaRows rows;

    Replica() {
        drop();
    }

    /** Forget what it holds; below the highest position that it answered at it stays silent. */
    synchronized void drop() {
        position = NONE;
        chainHash = new byte[0];
        isWhole = false;
        isReady = false;
        deletion = null;
        checksum = new byte[0];
        snapshotPosition = NO_SNAPSHOT;
        nextSlice = 0;
        newerIds.clear();
        newerEpochs.clear();
        parts.clear();
        rows = new ReplicaRows();
    }

    /** Nothing is ready before a host says so of that announcement; null: of none. */
    synchronized void expect(Claim announced) {
        isReady = isReady && announced != null && announced.equals(claim);
        claim = announced;
    }

    synchronized boolean isReady() {
        return isReady;
    }

    synchronized boolean isWhole() {
        return isWhole;
    }

    /** The last batch that it has applied; -1 if it holds nothing whole. */
    synchronized long position() {
        return isWhole ? position : NONE;
    }

    /** No answer may be from before. */
    synchronized long floor() {
        return Math.max(floor, asked);
    }

    /** The service has answered, or written, at that position. */
    synchronized void answered(long there) {
        asked = Math.max(asked, there);
    }

    /** How far it is behind what this broker has heard of. */
    synchronized long behind() {
        return Math.max(0, asked - position);
    }

    /** It was there before the broker was started anew. */
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

    /** About the bytes that it takes in the heap, with its indexes. */
    synchronized long heapBytes() {
        return rows.size() + INDEX_BYTES * rows.count();
    }

    /** What to ask a host for: to go on from here, if anything is here. */
    synchronized Subscribe.Builder subscription() {
        Subscribe.Builder wanted = Subscribe.newBuilder();
        if (claim != null) {
            wanted.setClaim(claim);
        }
        if (floor() != NONE) {
            wanted.setFloor(floor());
        }
        if (floor != NONE) {
            wanted.setPosition(floor).setChainHash(floorHash).setWithoutRows(!isWhole);
        }
        return wanted;
    }

    // The feed.

    /** Apply the next item; null if the subscription goes on. What came already does no harm. */
    synchronized Refusal take(Fed item) {
        switch (item.getWhatCase()) {
            case SNAPSHOT: return begin(item.getSnapshot());
            case SLICE: return slice(item.getSlice());
            case CHANGE: return change(item.getChange());
            case READY: return ready(item.getReady());
            case FENCED:
                isReady = isReady && !item.getFenced().getClaim().equals(claim);
                return null;
            case OTHER_HISTORY:
                return refused("the log is another at " + item.getOtherHistory().getPosition());
            default:
                throw new IllegalArgumentException("expected what a replica is given");
        }
    }

    private Refusal refused(String reason) {
        drop();
        return new Refusal(reason, true);
    }

    private Refusal begin(SnapshotBegun begun) {
        if (begun.getPosition() < floor) {
            return refused("a snapshot of " + begun.getPosition() + " came after " + floor);
        }
        drop();
        position = begun.getPosition();
        chainHash = begun.getChainHash().toByteArray();
        deletion = begun.hasDeletion() ? begun.getDeletion() : null;
        checksum = begun.getChecksum().toByteArray();
        snapshotPosition = position;
        remember(position, begun.getChainHash());
        return null;
    }

    private Refusal slice(Slice part) {
        if (snapshotPosition == NO_SNAPSHOT || part.getPosition() < snapshotPosition
            || part.getPosition() == snapshotPosition && part.getNumber() < nextSlice) {
            return null;
        }
        if (part.getPosition() != snapshotPosition || part.getNumber() != nextSlice) {
            return refused("slice " + part.getNumber() + " of " + part.getPosition() + " came, "
                + nextSlice + " of " + snapshotPosition + " was next");
        }
        nextSlice++;
        rows.put(part.getContents(), newerIds, newerEpochs);
        return part.getIsLast() ? whole() : null;
    }

    private Refusal whole() {
        isWhole = true;
        snapshotPosition = NO_SNAPSHOT;
        newerIds.clear();
        newerEpochs.clear();
        rows.place();
        return verified();
    }

    private Refusal change(Change part) {
        if (part.getPosition() <= position) {
            return null;
        }
        if (part.getAfter() != position || part.getNumber() > parts.size()) {
            return new Refusal("part " + part.getNumber() + " of " + part.getAfter() + " to "
                + part.getPosition() + " came after " + position, false);
        }
        parts.subList((int) part.getNumber(), parts.size()).clear();
        parts.add(part);
        if (!part.getIsLast()) {
            return null;
        }
        for (Change one : parts) {
            apply(one.getContents());
        }
        parts.clear();
        position = part.getPosition();
        chainHash = part.getChainHash().toByteArray();
        deletion = part.hasDeletion() ? part.getDeletion() : null;
        checksum = part.getChecksum().toByteArray();
        if (deletion == DeletionState.DELETE_PARTITION_FINISHED) {
            rows = new ReplicaRows();
            return whole(); // Whatever slices were to come.
        }
        return isWhole ? verified() : null;
    }

    private void apply(Contents contents) {
        rows.put(contents, Set.of(), Set.of());
        if (snapshotPosition != NO_SNAPSHOT) {
            contents.getRowsList().forEach(row -> newerIds.add(
                ReplicaRows.idOf(row.toByteArray())));
            contents.getGoneList().forEach(id -> newerIds.add(Segments.uuid(id)));
            for (EpochNumbers one : contents.getEpochsList()) {
                newerEpochs.add(one.getEpoch());
            }
        }
    }

    private Refusal verified() {
        Blake2b sum = new Blake2b();
        sum.add(rows.shares());
        int state = deletion == null ? -1 : deletion.getNumber() - 1;
        byte[] head = ByteBuffer.allocate(10 + chainHash.length).put((byte) 'P')
            .putLong(position).put((byte) state).put(chainHash).array();
        sum.add(head, 0, head.length);
        if (!sum.is(checksum)) {
            return refused("the checksum at " + position + " is not that of what is here");
        }
        remember(position, ByteString.copyFrom(chainHash));
        return null;
    }

    private Refusal ready(FeedReady said) {
        if (!isWhole) {
            return refused("ready was said before the last slice came");
        }
        if (position < said.getPosition()) {
            return new Refusal(
                "ready was said at " + said.getPosition() + ", " + position + " is here", false);
        }
        ready(said.getClaim());
        return null;
    }

    /** The service has what stood when {@code said} was announced, and so has this replica. */
    synchronized void ready(Claim said) {
        isReady = isReady || Objects.equals(said, claim);
    }

    // Answers, as of its position.

    /** The segment that serves {@code offset}; null: none, for certain. */
    synchronized Row lookup(int epoch, long offset) throws NotReady, Deleted {
        Row found = known().lookup(epoch, offset);
        return found != null ? found : none();
    }

    /** The first segment from there that may have a transaction index; null: none. */
    synchronized Row nextWithTxnIndex(int epoch, long offset) throws NotReady, Deleted {
        Row found = known().nextWithTxnIndex(epoch, offset);
        return found != null ? found : none();
    }

    /** All segments, in no order. */
    synchronized Listing listAll() throws NotReady, Deleted {
        ReplicaRows certain = certain();
        return new Listing(certain.view(), certain.listAll());
    }

    /** The segments of an epoch, by start offset. */
    synchronized Listing listEpoch(int epoch) throws NotReady, Deleted {
        ReplicaRows certain = certain();
        return new Listing(certain.view(), certain.listEpoch(epoch));
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
        if (!isWhole || position < asked) {
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

    /** Nothing, if that is certain. */
    private Row none() throws NotReady, Deleted {
        certain();
        return null;
    }
}
