package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.DeletionCause;
import org.tierledger.door.v1.Found;
import org.tierledger.door.v1.QuestionKind;
import org.tierledger.door.v1.Role;
import org.tierledger.door.v1.UpdateSegment;
import org.tierledger.door.v1.Write;

/**
 * The manager whose metadata tierledger keeps.
 *
 * <p>Reads are answered from a replica in this broker's heap, for partitions that it hosts; for
 * a partition that it does not host they throw {@link RemoteResourceNotFoundException}. What
 * the replica does not know for certain, the service is asked. Without its answer in time they
 * throw {@link ReplicaNotAvailableException}, which brokers retry. Writes complete when they
 * are durable and the replica has applied them, or fail within their timeout.
 */
final class Ledger implements Manager {
    private static final long CLOSE_MS = 5_000;
    /** One lookup in 64 is measured; a mask of random bits. */
    private static final int SAMPLED = 63;

    final Roles roles;

    private final Logger log = LoggerFactory.getLogger(Ledger.class);
    private final Segments segments = new Segments();
    private final Settings settings;
    private final Loop loop;
    private final Questions questions;
    private volatile boolean isClosed;

    Ledger(Settings settings, Loop loop) {
        this.settings = settings;
        this.loop = loop;
        this.roles = new Roles(settings, loop);
        this.questions = new Questions(loop, roles.metrics);
    }

    /** Register the metrics and start to connect to the service; returns at once. */
    void begin() {
        roles.metrics.register(settings.brokerId);
        roles.begin();
    }

    /** Close all streams and sockets, and save the replicas and their positions; pending calls fail. */
    void close() {
        isClosed = true;
        roles.metrics.unregister();
        List<Runnable> saves = new ArrayList<>();
        CompletableFuture<List<DoorStream>> ended = CompletableFuture.supplyAsync(() -> {
            saves.addAll(roles.close("the plugin was closed"));
            return roles.doors.close();
        }, loop.timer());
        try {
            for (DoorStream stream : ended.get(CLOSE_MS, TimeUnit.MILLISECONDS)) {
                stream.awaitClosed(CLOSE_MS);
            }
            roles.memory.write();
            saves.forEach(Runnable::run);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException error) {
            log.warn("The tierledger plugin did not end in time", error);
        }
    }

    @Override
    public boolean isReady(TopicIdPartition tip) {
        Hosted hosted = roles.of(tip);
        return hosted != null && hosted.replica.isReady();
    }

    /** The position as of which the partition's replica answers; -1 while it cannot. */
    long position(TopicIdPartition tip) throws RemoteResourceNotFoundException {
        return hosted(tip).replica.position();
    }

    @Override
    public CompletableFuture<Void> write(RemoteLogMetadata change) throws RemoteStorageException {
        TopicIdPartition tip = change.topicIdPartition();
        Hosted hosted = hosted(tip);
        boolean isFinish = Manager.isFinish(change);
        if (hosted.role != Role.LEADER) {
            throw notReady(tip, "this broker does not lead it");
        }
        if (hosted.feed.isOther()) {
            throw notReady(tip, "its log is not the one that this broker was fed from");
        }
        if (roles.doors.isAway() && !isFinish) {
            throw notReady(tip, "no host of tierledger answers");
        }
        Write.Builder write = message(change)
            .setPartition(Segments.partition(tip))
            .setOriginBrokerId(settings.brokerId)
            .setRequestId(RequestId.random());
        long begun = System.nanoTime();
        long timeoutMs = isFinish ? settings.finishTimeoutMs : settings.writeTimeoutMs;
        CompletableFuture<Void> done = new CompletableFuture<>();
        CompletableFuture<Void> counted = done.whenComplete((nothing, error) -> {
            if (error != null) {
                roles.metrics.writesFailed.increment();
            } else {
                roles.metrics.writes.recordValue(System.nanoTime() - begun);
            }
        });
        loop.run(() -> hosted.writes.submit(write, timeoutMs, done));
        if (isClosed) { // A loop that is closed drops what it is given.
            done.completeExceptionally(new RemoteStorageException("the plugin was closed"));
        }
        return counted;
    }

    private Write.Builder message(RemoteLogMetadata change) {
        Write.Builder write = Write.newBuilder();
        if (change instanceof RemoteLogSegmentMetadata) {
            RemoteLogSegmentMetadata added = (RemoteLogSegmentMetadata) change;
            if (added.state() != RemoteLogSegmentState.COPY_SEGMENT_STARTED) {
                throw new IllegalArgumentException(
                    "expected COPY_SEGMENT_STARTED to be added, got " + added.state());
            }
            return write.setAdd(segments.add(added));
        }
        if (change instanceof RemoteLogSegmentMetadataUpdate) {
            RemoteLogSegmentMetadataUpdate update = (RemoteLogSegmentMetadataUpdate) change;
            if (update.state() == RemoteLogSegmentState.COPY_SEGMENT_STARTED) {
                throw new IllegalArgumentException("expected a state after COPY_SEGMENT_STARTED");
            }
            UpdateSegment.Builder message = segments.update(update);
            if (update.state() == RemoteLogSegmentState.DELETE_SEGMENT_STARTED
                && SameBroker.only(SameBroker.GUARD, settings.brokerId) != null) {
                message.setGuardedFor(cause());
            }
            return write.setUpdate(message);
        }
        return write.setDelete(segments.delete((RemotePartitionDeleteMetadata) change));
    }

