package org.tierledger.kafka;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * Managers of several brokers in one process, for tests and benchmarks: a command per line of the
 * input, its answer on a line of the output. {@code BROKER open CLASS KEY=VALUE ...} makes one;
 * {@code BROKER COMMAND [TOPIC PARTITION ...]} asks it, as a broker does. Times are in seconds.
 */
public final class Managers {
    private static final String KAFKAS = "org.apache.kafka.server.log.remote.metadata.storage.";
    private static final String TOPIC = "__remote_log_metadata";
    private static final String TIER =
        "org.apache.kafka.server.log.remote.storage.LocalTieredStorage";
    private static final int MIB = 1 << 20;
    private static final int METADATA_PARTITIONS = 50;
    private static final int OFFSETS = 10;
    private static final int ROUNDS = 9;
    private static final long END_MS = 5_000;
    private static final long WAIT_NS = TimeUnit.MINUTES.toNanos(10);

    private final Map<Integer, RemoteLogMetadataManager> managers = new HashMap<>();
    private final Map<Integer, GuardedRemoteStorageManager> guards = new HashMap<>();
    private long led;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // What is logged is no answer.
        Managers all = new Managers();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                String[] words = line.split(" ");
                answer = all.answer(Integer.parseInt(words[0]), words);
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                answer = "failed " + cause.getClass().getSimpleName() + " " + cause.getMessage();
            }
            answers.println(answer.replace('\n', ' '));
        }
    }

    private String answer(int broker, String[] words) throws Exception {
        RemoteLogMetadataManager manager = managers.get(broker);
        TopicIdPartition tip = words.length > 3 && words[3].matches("\\d+")
            ? tip(words[2], number(words, 3)) : null;
        switch (words[1]) {
            case "open": return open(broker, words);
            case "close": manager.close(); return "done";
            case "forget": managers.remove(broker).close(); return "done";
            case "lead":
                led = System.nanoTime();
                manager.onPartitionLeadershipChanges(tips(words), Set.of());
                return "done";
            case "follow":
                manager.onPartitionLeadershipChanges(Set.of(), tips(words));
                return "done";
            case "stop": manager.onStopPartitions(tips(words)); return "done";
            case "ready": return ready(manager, tips(words));
            case "is-ready": return String.valueOf(isReady(manager, tip));
            case "write": return write(manager, tip, words);
            case "add":
                manager.addRemoteLogSegmentMetadata(added(tip, number(words, 4))).get();
                return "done";
            case "move":
                Optional<CustomMetadata> custom = words.length < 7 ? Optional.empty()
                    : Optional.of(new CustomMetadata(new byte[number(words, 6)]));
                manager.updateRemoteLogSegmentMetadata(new RemoteLogSegmentMetadataUpdate(
                    id(tip, number(words, 4)), 7, custom,
                    RemoteLogSegmentState.valueOf(words[5]), 1)).get();
                return "done";
            case "delete": return delete(manager, tip);
            case "guard":
                guards.put(broker, guard(broker));
                return "done";
            case "unguard": guards.remove(broker).close(); return "done";
            case "erase": return erase(manager, guards.get(broker), added(tip, number(words, 4)));
            case "erased": return erased(manager, guards.get(broker), tip, words);
            case "passed": return passed(tip, number(words, 4), Path.of(words[5]));
            case "erase-data":
                return Erasing.by(guards.get(broker), added(tip, number(words, 4)));
            case "lookup":
                return manager.remoteLogSegmentMetadata(tip, 0, number(words, 4))
                    .map(one -> one.startOffset() + ":" + one.state()).orElse("none");
            case "list":
                return list(manager.listRemoteLogSegments(tip, 0)).stream()
                    .map(one -> String.valueOf(one.startOffset()))
                    .collect(Collectors.joining(","));
            case "highest":
                return String.valueOf(manager.highestOffsetForEpoch(tip, 0).orElse(-1L));
            case "lookups": return lookups(manager, tip, number(words, 4));
            case "lists": // Each segment is touched.
                return timed(1, () -> list(words.length > 4
                        ? manager.listRemoteLogSegments(tip, number(words, 4))
                        : manager.listRemoteLogSegments(tip))
                    .stream().filter(one -> one.segmentSizeInBytes() > 0).count());
            case "sizes": return timed(1, () -> manager.remoteLogSize(tip, number(words, 4)));
            case "heap": return heap();
            case "threads": return threads();
            case "metric":
                MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
                ObjectName name = new ObjectName("org.tierledger:broker=" + broker + ",*");
                return String.valueOf(beans.getAttribute(
                    beans.queryNames(name, null).iterator().next(), words[2]));
            case "beside": return beside(tip);
            case "copy": return copy(manager, tips(words), words[5]);
            default: throw new IllegalArgumentException(words[1]);
        }
    }

    private String open(int broker, String[] words) throws Exception {
        RemoteLogMetadataManager manager = (RemoteLogMetadataManager)
            Class.forName(words[2]).getDeclaredConstructor().newInstance();
        managers.put(broker, manager);
        Map<String, Object> config = new HashMap<>(Map.of("broker.id", broker));
        for (int i = 3; i < words.length; i++) {
            String[] setting = words[i].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        manager.configure(config);
        try {
            manager.getClass().getMethod("onBrokerReady").invoke(manager);
        } catch (NoSuchMethodException error) {
            // Only Kafka's own wants to hear of it.
        }
        return "done";
    }

    private static boolean isReady(RemoteLogMetadataManager manager, TopicIdPartition tip)
        throws Exception {
        return (boolean) manager.getClass().getMethod("isReady", TopicIdPartition.class)
            .invoke(manager, tip);
    }

    /** Time from the last announcement until all of these are ready. */
    private String ready(RemoteLogMetadataManager manager, Set<TopicIdPartition> tips)
        throws Exception {
        long begun = System.nanoTime();
        for (TopicIdPartition tip : tips) {
            while (!isReady(manager, tip)) {
                if (System.nanoTime() - begun > WAIT_NS) {
                    throw new TimeoutException(tip.toString());
                }
                Thread.sleep(1);
            }
        }
        return seconds(led);
    }

    /**
     * {@code TOPIC PARTITION SPREAD FIRST COUNT MANY STATE}: the time of segments that are brought
     * to that state, so many at a time, by turns in the partitions; and the time of each.
     */
    private static String write(
        RemoteLogMetadataManager manager, TopicIdPartition tip, String[] words) throws Exception {
        int count = number(words, 6);
        int many = number(words, 7);
        boolean isFinished = words[8].equals("COPY_SEGMENT_FINISHED");
        Semaphore free = new Semaphore(many);
        CompletableFuture<?>[] all = new CompletableFuture<?>[count];
        long[] begun = new long[count + 1];
        for (int i = 0; i < count; i++) {
            TopicIdPartition at = tip(words[2], tip.partition() + i % number(words, 4));
            int number = number(words, 5) + i;
            free.acquire();
            begun[i] = System.nanoTime();
            all[i] = begun(() -> manager.addRemoteLogSegmentMetadata(added(at, number)))
                .thenCompose(done -> !isFinished ? CompletableFuture.completedFuture(null)
                    : begun(() -> manager.updateRemoteLogSegmentMetadata(moved(
                        id(at, number), RemoteLogSegmentState.COPY_SEGMENT_FINISHED))))
                .whenComplete((done, error) -> free.release());
        }
        free.acquire(many);
        begun[count] = System.nanoTime();
        CompletableFuture.allOf(all).get();
        return seconds(begun[0]) + LongStream.range(0, count)
            .mapToObj(i -> " " + (begun[(int) i + 1] - begun[(int) i]) / 1e9)
            .collect(Collectors.joining());
    }

    private static CompletableFuture<Void> begun(Callable<CompletableFuture<Void>> write) {
        try {
            return write.call();
        } catch (Exception error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    /** The time of what a broker asks when a topic is deleted, and how many segments those were. */
    private static String delete(RemoteLogMetadataManager manager, TopicIdPartition tip)
        throws Exception {
        long begun = System.nanoTime();
        List<RemoteLogSegmentMetadata> segments = list(manager.listRemoteLogSegments(tip));
        for (RemoteLogSegmentState state : List.of(
            RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
            RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)) {
            CompletableFuture.allOf(segments.stream().map(one -> begun(() ->
                    manager.updateRemoteLogSegmentMetadata(moved(one.remoteLogSegmentId(), state))))
                .toArray(CompletableFuture<?>[]::new)).get();
        }
        manager.onStopPartitions(Set.of(tip));
        return seconds(begun) + " " + segments.size();
    }

    private static GuardedRemoteStorageManager guard(int broker) {
        GuardedRemoteStorageManager guard = new GuardedRemoteStorageManager();
        guard.configure(Map.of(
            "broker.id", broker, GuardedRemoteStorageManager.CLASS_NAME, Erasing.class.getName()));
        return guard;
    }

    /** What becomes of a segment's data when a broker's retention deletes it. */
    private static String erase(
        RemoteLogMetadataManager manager, GuardedRemoteStorageManager guard,
        RemoteLogSegmentMetadata segment) throws Exception {
        RemoteLogSegmentId id = segment.remoteLogSegmentId();
        manager.updateRemoteLogSegmentMetadata(
            moved(id, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)).get();
        String done = Erasing.by(guard, segment);
        manager.updateRemoteLogSegmentMetadata(
            moved(id, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)).get();
        return done;
    }

    /**
     * {@code TOPIC PARTITION FIRST COUNT}: the time of each segment's deletion, as retention
     * deletes, and how much of it the guard took; 0 without one.
     */
    private static String erased(
        RemoteLogMetadataManager manager, GuardedRemoteStorageManager guard,
        TopicIdPartition tip, String[] words) throws Exception {
        StringBuilder times = new StringBuilder();
        for (int i = number(words, 4); i < number(words, 4) + number(words, 5); i++) {
            RemoteLogSegmentMetadata segment = added(tip, i);
            RemoteLogSegmentId id = segment.remoteLogSegmentId();
            long begun = System.nanoTime();
            manager.updateRemoteLogSegmentMetadata(
                moved(id, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)).get();
            long asked = System.nanoTime();
            if (guard != null) {
                guard.deleteLogSegmentData(segment);
            }
            long told = guard == null ? asked : System.nanoTime();
            manager.updateRemoteLogSegmentMetadata(
                moved(id, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)).get();
            times.append(seconds(begun)).append(' ').append((told - asked) / 1e9).append(' ');
        }
        return times.toString();
    }

    /**
     * Median times of copies and reads of segments of a MiB: copied by Kafka's own tier in a
     * folder and by a guard around it, read by both, turn by turn.
     */
    private static String passed(TopicIdPartition tip, int count, Path folder) throws Exception {
        Map<String, Object> config = Map.of(
            "broker.id", 7, "dir", folder.resolve("tier").toString(),
            GuardedRemoteStorageManager.CLASS_NAME, TIER);
        RemoteStorageManager bare =
            (RemoteStorageManager) Class.forName(TIER).getDeclaredConstructor().newInstance();
        bare.configure(config);
        LogSegmentData data = data(folder);
        try (RemoteStorageManager guard = new GuardedRemoteStorageManager()) {
            guard.configure(config);
            double[][] took = new double[4][count];
            for (int i = -count / 4; i < count; i++) { // The first ones warm up.
                for (int side = 0; side < 2; side++) {
                    int turn = Math.floorMod(i + side, 2); // Neither is always the first.
                    RemoteStorageManager manager = turn == 0 ? bare : guard;
                    RemoteLogSegmentMetadata segment = added(tip, (i + count) * 2 + turn);
                    long begun = System.nanoTime();
                    manager.copyLogSegmentData(segment, data);
                    long copied = System.nanoTime();
                    try (InputStream read = manager.fetchLogSegment(segment, 0)) {
                        read.readNBytes(MIB);
                    }
                    if (i >= 0) {
                        took[turn][i] = (copied - begun) / 1e9;
                        took[2 + turn][i] = (System.nanoTime() - copied) / 1e9;
                    }
                    bare.deleteLogSegmentData(segment);
                }
            }
            return Arrays.stream(took).map(one -> {
                Arrays.sort(one);
                return String.valueOf(one[count / 2]);
            }).collect(Collectors.joining(" "));
        } finally {
            bare.close();
        }
    }

    private static LogSegmentData data(Path folder) throws IOException {
        Path log = Files.write(folder.resolve("00000000000000000000.log"), new byte[MIB]);
        Path index = Files.write(folder.resolve("00000000000000000000.index"), new byte[4096]);
        return new LogSegmentData(
            log, index, index, Optional.empty(), index, ByteBuffer.wrap(new byte[16]));
    }

    private static String lookups(
        RemoteLogMetadataManager manager, TopicIdPartition tip, int count) throws Exception {
        List<RemoteLogSegmentMetadata> all = list(manager.listRemoteLogSegments(tip));
        int[] epochs = all.stream().mapToInt(one -> one.segmentLeaderEpochs().keySet().stream()
            .max(Integer::compare).orElseThrow()).toArray();
        long[] ends = all.stream().mapToLong(RemoteLogSegmentMetadata::endOffset).toArray();
        return timed(count, () -> {
            for (int i = 0; i < count; i++) {
                int number = ThreadLocalRandom.current().nextInt(ends.length);
                Optional<RemoteLogSegmentMetadata> found =
                    manager.remoteLogSegmentMetadata(tip, epochs[number], ends[number]);
                if (found.orElseThrow().endOffset() != ends[number]) {
                    throw new IllegalStateException("another segment: " + found);
                }
            }
            return count;
        });
    }

    /** The median time of rounds, of each of so many calls, and what came of the last. */
    private static String timed(int calls, Callable<?> round) throws Exception {
        double[] took = new double[ROUNDS];
        Object last = null;
        for (int i = 0; i < ROUNDS; i++) {
            long begun = System.nanoTime();
            last = round.call();
            took[i] = (System.nanoTime() - begun) / 1e9 / calls;
        }
        Arrays.sort(took);
        return took[ROUNDS / 2] + " " + last;
    }

    private static List<RemoteLogSegmentMetadata> list(
        Iterator<RemoteLogSegmentMetadata> segments) {
        List<RemoteLogSegmentMetadata> all = new ArrayList<>();
        segments.forEachRemaining(all::add);
        return all;
    }

    /** The next partition that shares this one's partition of the metadata topic. */
    private static String beside(TopicIdPartition tip) throws Exception {
        int number = tip.partition() + 1;
        while (place(tip(tip.topic(), number)) != place(tip)) {
            number++;
        }
        return String.valueOf(number);
    }

    private static int place(TopicIdPartition tip) throws Exception {
        Class<?> partitioner = Class.forName(KAFKAS + "RemoteLogMetadataTopicPartitioner");
        return (int) partitioner.getMethod("metadataPartition", TopicIdPartition.class)
            .invoke(partitioner.getConstructor(int.class).newInstance(METADATA_PARTITIONS), tip);
    }

    /** Write what a manager has into Kafka's metadata topic, as a broker would. */
    private static String copy(
        RemoteLogMetadataManager manager, Set<TopicIdPartition> tips, String bootstrap)
        throws Exception {
        Object serde = Class.forName(KAFKAS + "serialization.RemoteLogMetadataSerde")
            .getDeclaredConstructor().newInstance();
        var serialize = serde.getClass().getMethod("serialize", RemoteLogMetadata.class);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap, "linger.ms", 20),
            new ByteArraySerializer(), new ByteArraySerializer())) {
            for (TopicIdPartition tip : tips) {
                int at = place(tip);
                for (RemoteLogSegmentMetadata one : list(manager.listRemoteLogSegments(tip))) {
                    RemoteLogSegmentMetadata added = new RemoteLogSegmentMetadata(
                        one.remoteLogSegmentId(), one.startOffset(), one.endOffset(),
                        one.maxTimestampMs(), one.brokerId(), one.eventTimestampMs(),
                        one.segmentSizeInBytes(), one.segmentLeaderEpochs());
                    RemoteLogSegmentMetadataUpdate finished = new RemoteLogSegmentMetadataUpdate(
                        one.remoteLogSegmentId(), one.eventTimestampMs(), one.customMetadata(),
                        one.state(), one.brokerId());
                    for (RemoteLogMetadata event : List.of(added, finished)) {
                        byte[] value = (byte[]) serialize.invoke(serde, event);
                        producer.send(new ProducerRecord<>(TOPIC, at, null, value));
                    }
                }
            }
        }
        return "done";
    }

    /** Bytes in use when nothing more goes, such as what threads that end still hold. */
    private static String heap() throws InterruptedException {
        Runtime java = Runtime.getRuntime();
        long least = Long.MAX_VALUE;
        for (int still = 0; still < 4; still++) {
            System.gc();
            Thread.sleep(200);
            long used = java.totalMemory() - java.freeMemory();
            still = used < least ? -1 : still;
            least = Math.min(least, used);
        }
        return String.valueOf(least);
    }

    /** Those of the managers' that do not end. */
    private static String threads() throws InterruptedException {
        List<String> left = new ArrayList<>();
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().matches("(tierledger|grpc|ok|RLMM|kafka-).*")) {
                thread.join(END_MS);
                if (thread.isAlive()) {
                    left.add(thread.getName());
                }
            }
        }
        return left.isEmpty() ? "none" : String.join(",", left);
    }

    private static int number(String[] words, int index) {
        return Integer.parseInt(words[index]);
    }

    /** {@code TOPIC PARTITION [COUNT]}. */
    private static Set<TopicIdPartition> tips(String[] words) {
        int count = words.length > 4 ? number(words, 4) : 1;
        return IntStream.range(0, count).mapToObj(i -> tip(words[2], number(words, 3) + i))
            .collect(Collectors.toSet());
    }

    private static TopicIdPartition tip(String topic, int partition) {
        byte[] id = Arrays.copyOf(topic.getBytes(), 16);
        Arrays.fill(id, topic.length(), 16, (byte) '.');
        ByteBuffer read = ByteBuffer.wrap(id);
        return new TopicIdPartition(new Uuid(read.getLong(), read.getLong()), partition, topic);
    }

    /** As random as the ids that brokers draw, and always the same. */
    private static RemoteLogSegmentId id(TopicIdPartition tip, int number) {
        SplittableRandom random = new SplittableRandom((long) tip.hashCode() << 32 | number);
        return new RemoteLogSegmentId(tip, new Uuid(random.nextLong(), random.nextLong()));
    }

    private static RemoteLogSegmentMetadata added(TopicIdPartition tip, int number) {
        long start = (long) OFFSETS * number;
        return new RemoteLogSegmentMetadata(
            id(tip, number), start, start + OFFSETS - 1, 5, 1, 6, 1 << 30, Map.of(0, start));
    }

    private static RemoteLogSegmentMetadataUpdate moved(
        RemoteLogSegmentId id, RemoteLogSegmentState state) {
        return new RemoteLogSegmentMetadataUpdate(id, 7, Optional.empty(), state, 1);
    }

    private static String seconds(long begun) {
        return String.valueOf((System.nanoTime() - begun) / 1e9);
    }
}
