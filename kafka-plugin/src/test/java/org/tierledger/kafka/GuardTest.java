package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.List;
import java.util.Map;
import javax.management.ObjectName;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The guard deletes nothing that it has not been told to. */
class GuardTest {
    private static final int BROKER = 17;
    private static final TopicIdPartition TIP =
        new TopicIdPartition(new Uuid(1, 2), 3, "orders");
    private static final RemoteLogSegmentMetadata SEGMENT = new RemoteLogSegmentMetadata(
        new RemoteLogSegmentId(TIP, new Uuid(5, 6)), 0, 9, 5, 1, 6, 100, Map.of(4, 0L, 7, 5L));

    private GuardedRemoteStorageManager guard;
    private ObjectName plugin;

    @BeforeEach
    void open() {
        guard = new GuardedRemoteStorageManager();
        guard.configure(Map.of(
            "broker.id", BROKER, "own", "setting",
            GuardedRemoteStorageManager.CLASS_NAME, Erasing.class.getName()));
    }

    @AfterEach
    void close() throws Exception {
        guard.close();
        if (plugin != null) {
            SameBroker.unregister(plugin);
        }
    }

    private void answering(DeletionsMBean answer) {
        plugin = SameBroker.register(SameBroker.LEDGER, BROKER, answer, DeletionsMBean.class);
    }

    private void assertRefused(String why) {
        Exception error = assertThrows(
            ReplicaNotAvailableException.class, () -> guard.deleteLogSegmentData(SEGMENT));
        assertTrue(error.getMessage().contains(why), error::getMessage);
        assertTrue(Erasing.last().heard.stream().noneMatch(one -> one.toString().startsWith("delete")));
    }

    @Test
    void whatIsLetGoIsDeletedAndAllElseStays() throws Exception {
        answering((topicId, topic, partition, segmentId, epoch) ->
            List.of(TIP.topicId().toString(), "orders", 3, new Uuid(5, 6).toString(), 4)
                .equals(List.of(topicId, topic, partition, segmentId, epoch)));

        assertEquals("deleted", Erasing.by(guard, SEGMENT));
        RemoteLogSegmentMetadata other = new RemoteLogSegmentMetadata(
            new RemoteLogSegmentId(TIP, new Uuid(5, 7)), 0, 9, 5, 1, 6, 100, Map.of(4, 0L));
        assertEquals("stays", Erasing.by(guard, other));
    }

    @Test
    void withoutAnAnswerNothingIsDeleted() {
        assertRefused("the tierledger plugin does not run in this broker");
        answering((topicId, topic, partition, segmentId, epoch) -> {
            throw new IllegalStateException("it is away");
        });
        assertRefused("it is away");
    }

    @Test
    void whereTwoPluginsCouldAnswerNothingIsDeleted() {
        answering((topicId, topic, partition, segmentId, epoch) -> true);
        ObjectName second = SameBroker.register(
            SameBroker.LEDGER, BROKER, (topicId, topic, partition, segmentId, epoch) -> true,
            DeletionsMBean.class);
        try {
            assertRefused("the tierledger plugin does not run");
        } finally {
            SameBroker.unregister(second);
        }
    }

    @Test
    void anotherBrokersPluginIsNotAsked() {
        plugin = SameBroker.register(
            SameBroker.LEDGER, BROKER + 1, (topicId, topic, partition, segmentId, epoch) -> true,
            DeletionsMBean.class);
        assertRefused("the tierledger plugin does not run");
    }

    @Test
    void whatThePluginPurgesGoesAsABrokerWouldDeleteIt() throws Exception {
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        Thread.currentThread().setContextClassLoader(null);
        try {
            guard.purge(SEGMENT);
            assertNull(Thread.currentThread().getContextClassLoader());
        } finally {
            Thread.currentThread().setContextClassLoader(before);
        }
        assertEquals(
            List.of("delete " + new Uuid(5, 6), GuardedRemoteStorageManager.class.getClassLoader()),
            Erasing.last().heard.subList(1, 3));
    }

    @Test
    void aClosedGuardDeletesNothingAndIsNoGuard() throws Exception {
        answering((topicId, topic, partition, segmentId, epoch) -> true);
        guard.close();
        assertThrows(IllegalStateException.class, () -> guard.deleteLogSegmentData(SEGMENT));
        assertNull(SameBroker.only(SameBroker.GUARD, BROKER));
        assertEquals("close", Erasing.last().heard.get(Erasing.last().heard.size() - 1));
    }

    @Test
    void allElseIsPassedOn() throws Exception {
        assertEquals(List.of(Map.of("broker.id", BROKER, "own", "setting")), Erasing.last().heard);
        assertArrayEquals(
            new byte[] {1}, guard.copyLogSegmentData(SEGMENT, null).orElseThrow().value());
        assertEquals(8, guard.fetchLogSegment(SEGMENT, 8).read());
        assertArrayEquals(new byte[] {8, 9}, guard.fetchLogSegment(SEGMENT, 8, 9).readAllBytes());
        assertEquals(
            IndexType.TRANSACTION.ordinal(), guard.fetchIndex(SEGMENT, IndexType.TRANSACTION).read());
    }

    @Test
    void whatIsNoStorageManagerIsNotGuarded() {
        for (String name : new String[] {
            "java.lang.String", "none.such", GuardedRemoteStorageManager.class.getName(), null}) {
            Map<String, Object> config = new java.util.HashMap<>(Map.of("broker.id", BROKER));
            config.put(GuardedRemoteStorageManager.CLASS_NAME, name);
            assertThrows(
                ConfigException.class, () -> new GuardedRemoteStorageManager().configure(config));
        }
    }

    /** A broker loads storage manager and metadata manager by class loaders of their own. */
    @Test
    void itIsFoundFromAnotherClassLoader() throws Exception {
        guard.close();
        URL[] classes = {
            new File("target/classes").toURI().toURL(), new File("target/test-classes").toURI().toURL()};
        try (OwnClasses loader = new OwnClasses(classes, getClass().getClassLoader())) {
            RemoteStorageManager other = (RemoteStorageManager) loader
                .loadClass(GuardedRemoteStorageManager.class.getName())
                .getDeclaredConstructor().newInstance();
            assertNotSame(GuardedRemoteStorageManager.class, other.getClass());
            other.configure(Map.of(
                "broker.id", BROKER, GuardedRemoteStorageManager.CLASS_NAME, Erasing.class.getName()));
            assertTrue(SameBroker.only(SameBroker.GUARD, BROKER) != null);
            answering((topicId, topic, partition, segmentId, epoch) -> {
                throw new ReplicaNotAvailableException("heard");
            });
            Exception error = assertThrows(
                ReplicaNotAvailableException.class, () -> other.deleteLogSegmentData(SEGMENT));
            assertTrue(error.getMessage().contains("heard"), error::getMessage);
            SameBroker.invoke(
                SameBroker.only(SameBroker.GUARD, BROKER), "purge", new Object[] {SEGMENT},
                new String[] {Object.class.getName()});
            other.close();
        }
    }

    private static final class OwnClasses extends URLClassLoader {
        OwnClasses(URL[] classes, ClassLoader parent) {
            super(classes, parent);
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("org.tierledger.")) {
                return super.loadClass(name, resolve);
            }
            Class<?> known = findLoadedClass(name);
            return known != null ? known : findClass(name);
        }
    }
}
