package org.tierledger.kafka;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
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

/** Metadata that Kafka's own manager keeps in its topic, on the broker's classes. */
final class Embedded implements Manager {
    private static final String CLASS =
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager";
    private static final String SERVERS = "remote.log.metadata.common.client.bootstrap.servers";
    private static final int CONNECT_MS = 1_000;
    private static final long PAUSE_MS = 100;

    final RemoteLogMetadataManager manager;

    private final Logger log = LoggerFactory.getLogger(Embedded.class);
    /** Calls that not all releases have; null: the broker's has not. */
    private final Method isReady;
    private final Method nextSegmentWithTxnIndex;
    private final Method onBrokerReady;
    private final String[] servers;
    private volatile boolean isClosed;

    /** Configured, and not started yet where it wants to be. */
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
        isReady = method("isReady", TopicIdPartition.class);
        nextSegmentWithTxnIndex =
            method("nextSegmentWithTxnIndex", TopicIdPartition.class, int.class, long.class);
        onBrokerReady = method("onBrokerReady");
        manager.configure(configs);
    }

    /** Start it once the broker listens, to which it speaks; before that it would give up. */
    void begin(Loop loop) {
        if (onBrokerReady != null && !isClosed) {
            loop.transports().execute(() -> {
                if (isListening()) {
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
                invoke(onBrokerReady);
            } catch (RemoteStorageException error) {
                log.error("Kafka's own manager did not start", error);
            }
        }
    }

    private boolean isListening() {
        for (String server : servers) {
            int colon = server.lastIndexOf(':');
            String host = server.substring(0, colon).replaceAll("[\\[\\]]", "");
            int port = Integer.parseInt(server.substring(colon + 1));
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress(host, port), CONNECT_MS);
                return true;
            } catch (IOException notYet) {
                log.debug("{} does not listen yet", server, notYet);
            }
        }
        return false;
    }

    /** Its threads and sockets are gone, as far as it sees to that itself. */
    void close() {
        synchronized (this) {
            isClosed = true;
        }
        try {
            manager.close();
        } catch (IOException error) {
            log.warn("Kafka's own manager did not close", error);
        }
    }

    @Override
    public boolean isReady(TopicIdPartition tip) {
        try {
            return isReady == null || (boolean) invoke(isReady, tip);
        } catch (RemoteStorageException error) {
            return false;
        }
    }

    @Override
    public Object answer(Question asked) throws RemoteStorageException {
        try {
            return ask(asked);
        } catch (IllegalStateException notStarted) {
            throw notReady(notStarted);
        }
    }

    /** What brokers retry; 3.9 asks before its own manager has started. */
    private static ReplicaNotAvailableException notReady(IllegalStateException notStarted) {
        return new ReplicaNotAvailableException("Kafka's own manager", notStarted);
    }

    private Object ask(Question asked) throws RemoteStorageException {
        switch (asked.kind) {
            case NEXT_TXN_SEGMENT:
                return invoke(nextSegmentWithTxnIndex, asked.tip, asked.epoch, asked.offset);
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
        try {
            if (change instanceof RemoteLogSegmentMetadata) {
                return manager.addRemoteLogSegmentMetadata((RemoteLogSegmentMetadata) change);
            }
            if (change instanceof RemoteLogSegmentMetadataUpdate) {
                return manager.updateRemoteLogSegmentMetadata(
                    (RemoteLogSegmentMetadataUpdate) change);
            }
            return manager.putRemotePartitionDeleteMetadata(
                (RemotePartitionDeleteMetadata) change);
        } catch (IllegalStateException notStarted) {
            throw notReady(notStarted);
        }
    }

    private Method method(String name, Class<?>... of) {
        try {
            return manager.getClass().getMethod(name, of);
        } catch (NoSuchMethodException olderKafka) {
            return null;
        }
    }

    private Object invoke(Method method, Object... with) throws RemoteStorageException {
        try {
            return method.invoke(manager, with);
        } catch (InvocationTargetException error) {
            Throwable cause = error.getCause();
            if (cause instanceof RemoteStorageException) {
                throw (RemoteStorageException) cause;
            }
            throw cause instanceof RuntimeException
                ? (RuntimeException) cause : new KafkaException(cause);
        } catch (IllegalAccessException error) {
            throw new KafkaException(error);
        }
    }
}
