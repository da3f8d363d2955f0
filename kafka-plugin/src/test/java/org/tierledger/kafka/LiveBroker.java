package org.tierledger.kafka;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.slf4j.impl.StaticLoggerBinder;

/**
 * Brokers of a test, as plugins in this process: a command per line of the input, an answer per
 * line of the output. `BROKER open CLUSTER DOORS KEY VALUE ...` makes one; the rest is what a broker asks.
 */
public final class LiveBroker {
    private static final long WAIT_S = 60;

    private final Map<Integer, TierledgerRemoteLogMetadataManager> managers = new HashMap<>();
    private final Uuid topic;

    private LiveBroker(Uuid topic) {
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // Kafka's classes may log there.
        LiveBroker brokers = new LiveBroker(Uuid.fromString(arguments[0]));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = brokers.answer(Integer.parseInt(words[0]), words);
            } catch (ExecutionException error) {
                answer = error.getCause().getClass().getSimpleName();
            } catch (Exception error) {
                answer = error.getClass().getSimpleName();
            }
            answers.println(answer);
        }
    }

    private String answer(int broker, String[] words) throws Exception {
        TierledgerRemoteLogMetadataManager manager = managers.get(broker);
        switch (words[1]) {
            case "open":
                manager = new TierledgerRemoteLogMetadataManager();
                Map<String, Object> config = new HashMap<>();
                config.put("broker.id", broker);
                config.put("cluster.id", words[2]);
                config.put("tierledger.bootstrap", words[3]);
                for (int i = 4; i < words.length; i += 2) {
                    config.put(words[i], words[i + 1]);
                }
                manager.configure(config);
                managers.put(broker, manager);
                return "done";
            case "close":
                manager.close();
                return "done";
            case "lead":
                manager.onPartitionLeadershipChanges(Set.of(tip(words[2])), Set.of());
                return "done";
            case "follow":
                manager.onPartitionLeadershipChanges(Set.of(), Set.of(tip(words[2])));
                return "done";
            case "stop":
                manager.onStopPartitions(Set.of(tip(words[2])));
                return "done";
            case "ready": return ready(manager, words[2]);
            case "is-ready": return String.valueOf(manager.isReady(tip(words[2])));
            case "copy": return copy(manager, tip(words[2]), Integer.parseInt(words[3]));
            case "add": return done(manager.addRemoteLogSegmentMetadata(
                segment(tip(words[2]), Integer.parseInt(words[3]))));
            case "move": return done(manager.updateRemoteLogSegmentMetadata(update(
                tip(words[2]), Integer.parseInt(words[3]),
                RemoteLogSegmentState.valueOf(words[4]),
                words.length > 5 ? Integer.parseInt(words[5]) : -1)));
            case "lookup":
                Optional<RemoteLogSegmentMetadata> found = manager.remoteLogSegmentMetadata(
                    tip(words[2]), 0, Long.parseLong(words[3]));
                return found.map(one -> one.startOffset() + ":" + one.state()).orElse("none");
            case "found": return found(manager, words);
            case "list": return starts(manager.listRemoteLogSegments(tip(words[2]), 0));
            case "highest":
                return String.valueOf(manager.highestOffsetForEpoch(tip(words[2]), 0).orElse(null));
            case "threads": return threads();
            case "listen":
                StaticLoggerBinder.isKeeping = true;
                return "done";
            case "logged": // Of warnings and errors, since this was asked last.
                List<String> lines = new ArrayList<>();
                for (String one; (one = StaticLoggerBinder.LINES.poll()) != null;) {
                    if (one.matches("(?s)(warn|error) org.tierledger.*")) {
                        lines.add(one.replace('\n', ' '));
                    }
                }
                return String.join(" | ", lines);
            case "fill": // Side by side, and no copy is finished.
                List<CompletableFuture<Void>> all = new ArrayList<>();
                for (int number = 0; number < Integer.parseInt(words[3]); number++) {
                    all.add(manager.addRemoteLogSegmentMetadata(segment(tip(words[2]), number)));
                }
                return done(CompletableFuture.allOf(all.toArray(new CompletableFuture<?>[0])));
            case "metric":
                MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
                ObjectName name = new ObjectName("org.tierledger:broker=" + broker + ",*");
                return String.valueOf(beans.getAttribute(
                    beans.queryNames(name, null).iterator().next(), words[2]));
            default: throw new IllegalArgumentException(words[1]);
        }
    }

    private TopicIdPartition tip(String partition) {
        return new TopicIdPartition(topic, Integer.parseInt(partition), "orders");
    }

    private String ready(TierledgerRemoteLogMetadataManager manager, String partition)
        throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        while (!manager.isReady(tip(partition))) {
            if (System.nanoTime() > until) {
                return "never";
            }
            Thread.sleep(5);
        }
        return "ready";
    }

    /** The answer to a lookup, once there is one. */
    private String found(TierledgerRemoteLogMetadataManager manager, String[] words)
        throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        words[1] = "lookup";
        while (true) {
            try {
                return answer(Integer.parseInt(words[0]), words);
            } catch (ReplicaNotAvailableException | IllegalStateException error) {
                if (System.nanoTime() > until) {
                    return "never";
                }
                Thread.sleep(5);
            }
        }
    }

    /** Add and finish that many segments behind those that are there; how long each took. */
    private String copy(RemoteLogMetadataManager manager, TopicIdPartition tip, int count)
        throws Exception {
        int from = manager.highestOffsetForEpoch(tip, 0).map(end -> (int) (end / 10) + 1).orElse(0);
        long begun = System.nanoTime();
        for (int number = from; number < from + count; number++) {
            done(manager.addRemoteLogSegmentMetadata(segment(tip, number)));
            done(manager.updateRemoteLogSegmentMetadata(
                update(tip, number, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, -1)));
        }
        return "done " + (System.nanoTime() - begun) / 1000 / count;
    }

    private static String done(CompletableFuture<?> write) throws Exception {
        write.get(WAIT_S, TimeUnit.SECONDS);
        return "done";
    }

    private static RemoteLogSegmentId id(TopicIdPartition tip, int number) {
        return new RemoteLogSegmentId(tip, new Uuid(0x4000, number + 2));
    }

    private static RemoteLogSegmentMetadata segment(TopicIdPartition tip, int number) {
        return new RemoteLogSegmentMetadata(
            id(tip, number), 10L * number, 10L * number + 9, 5, 1, 6, 100, Map.of(0, 10L * number));
    }

    private static RemoteLogSegmentMetadataUpdate update(
        TopicIdPartition tip, int number, RemoteLogSegmentState state, int customBytes) {
        return new RemoteLogSegmentMetadataUpdate(
            id(tip, number), 7,
            customBytes < 0 ? Optional.empty()
                : Optional.of(new CustomMetadata(new byte[customBytes])),
            state, 1);
    }

    private static String starts(Iterator<RemoteLogSegmentMetadata> segments) {
        List<String> starts = new ArrayList<>();
        segments.forEachRemaining(one -> starts.add(String.valueOf(one.startOffset())));
        return String.join(",", starts);
    }

    /** Names of threads that the plugins have. */
    private static String threads() {
        Set<String> names = new TreeSet<>();
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().matches("(tierledger|grpc|ok|RLMM|kafka-).*")) {
                names.add(thread.getName());
            }
        }
        return names.isEmpty() ? "none" : String.join(",", names);
    }
}
