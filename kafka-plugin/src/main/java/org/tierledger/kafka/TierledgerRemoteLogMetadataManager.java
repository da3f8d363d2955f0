package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Found;
import org.tierledger.door.v1.QuestionKind;
import org.tierledger.door.v1.Role;
import org.tierledger.door.v1.Write;

/**
 * Remote log metadata of a stock broker, kept by tierledger.
 *
 * <p>Reads answer from a replica in this broker's heap, of the partitions that it hosts. What the
 * replica does not know for certain the service is asked; what it does not answer in time is a
 * {@link ReplicaNotAvailableException}, which brokers retry; a partition that this broker does not host is a
 * {@link RemoteResourceNotFoundException}. Writes are done when they are durable and the replica
 * has them, or fail within their timeout.
 */
public final class TierledgerRemoteLogMetadataManager implements RemoteLogMetadataManager {
    private static final long CLOSE_MS = 5_000;
    /** One lookup in so many and one is measured. */
    private static final int SAMPLED = 63;

    private final Logger log =
        LoggerFactory.getLogger(TierledgerRemoteLogMetadataManager.class);
    private final Segments segments = new Segments();
    private final long requestPrefix = UUID.randomUUID().getMostSignificantBits();
    private final AtomicLong requests = new AtomicLong();
    private volatile Settings settings;
    private volatile Loop loop;
    private volatile Roles roles;
    private volatile Questions questions;
    private volatile boolean isClosed;

    /** Made by the broker, which configures it. */
    public TierledgerRemoteLogMetadataManager() {}

    /**
     * Returns at once; the service is looked for from then on. A second call is ignored.
     *
     * @throws org.apache.kafka.common.config.ConfigException a setting is missing or wrong
     */
    @Override
    public synchronized void configure(Map<String, ?> configs) {
        if (roles != null || isClosed) {
            return;
        }
        settings = new Settings(configs);
        loop = new Loop("tierledger-broker-" + settings.brokerId);
        Roles made = new Roles(settings, loop);
        made.metrics.register(settings.brokerId);
        questions = new Questions(loop, made.metrics);
        roles = made;
        loop.run(() -> made.doors().seek(0));
    }

    /** Nothing of it is left, no thread and no socket; later calls fail. */
    @Override
    public synchronized void close() {
        isClosed = true;
        Roles ending = roles;
        if (ending == null) {
            return;
        }
        roles = null;
        ending.metrics.unregister();
        CompletableFuture<List<DoorStream>> ended = new CompletableFuture<>();
        loop.run(() -> {
            ending.close("the plugin was closed");
            ended.complete(ending.doors().close());
        });
        try {
            for (DoorStream stream : ended.get(CLOSE_MS, TimeUnit.MILLISECONDS)) {
                stream.awaitClosed(CLOSE_MS);
            }
            ending.memory.write();
            loop.close();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException error) {
            log.warn("The tierledger plugin did not end in time", error);
        }
    }

    // Notifications.

    @Override
    public void onPartitionLeadershipChanges(
        Set<TopicIdPartition> leaderPartitions, Set<TopicIdPartition> followerPartitions) {
        Objects.requireNonNull(leaderPartitions, "leaderPartitions");
        Objects.requireNonNull(followerPartitions, "followerPartitions");
        Roles known = known();
        known.become(Role.LEADER, leaderPartitions);
        known.become(Role.FOLLOWER, followerPartitions);
    }

    @Override
    public void onStopPartitions(Set<TopicIdPartition> partitions) {
        known().become(Role.ROLE_UNSPECIFIED, Objects.requireNonNull(partitions, "partitions"));
    }

    /** Whether the replica has caught up with what stood when this broker got its role. */
    public boolean isReady(TopicIdPartition topicIdPartition) {
        Roles known = roles;
        Hosted hosted = known == null ? null : known.of(topicIdPartition);
        return hosted != null && hosted.replica.isReady();
    }

    // Writes.

    @Override
    public CompletableFuture<Void> addRemoteLogSegmentMetadata(
        RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        Objects.requireNonNull(metadata, "remoteLogSegmentMetadata");
        if (metadata.state() != RemoteLogSegmentState.COPY_SEGMENT_STARTED) {
            throw new IllegalArgumentException(
                "expected COPY_SEGMENT_STARTED to be added, got " + metadata.state());
        }
        return write(
            metadata.topicIdPartition(), Write.newBuilder().setAdd(segments.add(metadata)), false);
    }