    /** Why the broker deletes, by the code that calls here; its names are those of 3.9 to 4.4. */
    private static DeletionCause cause() {
        return StackWalker.getInstance().walk(frames -> frames
            .filter(one -> one.getClassName().contains(".RemoteLogManager"))
            .map(one -> one.getClassName().endsWith("$RLMExpirationTask") ? DeletionCause.RETENTION
                : one.getMethodName().equals("deleteRemoteLogPartition")
                    ? DeletionCause.TOPIC_DELETION : null)
            .filter(Objects::nonNull).findFirst()
            .orElse(DeletionCause.DELETION_CAUSE_UNSPECIFIED));
    }

    @Override
    public Object answer(Question question) throws RemoteStorageException {
        long begun = question.kind == QuestionKind.LOOKUP
            && (ThreadLocalRandom.current().nextInt() & SAMPLED) == 0 ? System.nanoTime() : 0;
        Object answer;
        try {
            answer = ownAnswer(question);
            if (question.isOfSegment() && ((Optional<?>) answer).isEmpty()
                && hosted(question.tip).role == Role.FOLLOWER) {
                // The leader may have finished a segment that is still on its way to here. A
                // follower that begins at the newest tiered offset asks for just that one.
                throw new Replica.NotReady("a follower's replica may be behind its leader");
            }
        } catch (Replica.NotReady why) {
            answer = answerOfService(question, why);
        } catch (Replica.Deleted error) {
            throw deleted(question.tip, error);
        }
        if (begun != 0) {
            roles.metrics.lookups.recordValue(System.nanoTime() - begun);
        }
        return answer;
    }

    /** From the replica, in no time; else the service lists the epoch. */
    @Override
    public RemoteLogSegmentState state(RemoteLogSegmentId segment, int epoch)
        throws RemoteStorageException {
        try {
            Row row = hosted(segment.topicIdPartition()).replica.of(segment.id());
            return row == null ? null : RemoteLogSegmentState.forId((byte) row.state);
        } catch (Replica.NotReady why) {
            return Manager.super.state(segment, epoch);
        } catch (Replica.Deleted error) {
            throw deleted(segment.topicIdPartition(), error);
        }
    }

    private static RemoteResourceNotFoundException deleted(
        TopicIdPartition tip, Replica.Deleted error) {
        return new RemoteResourceNotFoundException(tip + ": " + error.getMessage());
    }

    /** The replica's answer, without asking the service. */
    Object ownAnswer(Question question)
        throws RemoteResourceNotFoundException, Replica.NotReady, Replica.Deleted {
        TopicIdPartition tip = question.tip;
        Replica replica = hosted(tip).replica;
        switch (question.kind) {
            case LOOKUP: return segment(tip, replica.lookup(question.epoch, question.offset));
            case NEXT_TXN_SEGMENT:
                return segment(tip, replica.nextWithTxnIndex(question.epoch, question.offset));
            case HIGHEST_OFFSET: return Optional.ofNullable(replica.highest(question.epoch));
            case SIZE: return replica.size(question.epoch);
            case LIST: return iterator(tip, replica.listAll());
            default: return iterator(tip, replica.listEpoch(question.epoch));
        }
    }

    /** The service's answer. {@code why}: what the replica lacks, for error messages. */
    Object answerOfService(Question question, Replica.NotReady why)
        throws RemoteResourceNotFoundException {
        Hosted hosted = hosted(question.tip);
        Found found;
        try {
            found = questions.ask(hosted, question, why);
        } catch (Replica.NotReady error) {
            throw notReady(question.tip, error.getMessage());
        } catch (Replica.Deleted error) {
            throw deleted(question.tip, error);
        }
        switch (question.kind) {
            case LOOKUP:
            case NEXT_TXN_SEGMENT:
                return segment(question.tip, found.hasRow() ? row(found.getRow()) : null);
            case HIGHEST_OFFSET:
                return found.hasNumber() ? Optional.of(found.getNumber()) : Optional.empty();
            case SIZE: return found.getNumber();
            default: return iterator(hosted, found);
        }
    }

    private static Row row(ByteString bytes) {
        return new Row(bytes.toByteArray(), 0);
    }

    /** A list of the service's; each further page is requested when the reader gets there. */
    private Iterator<RemoteLogSegmentMetadata> iterator(Hosted hosted, Found first) {
        return Stream.iterate(first, Objects::nonNull, page -> next(hosted, page))
            .flatMap(page -> page.getRows().getRowsList().stream())
            .map(bytes -> segments.metadata(hosted.tip, row(bytes))).iterator();
    }

    private Found next(Hosted hosted, Found page) {
        try {
            return page.hasCursor() ? questions.page(hosted, page.getCursor()) : null;
        } catch (Replica.NotReady | Replica.Deleted error) {
            throw notReady(hosted.tip, error.getMessage());
        }
    }

    private Optional<RemoteLogSegmentMetadata> segment(TopicIdPartition tip, Row row) {
        return row == null ? Optional.empty() : Optional.of(segments.metadata(tip, row));
    }

    private Iterator<RemoteLogSegmentMetadata> iterator(TopicIdPartition tip, Stream<Row> rows) {
        return rows.map(row -> segments.metadata(tip, row)).iterator();
    }

    private Hosted hosted(TopicIdPartition tip) throws RemoteResourceNotFoundException {
        Hosted hosted = roles.of(Objects.requireNonNull(tip, "topicIdPartition"));
        if (hosted == null) {
            throw new RemoteResourceNotFoundException(tip + " is not hosted by this broker");
        }
        return hosted;
    }

    ReplicaNotAvailableException notReady(TopicIdPartition tip, String why) {
        roles.metrics.notReady.increment();
        return new ReplicaNotAvailableException(tip + ": " + why);
    }
}
