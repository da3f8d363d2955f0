package org.tierledger.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import javax.management.JMException;
import javax.management.MBeanException;
import javax.management.ObjectName;
import javax.management.RuntimeMBeanException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Passes each call to the operator's own storage manager, but a deletion only if the metadata
 * lets the data go. What the metadata does not have any more, because it is kept, stays. While
 * nobody can tell, a deletion fails with an exception that brokers retry.
 *
 * <p>The plugin in the same JVM is asked; it answers by the manager that decides for this broker.
 */
public final class GuardedRemoteStorageManager implements RemoteStorageManager, GuardMBean {
    static final String CLASS_NAME = "tierledger.guard.class.name";
    private static final String BROKER = "broker.id";
    private static final String TEXT = String.class.getName();
    private static final String[] SIGNATURE = {TEXT, TEXT, "int", TEXT, "int"};

    private final Logger log = LoggerFactory.getLogger(GuardedRemoteStorageManager.class);
    private volatile RemoteStorageManager guarded;
    private volatile ObjectName mark;
    private int brokerId;
    /** Why nothing could be deleted last; each reason is logged once. */
    private volatile String refused;

    /** The broker creates the manager and then configures it. */
    public GuardedRemoteStorageManager() {}

    /**
     * Create and configure the storage manager behind the guard, with all settings but the guard's.
     *
     * @throws ConfigException {@code tierledger.guard.class.name} names no storage manager
     */
    @Override
    public synchronized void configure(Map<String, ?> configs) {
        Object name = configs.get(CLASS_NAME);
        brokerId = Integer.parseInt(String.valueOf(configs.get(BROKER)));
        Map<String, Object> others = new HashMap<>(configs);
        others.remove(CLASS_NAME);
        RemoteStorageManager made = make(name);
        made.configure(others);
        guarded = made;
        mark = SameBroker.register(SameBroker.GUARD, brokerId, this, GuardMBean.class);
    }

    private static RemoteStorageManager make(Object name) {
        if (name == null || GuardedRemoteStorageManager.class.getName().equals(name)) {
            throw new ConfigException(
                CLASS_NAME, name, "expected the class of the storage manager behind the guard");
        }
        try {
            return (RemoteStorageManager) Class.forName(
                    String.valueOf(name), true, GuardedRemoteStorageManager.class.getClassLoader())
                .getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException | LinkageError | ClassCastException error) {
            throw new ConfigException(CLASS_NAME, name, "it cannot be made: " + error);
        }
    }

    @Override
    public String getGuarded() {
        return known().getClass().getName();
    }

    /** Close the storage manager behind the guard. From then on nothing is deleted. */
    @Override
    public synchronized void close() throws IOException {
        RemoteStorageManager closing = guarded;
        guarded = null;
        if (mark != null) {
            SameBroker.unregister(mark);
            mark = null;
        }
        if (closing != null) {
            closing.close();
        }
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(
        RemoteLogSegmentMetadata segment, LogSegmentData data) throws RemoteStorageException {
        return known().copyLogSegmentData(segment, data);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start)
        throws RemoteStorageException {
        return known().fetchLogSegment(segment, start);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end)
        throws RemoteStorageException {
        return known().fetchLogSegment(segment, start, end);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type)
        throws RemoteStorageException {
        return known().fetchIndex(segment, type);
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment)
        throws RemoteStorageException {
        RemoteStorageManager deleting = known();
        if (mayDelete(segment)) {
            deleting.deleteLogSegmentData(segment);
        } else {
            log.debug("The data of {} stays", segment.remoteLogSegmentId());
        }
        refused = null;
    }

    /** As the broker would have deleted it; its plugin has the ledger's word that it may go. */
    @Override
    public void purge(Object segment) throws RemoteStorageException {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        // Brokers call storage managers so; some find their parts by it.
        thread.setContextClassLoader(GuardedRemoteStorageManager.class.getClassLoader());
        try {
            known().deleteLogSegmentData((RemoteLogSegmentMetadata) segment);
        } finally {
            thread.setContextClassLoader(before);
        }
    }

    private boolean mayDelete(RemoteLogSegmentMetadata segment) {
        ObjectName ledger = SameBroker.only(SameBroker.LEDGER, brokerId);
        if (ledger == null) {
            throw unknown(segment, "the tierledger plugin does not run in this broker");
        }
        Object[] given = {
            segment.topicIdPartition().topicId().toString(), segment.topicIdPartition().topic(),
            segment.topicIdPartition().partition(), segment.remoteLogSegmentId().id().toString(),
            segment.segmentLeaderEpochs().firstKey()};
        try {
            return (boolean) SameBroker.invoke(ledger, "mayDelete", given, SIGNATURE);
        } catch (MBeanException | RuntimeMBeanException error) {
            throw unknown(segment, error.getCause().getMessage());
        } catch (JMException error) {
            throw unknown(segment, String.valueOf(error));
        }
    }

    /** Brokers end their round on it without a word, and try again with the next one. */
    private ReplicaNotAvailableException unknown(RemoteLogSegmentMetadata segment, String why) {
        if (!why.equals(refused)) {
            refused = why;
            log.info("The data of {} is not deleted yet: {}", segment.remoteLogSegmentId(), why);
        }
        return new ReplicaNotAvailableException("its data is not deleted: " + why);
    }

    private RemoteStorageManager known() {
        RemoteStorageManager known = guarded;
        if (known == null) {
            throw new IllegalStateException("the guarded storage manager is closed, or not configured");
        }
        return known;
    }
}
