package org.tierledger.kafka;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/** An operator's storage manager that only notes what it is asked. */
public final class Erasing implements RemoteStorageManager {
    static final List<Erasing> MADE = new ArrayList<>();

    final List<Object> heard = new ArrayList<>();

    /** The guard makes it. */
    public Erasing() {
        MADE.add(this);
    }

    static Erasing last() {
        return MADE.get(MADE.size() - 1);
    }

    /** What becomes of a segment's data when the guard is told to delete it. */
    static String by(GuardedRemoteStorageManager guard, RemoteLogSegmentMetadata segment)
        throws RemoteStorageException {
        long before = count(segment);
        guard.deleteLogSegmentData(segment);
        return count(segment) > before ? "deleted" : "stays";
    }

    private static long count(RemoteLogSegmentMetadata segment) {
        return MADE.stream().flatMap(one -> one.heard.stream())
            .filter(("delete " + segment.remoteLogSegmentId().id())::equals).count();
    }

    @Override
    public void configure(Map<String, ?> configs) {
        heard.add(Map.copyOf(configs));
    }

    @Override
    public void close() {
        heard.add("close");
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(
        RemoteLogSegmentMetadata segment, LogSegmentData data) {
        heard.add("copy");
        return Optional.of(new CustomMetadata(new byte[] {1}));
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) {
        return new ByteArrayInputStream(new byte[] {(byte) start});
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end) {
        return new ByteArrayInputStream(new byte[] {(byte) start, (byte) end});
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) {
        return new ByteArrayInputStream(new byte[] {(byte) type.ordinal()});
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) {
        heard.add("delete " + segment.remoteLogSegmentId().id());
        heard.add(Thread.currentThread().getContextClassLoader());
    }
}
