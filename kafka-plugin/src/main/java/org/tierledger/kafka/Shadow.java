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
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Difference;
import org.tierledger.door.v1.Ownership;
import org.tierledger.door.v1.QuestionKind;
import org.tierledger.door.v1.ShadowReport;

/**
 * Compares the answers of both managers to the broker's questions, on a thread of its own. A
 * difference may only mean that one manager has not read the newest change yet. So it stands
 * only if two comparisons at the same position differ, of an imported partition, between which
 * the import has read all that Kafka's topic had. While the service is away, or the import
 * stands still, nothing is compared. What stands is told once, and looked at until it has gone.
 */
final class Shadow {
    private static final int WAITING_MAX = 1_000;
    private static final int REPORTED_MAX = 100;
    private static final int STANDING_MAX = 100;
    private static final int IDS_MAX = 20;
    /** So that 100 differences fit into the call that also asks who the owner is. */
    private static final int TEXT_MAX = 2_000;
    private static final long AGAIN_MS = 5_000;
    private static final int CLOSE_MS = 5_000;
    /** Six times the interval between two reports; the coordinator's bound, too. */
    private static final long SILENT_MS = 3_000;
    /** The first of two rounds may have begun before the look that came before it. */
    private static final long ROUNDS = 2;

    /** As of when answers differed: the replica's position, and the rounds of the import. */
    private static final class Doubt {
        final long position;
        final long rounds;

        Doubt(long position, long rounds) {
            this.position = position;
            this.rounds = rounds;
        }
    }

    private static final class Standing {
        final Question question;
        final Difference found;

        Standing(Question question, Difference found) {
            this.question = question;
            this.found = found;
        }
    }

    private final Logger log = LoggerFactory.getLogger(Shadow.class);
    private final Loop loop;
    private final Embedded kafka;
    private final Ledger ledger;
    private final Metrics metrics;
    private final ThreadPoolExecutor asking;
    /** Questions that differed once and wait for the second comparison, by their text. */
    private final Set<String> doubted = ConcurrentHashMap.newKeySet();
    /** Questions whose difference was told and stands, by their text. */
    private final Map<String, Standing> standing = new ConcurrentHashMap<>();
    private final ArrayBlockingQueue<Difference> differences =
        new ArrayBlockingQueue<>(WAITING_MAX);
    private final ArrayBlockingQueue<Difference> resolved =
        new ArrayBlockingQueue<>(WAITING_MAX);
    /** Rounds of the import by the last answer to a report; -1: the service does not tell. */
    private volatile long rounds = -1;
    /** When the service answered last, and when that number last changed (nanoTime). */
    private volatile long heardAt = System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(SILENT_MS);
    private volatile long roundAt = heardAt;
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

    /** Look at standing differences until {@link #close}. */
    void begin() {
        loop.after(AGAIN_MS, () -> {
            standing.values().forEach(one -> asking.execute(() -> look(one.question, null)));
            begin();
        });
    }

    /** Queue a question of the broker for comparison; skipped if the queue is full. */
    void compare(Question question) {
        asking.execute(() -> {
            if (!doubted.contains(question.toString())) {
                look(question, null);
            }
        });
    }

    /** Compare. {@code before}: as of when the answers differed last; null: no such look. */
    private void look(Question question, Doubt before) {
        String text = question.toString();
        try {
            long position = ledger.position(question.tip);
            if (isAway()) {
                metrics.shadowSkipped.increment();
                return;
            }
            Doubt doubt = new Doubt(position, rounds);
            List<?> kafkas = listed(kafka.answer(question));
            List<?> ours = listed(ledger.ownAnswer(question));
            Difference.Builder found = difference(question, kafkas, ours);
            boolean isSame = before != null && before.position == position
                && position == ledger.position(question.tip)
                && (rounds < 0 || rounds >= before.rounds + ROUNDS);
            if (found == null) {
                alike(text);
            } else if (standing.containsKey(text)) {
                return; // It was told.
            } else if (!isSame && doubted.size() < WAITING_MAX) {
                doubted.add(text);
                loop.after(AGAIN_MS, () -> {
                    doubted.remove(text);
                    asking.execute(() -> look(question, doubt));
                });
            } else if (isSame && position >= 0 && standing.size() < STANDING_MAX
                && differences.offer(found.setPosition(position).build())) {
                stands(question, found.build(), kafkas, ours);
            } else {
                metrics.shadowSkipped.increment();
            }
        } catch (RemoteResourceNotFoundException notHosted) {
            gone(text, "its partition is hosted no more");
        } catch (RemoteStorageException | Replica.NotReady | Replica.Deleted
                | RuntimeException notReady) {
            metrics.shadowSkipped.increment();
        }
    }

