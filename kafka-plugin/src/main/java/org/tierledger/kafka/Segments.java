package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.tierledger.door.v1.AddSegment;
import org.tierledger.door.v1.DeletePartition;
import org.tierledger.door.v1.DeletionState;
import org.tierledger.door.v1.EpochStart;
import org.tierledger.door.v1.Partition;
import org.tierledger.door.v1.SegmentState;
import org.tierledger.door.v1.UpdateSegment;

/** Converts rows to Kafka's objects, and Kafka's objects to messages of the protocol. */
final class Segments {
    /** The constructor with {@code txnIdxEmpty}, and its getter; null with Kafka 3.9. */
    private final MethodHandle withTxnIdxEmpty;
    private final MethodHandle isTxnIdxEmpty;

    Segments() {
        MethodHandles.Lookup lookup = MethodHandles.publicLookup();
        MethodHandle constructor = null;
        MethodHandle getter = null;
        try {
            constructor = lookup.findConstructor(
                RemoteLogSegmentMetadata.class,
                MethodType.methodType(
                    void.class, RemoteLogSegmentId.class, long.class, long.class, long.class,
                    int.class, long.class, int.class, Optional.class,
                    RemoteLogSegmentState.class, Map.class, boolean.class));
            getter = lookup.findVirtual(
                RemoteLogSegmentMetadata.class, "isTxnIdxEmpty",
                MethodType.methodType(boolean.class));
        } catch (NoSuchMethodException | IllegalAccessException beforeKafka4) {
            constructor = null;
        }
        withTxnIdxEmpty = constructor;
        isTxnIdxEmpty = getter;
    }

    /** The segment of a row. */
    RemoteLogSegmentMetadata metadata(TopicIdPartition tip, Row row) {
        RemoteLogSegmentMetadata made = row.metadata;
        if (made == null) {
            made = make(tip, row);
            row.metadata = made;
        }
        return made;
    }

    private RemoteLogSegmentMetadata make(TopicIdPartition tip, Row row) {
        RemoteLogSegmentId id = new RemoteLogSegmentId(tip, row.id);
        Map<Integer, Long> epochs = new HashMap<>(row.epochs.length);
        for (int i = 0; i < row.epochs.length; i += 3) {
            epochs.put((int) row.epochs[i], row.epochs[i + 1]);
        }
        Optional<CustomMetadata> custom = Optional.ofNullable(row.custom).map(CustomMetadata::new);
        RemoteLogSegmentState state = RemoteLogSegmentState.forId((byte) row.state);
        if (withTxnIdxEmpty == null) {
            return new RemoteLogSegmentMetadata(
                id, row.start, row.end, row.maxTimestampMs, row.brokerId, row.eventTimestampMs,
                row.size, custom, state, epochs);
        }
        try {
            return (RemoteLogSegmentMetadata) withTxnIdxEmpty.invokeExact(
                id, row.start, row.end, row.maxTimestampMs, row.brokerId, row.eventTimestampMs,
                row.size, custom, state, epochs, row.isTxnIndexEmpty);
        } catch (Throwable error) {
            throw new KafkaException("a segment's metadata cannot be made", error);
        }
    }

    /** Whether the transaction index is known to be empty. */
    boolean isTxnIdxEmpty(RemoteLogSegmentMetadata metadata) {
        if (isTxnIdxEmpty == null) {
            return false;
        }
        try {
            return (boolean) isTxnIdxEmpty.invokeExact(metadata);
        } catch (Throwable error) {
            throw new KafkaException("a segment's metadata cannot be read", error);
        }
    }

    AddSegment add(RemoteLogSegmentMetadata metadata) {
        AddSegment.Builder add = AddSegment.newBuilder()
            .setSegmentId(bytes(metadata.remoteLogSegmentId().id()))
            .setStartOffset(metadata.startOffset())
            .setEndOffset(metadata.endOffset())
            .setMaxTimestampMs(metadata.maxTimestampMs())
            .setBrokerId(metadata.brokerId())
            .setEventTimestampMs(metadata.eventTimestampMs())
            .setSegmentSizeInBytes(metadata.segmentSizeInBytes())
            .setTxnIndexEmpty(isTxnIdxEmpty(metadata));
        metadata.segmentLeaderEpochs().forEach((epoch, offset) -> add.addSegmentLeaderEpochs(
            EpochStart.newBuilder().setEpoch(epoch).setOffset(offset)));
        metadata.customMetadata().ifPresent(
            custom -> add.setCustomMetadata(ByteString.copyFrom(custom.value())));
        return add.build();
    }

    UpdateSegment.Builder update(RemoteLogSegmentMetadataUpdate update) {
        UpdateSegment.Builder message = UpdateSegment.newBuilder()
            .setSegmentId(bytes(update.remoteLogSegmentId().id()))
            .setEventTimestampMs(update.eventTimestampMs())
            .setState(SegmentState.forNumber(update.state().id() + 1))
            .setBrokerId(update.brokerId());
        update.customMetadata().ifPresent(
            custom -> message.setCustomMetadata(ByteString.copyFrom(custom.value())));
        return message;
    }

    DeletePartition delete(RemotePartitionDeleteMetadata metadata) {
        return DeletePartition.newBuilder()
            .setState(DeletionState.forNumber(metadata.state().id() + 1))
            .setEventTimestampMs(metadata.eventTimestampMs())
            .setBrokerId(metadata.brokerId())
            .build();
    }

    static Partition partition(TopicIdPartition tip) {
        return Partition.newBuilder()
            .setTopicId(bytes(tip.topicId()))
            .setPartition(tip.partition())
            .setTopic(tip.topic() == null ? "" : tip.topic())
            .build();
    }

    static ByteString bytes(Uuid id) {
        return ByteString.copyFrom(ByteBuffer.allocate(16)
            .putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).array());
    }

    static Uuid uuid(ByteString bytes) {
        if (bytes.size() != 16) {
            throw new IllegalArgumentException("expected an id of 16 bytes, got " + bytes.size());
        }
        ByteBuffer buffer = bytes.asReadOnlyByteBuffer();
        return new Uuid(buffer.getLong(), buffer.getLong());
    }
}
