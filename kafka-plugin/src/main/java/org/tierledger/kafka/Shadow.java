package org.tierledger.kafka;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Difference;
import org.tierledger.door.v1.QuestionKind;
import org.tierledger.door.v1.ShadowReport;

/**
 * Compares the answers of both managers to the broker's questions, on a thread of its own. A
 * difference may only mean that one manager has not read the newest change yet. So it is
 * reported only if two comparisons at the same position differ, and only of an imported
 * partition.
 */
final class Shadow {
    private static final int WAITING_MAX = 1_000;
    private static final int REPORTED_MAX = 100;
    private static final int IDS_MAX = 20;
    /** So that 100 differences fit into the call that also asks who the owner is. */
    private static final int TEXT_MAX = 2_000;
    private static final long AGAIN_MS = 5_000;
    private static final int CLOSE_MS = 5_000;
    private static final long NOWHERE = Long.MIN_VALUE;

    private final Logger log = LoggerFactory.getLogger(Shadow.class);
    private final Loop loop;
    private final Embedded kafka;
    private final Ledger ledger;
    private final Metrics metrics;
    private final ThreadPoolExecutor asking;
    /** Questions that differed once and wait for the second comparison, by their text. */
    private final Set<String> doubted = ConcurrentHashMap.newKeySet();
    private final ArrayBlockingQueue<Difference> differences =
        new ArrayBlockingQueue<>(WAITING_MAX);
    // Counts that the service has received; on the loop alone.
    private long equalTold;
    private long skippedTold;

    Shadow(Settings settings, Loop loop, Embedded kafka, Ledger ledger) {
        this.loop = loop;
        this.kafka = kafka;
        this.ledger = ledger;
        metrics = ledger.roles.metrics;
        asking = new ThreadPoolExecutor(
            1, 1, 0, TimeUnit.SECONDS, new ArrayBlockingQueue<>(WAITING_MAX),
            Loop.daemons("tierledger-broker-" + settings.brokerId + "-shadow"),
            (look, full) -> metrics.shadowSkipped.increment());
    }

    /** Queue a question of the broker for comparison; skipped if the queue is full. */
    void compare(Question question) {
        asking.execute(() -> {
            if (!doubted.contains(question.toString())) {
                look(question, NOWHERE);
            }
        });
    }

    /** Compare. {@code before} is the position at which the answers differed last. */
    private void look(Question question, long before) {
        try {
            long position = ledger.position(question.tip);
            Difference.Builder found = difference(question);
            boolean isSame = position == before && position == ledger.position(question.tip);
            if (found == null) {
                metrics.shadowEqual.increment();
            } else if (!isSame && doubted.size() < WAITING_MAX) {
                doubted.add(question.toString());
                loop.after(AGAIN_MS, () -> {
                    doubted.remove(question.toString());
                    asking.execute(() -> look(question, position));
                });
            } else if (isSame && position >= 0
                && differences.offer(found.setPosition(position).build())) {
                metrics.shadowDifferent.increment();
                log.warn("{} has one answer of Kafka's own manager, and another of tierledger at "
                    + "position {}", question, position);
            } else {
                metrics.shadowSkipped.increment();
            }
        } catch (RemoteStorageException | Replica.NotReady | Replica.Deleted
                | RuntimeException notReady) {
            metrics.shadowSkipped.increment();
        }
    }

    /** The difference between both managers' answers; null if they are equal. */
    private Difference.Builder difference(Question question)
        throws RemoteStorageException, Replica.NotReady, Replica.Deleted {
        List<?> kafkas = listed(kafka.answer(question));
        List<?> ours = listed(ledger.ownAnswer(question));
        Difference.Builder found = Difference.newBuilder()
            .setPartition(Segments.partition(question.tip)).setKind(question.kind)
            .setEpoch(question.epoch).setOffset(question.offset);
        if (question.kind != QuestionKind.SIZE && question.kind != QuestionKind.HIGHEST_OFFSET) {
            return differ(kafkas, ours, found) ? found : null;
        }
        kafkas.forEach(one -> found.setKafkaNumber((Long) one));
        ours.forEach(one -> found.setReplicaNumber((Long) one));
        return kafkas.equals(ours) ? null : found;
    }

    /** An answer's items as a list, for an Optional, an Iterator or a single value. */
    static List<?> listed(Object answer) {
        if (answer instanceof Optional) {
            return ((Optional<?>) answer).stream().collect(Collectors.toList());
        }
        List<Object> all = new ArrayList<>();
        if (answer instanceof Iterator) {
            ((Iterator<?>) answer).forEachRemaining(all::add);
        } else {
            all.add(answer);
        }
        return all;
    }

    void close() {
        asking.shutdownNow();
        try {
            asking.awaitTermination(CLOSE_MS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Counts and differences since the last report that the service received. On the loop. */
    ShadowReport report() {
        return ShadowReport.newBuilder()
            .setEqual(metrics.shadowEqual.sum() - equalTold)
            .setSkipped(metrics.shadowSkipped.sum() - skippedTold)
            .addAllDifferences(
                differences.stream().limit(REPORTED_MAX).collect(Collectors.toList()))
            .build();
    }

    /** Note that the service has received that report. On the loop. */
    void reported(ShadowReport report) {
        equalTold += report.getEqual();
        skippedTold += report.getSkipped();
        differences.removeAll(report.getDifferencesList());
    }

    /** Whether the segments differ, in any order; {@code found} gets the first that do. */
    static boolean differ(List<?> kafkas, List<?> ours, Difference.Builder found) {
        Map<Uuid, Object> left = new LinkedHashMap<>();
        kafkas.forEach(one -> left.put(id(one), one));
        ours.forEach(one -> {
            Object other = left.get(id(one));
            if (one.equals(other)) {
                left.remove(id(one));
            } else if (found.getReplicaCount() < IDS_MAX) {
                found.addReplica(Segments.bytes(id(one)));
                if (other != null) {
                    String both = other + " by Kafka, here " + one;
                    found.setContents(both.substring(0, Math.min(both.length(), TEXT_MAX)));
                }
            }
        });
        left.keySet().stream().limit(IDS_MAX).forEach(id -> found.addKafka(Segments.bytes(id)));
        return found.getReplicaCount() + found.getKafkaCount() > 0;
    }

    private static Uuid id(Object segment) {
        return ((RemoteLogSegmentMetadata) segment).remoteLogSegmentId().id();
    }
}