    /** Whether the service does not answer, or the import of Kafka's topic stands still. */
    private boolean isAway() {
        long now = System.nanoTime();
        return now - heardAt >= TimeUnit.MILLISECONDS.toNanos(SILENT_MS)
            || (rounds >= 0 && now - roundAt >= TimeUnit.MILLISECONDS.toNanos(SILENT_MS));
    }

    private void alike(String text) {
        metrics.shadowEqual.increment();
        metrics.verifiedAt = System.nanoTime();
        metrics.verified++; // By this thread alone.
        gone(text, "both managers answer alike");
    }

    private void stands(
        Question question, Difference found, List<?> kafkas, List<?> ours) {
        standing.put(question.toString(), new Standing(question, found));
        metrics.shadowDifferent.increment();
        if (!isRecovered(found)) {
            metrics.verified = 0;
        }
        count();
        log.warn("{} has one answer of Kafka's own manager: {}; and another of tierledger at "
            + "position {}: {}", question, shown(kafkas), found.getPosition(), shown(ours));
    }

    /** A difference, if it stood, is no more. */
    private void gone(String text, String why) {
        Standing stood = standing.remove(text);
        if (stood == null) {
            return;
        }
        count();
        metrics.shadowResolved.increment();
        resolved.offer(Difference.newBuilder(stood.found).clearKafka().clearReplica()
            .clearKafkaNumber().clearReplicaNumber().clearContents().build());
        log.info("{} differs no more: {}", text, why);
    }

    private void count() {
        metrics.standing =
            standing.values().stream().filter(one -> !isRecovered(one.found)).count();
    }

    /** Whether only Kafka's manager lacks segments; the service judges in the same way. */
    static boolean isRecovered(Difference found) {
        if (found.getKind() == QuestionKind.SIZE) {
            return found.getKafkaNumber() < found.getReplicaNumber();
        }
        return found.getKind() != QuestionKind.HIGHEST_OFFSET && found.getReplicaCount() > 0
            && found.getKafkaCount() == 0 && found.getContents().isEmpty();
    }

    private static String shown(List<?> answer) {
        String text = answer.isEmpty() ? "none" : answer.toString();
        return text.substring(0, Math.min(text.length(), TEXT_MAX));
    }

    /** The difference between both managers' answers; null if they are equal. */
    private static Difference.Builder difference(
        Question question, List<?> kafkas, List<?> ours) {
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

    /** What has changed since the last report that the service received. On the loop. */
    ShadowReport report() {
        ShadowReport.Builder report = ShadowReport.newBuilder()
            .setEqual(metrics.shadowEqual.sum() - equalTold)
            .setSkipped(metrics.shadowSkipped.sum() - skippedTold)
            .setStanding(metrics.standing)
            .setVerified(metrics.verified);
        differences.stream().limit(REPORTED_MAX).forEach(report::addDifferences);
        resolved.stream().limit(REPORTED_MAX).forEach(report::addResolved);
        long agoMs = metrics.verifiedAgoMs();
        return (agoMs < 0 ? report : report.setVerifiedMsAgo(agoMs)).build();
    }

    /** Note that the service has received that report, and how far it imports. On the loop. */
    void reported(ShadowReport report, Ownership answer) {
        equalTold += report.getEqual();
        skippedTold += report.getSkipped();
        // One by one: a question that differs again may wait with an equal report.
        report.getDifferencesList().forEach(differences::remove);
        report.getResolvedList().forEach(resolved::remove);
        long now = System.nanoTime();
        long told = answer.hasImportRounds() ? answer.getImportRounds() : -1;
        if (told != rounds) {
            rounds = told;
            roundAt = now;
        }
        heardAt = now;
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

    static Uuid id(Object segment) {
        return ((RemoteLogSegmentMetadata) segment).remoteLogSegmentId().id();
    }
}
