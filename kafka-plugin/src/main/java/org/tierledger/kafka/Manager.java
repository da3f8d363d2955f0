package org.tierledger.kafka;

import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;

/** Who knows a cluster's remote log metadata: Kafka's own manager, or tierledger. */
interface Manager {
    boolean isReady(TopicIdPartition tip);

    /** As the broker's interface has it for that question: an Optional, an Iterator or a Long. */
    Object answer(Question question) throws RemoteStorageException;

    /** Done when it is durable, and this broker's answers know of it. */
    CompletableFuture<Void> write(RemoteLogMetadata change) throws RemoteStorageException;

    /** Whether an upload would have been in vain if that change were refused. */
    static boolean isFinish(RemoteLogMetadata change) {
        return change instanceof RemoteLogSegmentMetadataUpdate
            && ((RemoteLogSegmentMetadataUpdate) change).state()
                == RemoteLogSegmentState.COPY_SEGMENT_FINISHED;
    }
}
