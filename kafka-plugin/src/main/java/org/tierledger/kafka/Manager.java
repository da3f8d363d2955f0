package org.tierledger.kafka;

import java.util.Iterator;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.tierledger.door.v1.QuestionKind;

/** A keeper of a cluster's remote log metadata: Kafka's own manager, or tierledger. */
interface Manager {
    boolean isReady(TopicIdPartition tip);

    /** The answer as the broker's interface wants it: an Optional, an Iterator or a Long. */
    Object answer(Question question) throws RemoteStorageException;

    /** Completes when the change is durable and this broker's answers include it. */
    CompletableFuture<Void> write(RemoteLogMetadata change) throws RemoteStorageException;

    /** The state of a segment that lists {@code epoch}; null: there is no such segment. */
    default RemoteLogSegmentState state(RemoteLogSegmentId segment, int epoch)
        throws RemoteStorageException {
        Iterator<?> listed = (Iterator<?>) answer(
            new Question(QuestionKind.LIST_EPOCH, segment.topicIdPartition(), epoch, 0));
        while (listed.hasNext()) {
            RemoteLogSegmentMetadata one = (RemoteLogSegmentMetadata) listed.next();
            if (one.remoteLogSegmentId().id().equals(segment.id())) {
                return one.state();
            }
        }
        return null;
    }

    /** Whether the change finishes a copy: if it fails, an upload was in vain. */
    static boolean isFinish(RemoteLogMetadata change) {
        return change instanceof RemoteLogSegmentMetadataUpdate
            && ((RemoteLogSegmentMetadataUpdate) change).state()
                == RemoteLogSegmentState.COPY_SEGMENT_FINISHED;
    }
}
