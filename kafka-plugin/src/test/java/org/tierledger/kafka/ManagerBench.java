package org.tierledger.kafka;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;

/**
 * Asks managers of one process the same: a command per line of the input, its figures on a line
 * of the output. `NAME open CLASS KEY VALUE ...` makes a manager; `NAME COMMAND TOPIC ...` asks it.
 */
public final class ManagerBench {
    private static final String SERDE =
        "org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde";
    private static final String PARTITIONER =
        "org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner";
    private static final String TOPIC = "__remote_log_metadata";
    private static final int METADATA_PARTITIONS = 50;
    private static final int OFFSETS = 1000;
    private static final int ROUNDS = 9;

    private final Map<String, RemoteLogMetadataManager> managers = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);  // What is logged is no answer.
        ManagerBench bench = new ManagerBench();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = bench.answer(line.split(" "));
            } catch (Exception error) {
                error.printStackTrace();
                answer = "failed: " + error;
            }
            answers.println(answer);
        }
        for (RemoteLogMetadataManager one : bench.managers.values()) {
            one.close();
        }
    }

    private String answer(String[] words) throws Exception {
        RemoteLogMetadataManager manager = managers.get(words[0]);
        int first = words.length > 3 && words[3].matches("\\d+") ? Integer.parseInt(words[3]) : 0;
        int count = words.length > 4 && words[4].matches("\\d+") ? Integer.parseInt(words[4]) : 0;
        switch (words[1]) {
            case "open": return open(words);
            case "close":
                managers.remove(words[0]).close();
                return "";
            case "heap": return String.valueOf(heap());
            case "lead": return lead(manager, words[2], first, count);
            case "add": return add(manager, tip(words[2], 0), first, count);
            case "outstanding":
                return outstanding(manager, words[2], first, count, Integer.parseInt(words[5]));
            case "fill":
                return fill(manager, tip(words[2], 0), first, count, Integer.parseInt(words[5]));
            case "lifecycle": return lifecycle(manager, tip(words[2], 0), first, count);
            case "delete": return delete(manager, tip(words[2], 0));
            case "lookup": return lookup(manager, tip(words[2], 0), first, count);
            case "list": return list(manager, tip(words[2], 0), first);
            case "size": return size(manager, tip(words[2], 0), first);
            case "beside": return String.valueOf(beside(words[2]));
            case "copy": return copy(manager, words[2], first, words[4]);
            default: throw new IllegalArgumentException(words[1]);
        }
    }

    private String open(String[] words) throws Exception {
        RemoteLogMetadataManager manager = (RemoteLogMetadataManager)
            Class.forName(words[2]).getDeclaredConstructor().newInstance();
        Map<String, Object> config = new HashMap<>(Map.of("broker.id", 1));
        for (int i = 3; i < words.length; i += 2) {
            config.put(words[i], words[i + 1]);
        }
        manager.configure(config);
        try {
            manager.getClass().getMethod("onBrokerReady").invoke(manager);
        } catch (NoSuchMethodException error) {
            // Only Kafka's own wants to hear of it.
        }
        managers.put(words[0], manager);
        return "";
    }

    /** Seconds until all of these partitions are ready. */
    private static String lead(
        RemoteLogMetadataManager manager, String topic, int first, int count) throws Exception {
        Set<TopicIdPartition> tips = IntStream.range(first, first + count)
            .mapToObj(one -> tip(topic, one)).collect(Collectors.toSet());
        var isReady = manager.getClass().getMethod("isReady", TopicIdPartition.class);
        long begun = System.nanoTime();
        manager.onPartitionLeadershipChanges(tips, Set.of());
        Set<TopicIdPartition> waiting = new HashSet<>(tips);
        while (!waiting.isEmpty()) {
            for (Iterator<TopicIdPartition> all = waiting.iterator(); all.hasNext();) {
                if ((boolean) isReady.invoke(manager, all.next())) {
                    all.remove();
                }
            }
            Thread.sleep(1);
        }
        return seconds(begun);
    }

    /** Microseconds of each call, one at a time. */
    private static String add(
        RemoteLogMetadataManager manager, TopicIdPartition tip, int first, int count)
        throws Exception {
        long[] took = new long[count];
        for (int number = 0; number < count; number++) {
            long begun = System.nanoTime();
            manager.addRemoteLogSegmentMetadata(started(tip, first + number)).get();
            took[number] = (System.nanoTime() - begun) / 1000;
        }
        return Arrays.stream(took).mapToObj(String::valueOf).collect(Collectors.joining(" "));
    }

    /** Seconds for `count` adds to 16 partitions, so many at a time. */
    private static String outstanding(
        RemoteLogMetadataManager manager, String topic, int first, int count, int many)
        throws Exception {
        Semaphore free = new Semaphore(many);
        CompletableFuture<?>[] all = new CompletableFuture<?>[count];
        long begun = System.nanoTime();
        for (int number = 0; number < count; number++) {
            free.acquire();
            all[number] = manager
                .addRemoteLogSegmentMetadata(started(tip(topic, number % 16), first + number))
                .whenComplete((done, error) -> free.release());
        }
        CompletableFuture.allOf(all).get();
        return seconds(begun);
    }

    /** Seconds for segments that are added and finished, so many at a time. */
    private static String fill(
        RemoteLogMetadataManager manager, TopicIdPartition tip, int first, int count, int many)
        throws Exception {
        Semaphore free = new Semaphore(many);
        CompletableFuture<?>[] all = new CompletableFuture<?>[count];
        long begun = System.nanoTime();
        for (int number = 0; number < count; number++) {
            free.acquire();
            RemoteLogSegmentMetadataUpdate finished = moved(
                id(tip, first + number), RemoteLogSegmentState.COPY_SEGMENT_FINISHED);
            all[number] = manager.addRemoteLogSegmentMetadata(started(tip, first + number))
                .thenCompose(done -> {
                    try {
                        return manager.updateRemoteLogSegmentMetadata(finished);
                    } catch (Exception error) {
                        return CompletableFuture.failedFuture(error);
                    }
                })
                .whenComplete((done, error) -> free.release());
        }
        CompletableFuture.allOf(all).get();
        return seconds(begun);
    }

    /** Seconds for segments that are added and finished, by one worker. */
    private static String lifecycle(
        RemoteLogMetadataManager manager, TopicIdPartition tip, int first, int count)
        throws Exception {
        long begun = System.nanoTime();
        for (int number = first; number < first + count; number++) {
            manager.addRemoteLogSegmentMetadata(started(tip, number)).get();
            manager.updateRemoteLogSegmentMetadata(
                moved(id(tip, number), RemoteLogSegmentState.COPY_SEGMENT_FINISHED)).get();
        }
        return seconds(begun);
    }

    /** Seconds for what a broker asks when a topic is deleted. */
    private static String delete(RemoteLogMetadataManager manager, TopicIdPartition tip)
        throws Exception {
        long begun = System.nanoTime();
        Set<RemoteLogSegmentId> ids = new HashSet<>();
        manager.listRemoteLogSegments(tip)
            .forEachRemaining(one -> ids.add(one.remoteLogSegmentId()));
        for (RemoteLogSegmentState state : new RemoteLogSegmentState[] {
            RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
            RemoteLogSegmentState.DELETE_SEGMENT_FINISHED}) {
            CompletableFuture<?>[] all = ids.stream().map(one -> {
                try {
                    return manager.updateRemoteLogSegmentMetadata(moved(one, state));
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }).toArray(CompletableFuture<?>[]::new);
            CompletableFuture.allOf(all).get();
        }
        manager.onStopPartitions(Set.of(tip));
        return seconds(begun) + " " + ids.size();
    }

    /** Nanoseconds per lookup of a random segment, the median of rounds. */
    private static String lookup(
        RemoteLogMetadataManager manager, TopicIdPartition tip, int segments, int count)
        throws Exception {
        int[] epochs = new int[segments];
        Iterator<RemoteLogSegmentMetadata> all = manager.listRemoteLogSegments(tip);
        while (all.hasNext()) {
            RemoteLogSegmentMetadata one = all.next();
            epochs[(int) (one.startOffset() / OFFSETS)] =
                one.segmentLeaderEpochs().keySet().stream().max(Integer::compare).orElseThrow();
        }
        double[] rounds = new double[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            long begun = System.nanoTime();
            for (int i = 0; i < count; i++) {
                int number = ThreadLocalRandom.current().nextInt(segments);
                Optional<RemoteLogSegmentMetadata> found = manager.remoteLogSegmentMetadata(
                    tip, epochs[number], (long) OFFSETS * number + OFFSETS - 1);
                if (found.orElseThrow().endOffset() != (long) OFFSETS * number + OFFSETS - 1) {
                    throw new IllegalStateException("another segment: " + found);
                }
            }
            rounds[round] = (System.nanoTime() - begun) / (double) count;
        }
        return median(rounds);
    }

    /** Microseconds of listing an epoch, each segment touched, and how many those are. */
    private static String list(RemoteLogMetadataManager manager, TopicIdPartition tip, int epoch)
        throws Exception {
        double[] rounds = new double[ROUNDS];
        int count = 0;
        for (int round = 0; round < ROUNDS; round++) {
            long begun = System.nanoTime();
            count = 0;
            Iterator<RemoteLogSegmentMetadata> all = manager.listRemoteLogSegments(tip, epoch);
            while (all.hasNext()) {
                count += all.next().segmentSizeInBytes() > 0 ? 1 : 0;
            }
            rounds[round] = (System.nanoTime() - begun) / 1e3;
        }
        return median(rounds) + " " + count;
    }

    private static String size(RemoteLogMetadataManager manager, TopicIdPartition tip, int epoch)
        throws Exception {
        double[] rounds = new double[ROUNDS];
        long size = 0;
        for (int round = 0; round < ROUNDS; round++) {
            long begun = System.nanoTime();
            size = manager.remoteLogSize(tip, epoch);
            rounds[round] = (System.nanoTime() - begun) / 1e3;
        }
        return median(rounds) + " " + size;
    }

    /** The next partition of a topic that shares partition 0's partition of the metadata topic. */
    private static int beside(String topic) throws Exception {
        int number = 1;
        while (place(tip(topic, number)) != place(tip(topic, 0))) {
            number++;
        }
        return number;
    }

    private static int place(TopicIdPartition tip) throws Exception {
        Class<?> partitioner = Class.forName(PARTITIONER);
        return (int) partitioner.getMethod("metadataPartition", TopicIdPartition.class)
            .invoke(partitioner.getConstructor(int.class).newInstance(METADATA_PARTITIONS), tip);
    }

    /** Write what `manager` has of partitions from 0 into Kafka's metadata topic, as a broker would. */
    @SuppressWarnings("unchecked")
    private static String copy(
        RemoteLogMetadataManager manager, String topic, int partitions, String bootstrap)
        throws Exception {
        Object serde = Class.forName(SERDE).getDeclaredConstructor().newInstance();
        var serialize = serde.getClass().getMethod("serialize", RemoteLogMetadata.class);
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "linger.ms", 20);
        long written = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
            config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < partitions; number++) {
                TopicIdPartition tip = tip(topic, number);
                int at = place(tip);
                Iterator<RemoteLogSegmentMetadata> all = manager.listRemoteLogSegments(tip);
                while (all.hasNext()) {
                    RemoteLogSegmentMetadata one = all.next();
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
                        written++;
                    }
                }
            }
        }
        return String.valueOf(written);
    }

    /** Bytes in use when nothing more can be collected. */
    private static long heap() throws InterruptedException {
        for (int i = 0; i < 4; i++) {
            System.gc();
            Thread.sleep(200);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private static TopicIdPartition tip(String topic, int partition) {
        byte[] id = Arrays.copyOf(topic.getBytes(), 16);
        Arrays.fill(id, topic.length(), 16, (byte) '.');
        ByteBuffer read = ByteBuffer.wrap(id);
        return new TopicIdPartition(new Uuid(read.getLong(), read.getLong()), partition, topic);
    }

    private static RemoteLogSegmentId id(TopicIdPartition tip, int number) {
        long seed = (long) tip.hashCode() << 32 | number;
        return new RemoteLogSegmentId(tip, new Uuid(scattered(seed), scattered(~seed)));
    }

    /** As random as the ids that brokers draw, and always the same. */
    private static long scattered(long seed) {
        return new SplittableRandom(seed).nextLong();
    }

    private static RemoteLogSegmentMetadata started(TopicIdPartition tip, int number) {
        long start = (long) OFFSETS * number;
        return new RemoteLogSegmentMetadata(
            id(tip, number), start, start + OFFSETS - 1, 5, 1, 6, 1 << 30, Map.of(0, start));
    }

    private static RemoteLogSegmentMetadataUpdate moved(
        RemoteLogSegmentId id, RemoteLogSegmentState state) {
        return new RemoteLogSegmentMetadataUpdate(id, 7, Optional.empty(), state, 1);
    }

    private static String median(double[] rounds) {
        Arrays.sort(rounds);
        return String.valueOf(rounds[rounds.length / 2]);
    }

    private static String seconds(long begun) {
        return String.valueOf((System.nanoTime() - begun) / (double) TimeUnit.SECONDS.toNanos(1));
    }
}
