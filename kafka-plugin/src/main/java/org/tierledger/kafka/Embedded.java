package org.tierledger.kafka;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Kafka's own manager, which keeps metadata in its topic, loaded from the broker's classes. */
final class Embedded implements Manager {
    private static final String CLASS =
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager";
    private static final String SERVERS = "remote.log.metadata.common.client.bootstrap.servers";
    private static final int CONNECT_MS = 1_000;
    private static final long PAUSE_MS = 100;

    final RemoteLogMetadataManager manager;

    private final Logger log = LoggerFactory.getLogger(Embedded.class);
    /** The manager's methods by name, as some exist only in newer releases. */
    private final Map<String, Method> methods = new HashMap<>();
    private final String[] servers;
    private volatile boolean isClosed;

    /** Create and configure the manager; {@link #begin} starts it where releases need that. */
    Embedded(Map<String, ?> configs) {
        Object given = configs.get(SERVERS);
        if (given == null) {
            throw new ConfigException(SERVERS, null, "expected it of the broker: does it have "
                + "remote.log.metadata.manager.listener.name?");
        }
        servers = given.toString().split("\\s*,\\s*");
        try {
            manager = (RemoteLogMetadataManager)
                Class.forName(CLASS).getConstructor().newInstance();
        } catch (ReflectiveOperationException error) {
            throw new KafkaException("Kafka's own manager is not on the broker's classes", error);
        }
        for (Method one : manager.getClass().getMethods()) {
            methods.put(one.getName(), one);
        }
        manager.configure(configs);
    }

    /** Start the manager once the broker listens; without a broker it would give up. */
    void begin(Loop loop) {
        if (methods.containsKey("onBrokerReady") && !isClosed) {
            loop.transports().execute(() -> {
                if (Stream.of(servers).anyMatch(Embedded::isListening)) {
                    start();
                } else {
                    loop.after(PAUSE_MS, () -> begin(loop));
                }
            });
        }
    }

    private synchronized void start() {
        if (!isClosed) {
            try {
                call("onBrokerReady");
            } catch (RemoteStorageException error) {
                log.error("Kafka's own manager did not start", error);
            }
        }
    }

    private static boolean isListening(String server) {
        int colon = server.lastIndexOf(':');
        String host = server.substring(0, colon).replaceAll("[\\[\\]]", "");
        int port = Integer.parseInt(server.substring(colon + 1));
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(host, port), CONNECT_MS);
            return true;
        } catch (IOException notYet) {
            return false;
        }
    }

    /** Close Kafka's own manager. */
    synchronized void close() {
        isClosed = true;
        try {
            manager.close();
        } catch (IOException error) {
            log.warn("Kafka's own manager did not close", error);
        }
    }

    @Override
    public boolean isReady(TopicIdPartition tip) {
        try {
            return !methods.containsKey("isReady") || (boolean) call("isReady", tip);
        } catch (RemoteStorageException error) {
            return false;
        }
    }

    private interface Called<T> {
        T by() throws RemoteStorageException;
    }

    /** The call's result; an exception that brokers retry if the manager has not started. */
    private static <T> T started(Called<T> called) throws RemoteStorageException {
        try {
            return called.by();
        } catch (IllegalStateException notStarted) {
            throw new ReplicaNotAvailableException("Kafka's own manager", notStarted);
        }
    }

    @Override
    public Object answer(Question asked) throws RemoteStorageException {
        return started(() -> ask(asked));
    }

    private Object ask(Question asked) throws RemoteStorageException {
        switch (asked.kind) {
            case NEXT_TXN_SEGMENT:
                return call(
                    "nextSegmentWithTxnIndex", asked.tip, asked.epoch, asked.offset);
            case LOOKUP:
                return manager.remoteLogSegmentMetadata(asked.tip, asked.epoch, asked.offset);
            case HIGHEST_OFFSET: return manager.highestOffsetForEpoch(asked.tip, asked.epoch);
            case SIZE: return manager.remoteLogSize(asked.tip, asked.epoch);
            case LIST: return manager.listRemoteLogSegments(asked.tip);
            default: return manager.listRemoteLogSegments(asked.tip, asked.epoch);
        }
    }

    @Override
    public CompletableFuture<Void> write(RemoteLogMetadata change) throws RemoteStorageException {
        return started(() ->
            change instanceof RemoteLogSegmentMetadata
                ? manager.addRemoteLogSegmentMetadata((RemoteLogSegmentMetadata) change)
            : change instanceof RemoteLogSegmentMetadataUpdate
                ? manager.updateRemoteLogSegmentMetadata((RemoteLogSegmentMetadataUpdate) change)
            : manager.putRemotePartitionDeleteMetadata((RemotePartitionDeleteMetadata) change));
    }

    private Object call(String name, Object... with) throws RemoteStorageException {
        try {
            return methods.get(name).invoke(manager, with);
        } catch (ReflectiveOperationException error) {
            if (error.getCause() instanceof RemoteStorageException) {
                throw (RemoteStorageException) error.getCause();
            }
            throw error.getCause() instanceof RuntimeException
                ? (RuntimeException) error.getCause() : new KafkaException(error);
        }
    }
}
