package org.tierledger.kafka;

import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.tierledger.door.v1.QuestionKind;

/** A stock broker's remote log metadata manager: tierledger, or Kafka's own during a move. */
public final class TierledgerRemoteLogMetadataManager implements RemoteLogMetadataManager {
    private volatile Deciding deciding;
    private volatile boolean isClosed;

    /** The broker creates the manager and then configures it. */
    public TierledgerRemoteLogMetadataManager() {}

    /**
     * Configure the manager, and connect to the service in the background. A second call is
     * ignored.
     *
     * @throws org.apache.kafka.common.config.ConfigException a setting is missing or wrong
     */
    @Override
    public synchronized void configure(Map<String, ?> configs) {
        if (deciding != null || isClosed) {
            return;
        }
        deciding = new Deciding(new Settings(configs), configs);
        deciding.begin();
    }

    /** End all threads and sockets; later calls fail. */
    @Override
    public synchronized void close() {
        isClosed = true;
        Deciding ending = deciding;
        deciding = null;
        if (ending != null) {
            ending.close();
        }
    }

    @Override
    public void onPartitionLeadershipChanges(
        Set<TopicIdPartition> leaderPartitions, Set<TopicIdPartition> followerPartitions) {
        known().onPartitionLeadershipChanges(leaderPartitions, followerPartitions);
    }

    @Override
    public void onStopPartitions(Set<TopicIdPartition> partitions) {
        known().onStopPartitions(partitions);
    }

    /** Whether answers include all that was durable when this broker's role was announced. */
    public boolean isReady(TopicIdPartition topicIdPartition) {
        Deciding known = deciding;
        return known != null && known.isReady(topicIdPartition);
    }

    @Override
    public CompletableFuture<Void> addRemoteLogSegmentMetadata(
        RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        return known().write(metadata);
    }

    @Override
    public CompletableFuture<Void> updateRemoteLogSegmentMetadata(
        RemoteLogSegmentMetadataUpdate update) throws RemoteStorageException {
        return known().write(update);
    }

    @Override
    public CompletableFuture<Void> putRemotePartitionDeleteMetadata(
        RemotePartitionDeleteMetadata metadata) throws RemoteStorageException {
        return known().write(metadata);
    }

    @Override
    public Optional<RemoteLogSegmentMetadata> remoteLogSegmentMetadata(
        TopicIdPartition topicIdPartition, int epochForOffset, long offset)
        throws RemoteStorageException {
        return answer(QuestionKind.LOOKUP, topicIdPartition, epochForOffset, offset);
    }

    /** The first segment from {@code offset} on that may have a transaction index. */
    public Optional<RemoteLogSegmentMetadata> nextSegmentWithTxnIndex(
        TopicIdPartition topicIdPartition, int epoch, long offset)
        throws RemoteStorageException {
        return answer(QuestionKind.NEXT_TXN_SEGMENT, topicIdPartition, epoch, offset);
    }

    @Override
    public Optional<Long> highestOffsetForEpoch(TopicIdPartition topicIdPartition, int epoch)
        throws RemoteStorageException {
        return answer(QuestionKind.HIGHEST_OFFSET, topicIdPartition, epoch, 0);
    }

    @Override
    public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(
        TopicIdPartition topicIdPartition) throws RemoteStorageException {
        return answer(QuestionKind.LIST, topicIdPartition, 0, 0);
    }

    @Override
    public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(
        TopicIdPartition topicIdPartition, int epoch) throws RemoteStorageException {
        return answer(QuestionKind.LIST_EPOCH, topicIdPartition, epoch, 0);
    }

    @Override
    public long remoteLogSize(TopicIdPartition topicIdPartition, int epoch)
        throws RemoteStorageException {
        return this.<Long>answer(QuestionKind.SIZE, topicIdPartition, epoch, 0);
    }

    @SuppressWarnings("unchecked") // The question's kind determines the answer's type.
    private <T> T answer(QuestionKind kind, TopicIdPartition tip, int epoch, long offset)
        throws RemoteStorageException {
        return (T) known().answer(new Question(kind, tip, epoch, offset));
    }

    private Deciding known() {
        Deciding known = deciding;
        if (known == null) {
            throw new IllegalStateException(
                isClosed ? "the tierledger plugin is closed" : "it is not configured");
        }
        return known;
    }
}