    @Override
    public CompletableFuture<Void> updateRemoteLogSegmentMetadata(
        RemoteLogSegmentMetadataUpdate update) throws RemoteStorageException {
        Objects.requireNonNull(update, "remoteLogSegmentMetadataUpdate");
        if (update.state() == RemoteLogSegmentState.COPY_SEGMENT_STARTED) {
            throw new IllegalArgumentException("an update to COPY_SEGMENT_STARTED");
        }
        return write(
            update.topicIdPartition(), Write.newBuilder().setUpdate(segments.update(update)),
            update.state() == RemoteLogSegmentState.COPY_SEGMENT_FINISHED);
    }

    @Override
    public CompletableFuture<Void> putRemotePartitionDeleteMetadata(
        RemotePartitionDeleteMetadata metadata) throws RemoteStorageException {
        Objects.requireNonNull(metadata, "remotePartitionDeleteMetadata");
        return write(
            metadata.topicIdPartition(), Write.newBuilder().setDelete(segments.delete(metadata)),
            false);
    }

    private CompletableFuture<Void> write(
        TopicIdPartition tip, Write.Builder write, boolean isFinish)
        throws RemoteStorageException {
        Roles known = known();
        Hosted hosted = hosted(tip);
        if (hosted.role != Role.LEADER) {
            throw notReady(tip, "this broker does not lead it");
        }
        if (known.isAway() && !isFinish) {
            throw notReady(tip, "no host of tierledger answers");
        }
        write.setPartition(Segments.partition(tip))
            .setOriginBrokerId(settings.brokerId)
            .setRequestId(ByteString.copyFrom(ByteBuffer.allocate(16)
                .putLong(requestPrefix).putLong(requests.incrementAndGet()).array()));
        long begun = System.nanoTime();
        long timeoutMs = isFinish ? settings.finishTimeoutMs : settings.writeTimeoutMs;
        CompletableFuture<Void> done = new CompletableFuture<>();
        CompletableFuture<Void> counted = done.whenComplete((nothing, error) -> {
            if (error != null) {
                known.metrics.writesFailed.increment();
            } else {
                known.metrics.writes.add(System.nanoTime() - begun);
            }
        });
        loop.run(() -> hosted.writes.submit(
            write, timeoutMs, write.getChangeCase().toString(), done));
        if (isClosed) { // The loop may have dropped it.
            done.completeExceptionally(new RemoteStorageException("the plugin was closed"));
        }
        return counted;
    }

    // Reads.

    @Override
    public Optional<RemoteLogSegmentMetadata> remoteLogSegmentMetadata(
        TopicIdPartition topicIdPartition, int epochForOffset, long offset)
        throws RemoteStorageException {
        boolean isSampled = (ThreadLocalRandom.current().nextInt() & SAMPLED) == 0;
        long begun = isSampled ? System.nanoTime() : 0;
        Optional<RemoteLogSegmentMetadata> found = answer(
            topicIdPartition, replica -> segment(
                topicIdPartition, replica.lookup(epochForOffset, offset)),
            QuestionKind.LOOKUP, epochForOffset, offset,
            (hosted, answer) -> segment(topicIdPartition, rowIn(answer)));
        if (isSampled) {
            known().metrics.lookups.add(System.nanoTime() - begun);
        }
        return found;
    }

    /** The first segment from {@code offset} on that may have a transaction index. */
    public Optional<RemoteLogSegmentMetadata> nextSegmentWithTxnIndex(
        TopicIdPartition topicIdPartition, int epoch, long offset)
        throws RemoteStorageException {
        return answer(
            topicIdPartition, replica -> segment(
                topicIdPartition, replica.nextWithTxnIndex(epoch, offset)),
            QuestionKind.NEXT_TXN_SEGMENT, epoch, offset,
            (hosted, answer) -> segment(topicIdPartition, rowIn(answer)));
    }

    @Override
    public Optional<Long> highestOffsetForEpoch(TopicIdPartition topicIdPartition, int epoch)
        throws RemoteStorageException {
        return answer(
            topicIdPartition, replica -> Optional.ofNullable(replica.highest(epoch)),
            QuestionKind.HIGHEST_OFFSET, epoch, 0, (hosted, answer) ->
                answer.hasNumber() ? Optional.of(answer.getNumber()) : Optional.empty());
    }

