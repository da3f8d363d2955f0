package org.tierledger.kafka;

import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;

/** A keeper of a cluster's remote log metadata: Kafka's own manager, or tierledger. */
interface Manager {
    boolean isReady(TopicIdPartition tip);

    /** The answer as the broker's interface wants it: an Optional, an Iterator or a Long. */
    Object answer(Question question) throws RemoteStorageException;

    /** Completes when the change is durable and this broker's answers include it. */
    CompletableFuture<Void> write(RemoteLogMetadata change) throws RemoteStorageException;

    /** Whether the change finishes a copy: if it fails, an upload was in vain. */
    static boolean isFinish(RemoteLogMetadata change) {
        return change instanceof RemoteLogSegmentMetadataUpdate
            && ((RemoteLogSegmentMetadataUpdate) change).state()
                == RemoteLogSegmentState.COPY_SEGMENT_FINISHED;
    }
}
