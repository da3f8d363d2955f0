package org.tierledger.kafka;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.management.ObjectName;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What a broker gets while no host of the service answers, or its settings are wrong. */
@Timeout(60)
class AwayTest {
    private static final TopicIdPartition TIP = new TopicIdPartition(new Uuid(1, 2), 0, "t");
    private static final RemoteLogSegmentId ID = new RemoteLogSegmentId(TIP, new Uuid(3, 4));
    private static final ObjectName BEANS = beans();

    private static ObjectName beans() {
        try {
            return new ObjectName("org.tierledger:type=RemoteLogMetadataManager,*");
        } catch (javax.management.MalformedObjectNameException error) {
            throw new AssertionError(error);
        }
    }

    private static Map<String, Object> config(String bootstrap) {
        Map<String, Object> config = new HashMap<>();
        config.put("broker.id", 1);
        config.put("cluster.id", "c");
        config.put("tierledger.bootstrap", bootstrap);
        config.put("tierledger.write.timeout.ms", "1000");
        config.put("tierledger.finish.timeout.ms", "1500");
        return config;
    }

    private static RemoteLogSegmentMetadata segment() {
        return new RemoteLogSegmentMetadata(ID, 0, 9, 5, 1, 6, 100, Map.of(0, 0L));
    }

    private static void assertAway(TierledgerRemoteLogMetadataManager manager) throws Exception {
        manager.onPartitionLeadershipChanges(Set.of(TIP), Set.of());
        assertFalse(manager.isReady(TIP));
        assertThrows(
            ReplicaNotAvailableException.class, () -> manager.remoteLogSegmentMetadata(TIP, 0, 5));
        assertThrows(
            ReplicaNotAvailableException.class, () -> manager.listRemoteLogSegments(TIP));
        // The first may begin before it is known that nobody answers; then they are refused.
        boolean isRefused = false;
        while (!isRefused) {
            try {
                ExecutionException error = assertThrows(
                    ExecutionException.class,
                    manager.addRemoteLogSegmentMetadata(segment())::get);
                assertInstanceOf(ReplicaNotAvailableException.class, error.getCause());
            } catch (ReplicaNotAvailableException error) {
                isRefused = true;
            }
        }
        CompletableFuture<Void> finish = manager.updateRemoteLogSegmentMetadata(
            new RemoteLogSegmentMetadataUpdate(
                ID, 7, Optional.empty(), RemoteLogSegmentState.COPY_SEGMENT_FINISHED, 1));
        assertFalse(finish.isDone());
        assertInstanceOf(
            ReplicaNotAvailableException.class,
            assertThrows(ExecutionException.class, finish::get).getCause());
        manager.onStopPartitions(Set.of(TIP));
        assertThrows(
            RemoteResourceNotFoundException.class, () -> manager.listRemoteLogSegments(TIP));
    }

    private static void assertNothingIsLeft() throws Exception {
        assertEquals(
            Set.of(), ManagementFactory.getPlatformMBeanServer().queryNames(BEANS, null));
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().matches("(tierledger|grpc|ok).*")) {
                thread.join(TimeUnit.SECONDS.toMillis(10));
                assertFalse(thread.isAlive(), thread::getName);
            }
        }
    }

    @Test
    void nobodyListens() throws Exception {
        int port;
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = taken.getLocalPort();
        }
        try (TierledgerRemoteLogMetadataManager manager =
                new TierledgerRemoteLogMetadataManager()) {
            manager.configure(config("127.0.0.1:" + port));
            assertEquals(
                1, ManagementFactory.getPlatformMBeanServer().queryNames(BEANS, null).size());
            assertAway(manager);
        }
        assertNothingIsLeft();
    }

    @Test
    void whoListensSaysNothing() throws Exception {
        try (ServerSocket mute = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
            TierledgerRemoteLogMetadataManager manager =
                new TierledgerRemoteLogMetadataManager()) {
            manager.configure(config("127.0.0.1:" + mute.getLocalPort()));
            assertAway(manager);
        }
        assertNothingIsLeft();
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", // It hangs up.
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        "\0\0\0\4\0\0\0\0\0" + "\377\377\377\0\0\0\0\0\1", // 16 MiB in one frame.
    })
    void whoListensIsNoHost(String says) throws Exception {
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            CompletableFuture<Void> talk = CompletableFuture.runAsync(() -> {
                while (!server.isClosed()) {
                    try (Socket client = server.accept()) {
                        client.getOutputStream().write(says.getBytes(ISO_8859_1));
                    } catch (IOException error) {
                        // The client has gone, or the test is over.
                    }
                }
            });
            try (TierledgerRemoteLogMetadataManager manager =
                    new TierledgerRemoteLogMetadataManager()) {
                manager.configure(config("127.0.0.1:" + server.getLocalPort()));
                assertAway(manager);
            }
            server.close();
            talk.get();
        }
        assertNothingIsLeft();
    }

    @Test
    void aClosedOneAnswersNothing() throws IOException {
        TierledgerRemoteLogMetadataManager manager = new TierledgerRemoteLogMetadataManager();
        assertThrows(IllegalStateException.class, () -> manager.listRemoteLogSegments(TIP));
        manager.configure(config("127.0.0.1:1"));
        manager.close();
        manager.close();
        assertThrows(IllegalStateException.class, () -> manager.listRemoteLogSegments(TIP));
        assertThrows(
            IllegalStateException.class, () -> manager.addRemoteLogSegmentMetadata(segment()));
        assertFalse(manager.isReady(TIP));
    }

    @ParameterizedTest
    @ValueSource(strings = {"shadow", "handover"})
    void withoutAListenerKafkasOwnManagerHasNobodyToAsk(String mode) throws Exception {
        Map<String, Object> config = config("127.0.0.1:1");
        config.put("tierledger.mode", mode);
        TierledgerRemoteLogMetadataManager manager = new TierledgerRemoteLogMetadataManager();
        ConfigException error =
            assertThrows(ConfigException.class, () -> manager.configure(config));
        assertTrue(
            error.getMessage().contains("remote.log.metadata.manager.listener.name"),
            error::getMessage);
        assertNothingIsLeft();
    }

    @ParameterizedTest
    @CsvSource({
        "tierledger.bootstrap, ", "tierledger.bootstrap, ''", "tierledger.bootstrap, host",
        "tierledger.bootstrap, host:0", "tierledger.bootstrap, host:99999",
        "tierledger.bootstrap, :2", "tierledger.write.timeout.ms, soon",
        "tierledger.write.timeout.ms, 999", "tierledger.finish.timeout.ms, 0",
        "tierledger.mode, both", "cluster.id, ''", "broker.id, -1", "tierledger.token.without.tls, perhaps",
        "tierledger.ssl.ca.location, ca.pem", "tierledger.ssl.key.location, key.pem",
    })
    void aWrongSettingIsNamed(String key, String value) {
        Map<String, Object> config = config("127.0.0.1:1");
        config.put(key, value);
        TierledgerRemoteLogMetadataManager manager = new TierledgerRemoteLogMetadataManager();
        ConfigException error =
            assertThrows(ConfigException.class, () -> manager.configure(config));
        assertTrue(error.getMessage().contains(key), error::getMessage);
        assertTrue(
            value == null || error.getMessage().contains(value), error::getMessage);
    }
}