    @Override
    public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(
        TopicIdPartition topicIdPartition) throws RemoteStorageException {
        return answer(
            topicIdPartition, replica -> iterator(topicIdPartition, replica.listAll()),
            QuestionKind.LIST, 0, 0, (hosted, answer) -> iterator(hosted, answer));
    }

    @Override
    public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(
        TopicIdPartition topicIdPartition, int epoch) throws RemoteStorageException {
        return answer(
            topicIdPartition, replica -> iterator(topicIdPartition, replica.listEpoch(epoch)),
            QuestionKind.LIST_EPOCH, epoch, 0, (hosted, answer) -> iterator(hosted, answer));
    }

    @Override
    public long remoteLogSize(TopicIdPartition topicIdPartition, int epoch)
        throws RemoteStorageException {
        return answer(
            topicIdPartition, replica -> replica.size(epoch),
            QuestionKind.SIZE, epoch, 0, (hosted, answer) -> answer.getNumber());
    }

    private interface Question<T> {
        T ask(Replica replica) throws Replica.NotReady, Replica.Deleted;
    }

    private interface FromService<T> {
        T read(Hosted hosted, Found answer);
    }

    /** What the replica answers, or the service of the same question. */
    private <T> T answer(
        TopicIdPartition tip, Question<T> question, QuestionKind kind, int epoch, long offset,
        FromService<T> fromService) throws RemoteStorageException {
        Hosted hosted = hosted(tip);
        try {
            try {
                return question.ask(hosted.replica);
            } catch (Replica.NotReady why) {
                return fromService.read(
                    hosted, questions.ask(hosted, kind, epoch, offset, why));
            }
        } catch (Replica.NotReady error) {
            throw notReady(tip, error.getMessage());
        } catch (Replica.Deleted error) {
            throw new RemoteResourceNotFoundException(tip + ": " + error.getMessage());
        }
    }

    private static Row rowIn(Found answer) {
        return answer.hasRow() ? new Row(answer.getRow().toByteArray(), 0) : null;
    }

    /** A list of the service's, whose further pages are asked for when it is read so far. */
    private Iterator<RemoteLogSegmentMetadata> iterator(Hosted hosted, Found first) {
        return new Iterator<>() {
            private Found page = first;
            private int next;

            @Override
            public boolean hasNext() {
                while (next == page.getRows().getRowsCount() && page.hasCursor()) {
                    try {
                        page = questions.page(hosted, page.getCursor());
                    } catch (Replica.NotReady | Replica.Deleted error) {
                        throw notReady(hosted.tip, error.getMessage());
                    }
                    next = 0;
                }
                return next < page.getRows().getRowsCount();
            }

            @Override
            public RemoteLogSegmentMetadata next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return segments.metadata(
                    hosted.tip, new Row(page.getRows().getRows(next++).toByteArray(), 0));
            }
        };
    }

    private Optional<RemoteLogSegmentMetadata> segment(TopicIdPartition tip, Row row) {
        return row == null ? Optional.empty() : Optional.of(segments.metadata(tip, row));
    }

    private Iterator<RemoteLogSegmentMetadata> iterator(
        TopicIdPartition tip, Replica.Listing listing) {
        return new Iterator<>() {
            private int next;

            @Override
            public boolean hasNext() {
                return next < listing.refs.length;
            }

            @Override
            public RemoteLogSegmentMetadata next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return segments.metadata(tip, listing.row(next++));
            }
        };
    }

    private Hosted hosted(TopicIdPartition tip) throws RemoteResourceNotFoundException {
        Hosted hosted = known().of(Objects.requireNonNull(tip, "topicIdPartition"));
        if (hosted == null) {
            throw new RemoteResourceNotFoundException(tip + " is not hosted by this broker");
        }
        return hosted;
    }

    private ReplicaNotAvailableException notReady(TopicIdPartition tip, String why) {
        Roles known = roles;
        if (known != null) {
            known.metrics.notReady.increment();
        }
        return new ReplicaNotAvailableException(tip + ": " + why);
    }

    private Roles known() {
        Roles known = roles;
        if (known == null) {
            throw new IllegalStateException(
                isClosed ? "the tierledger plugin is closed" : "it is not configured");
        }
        return known;
    }
}
