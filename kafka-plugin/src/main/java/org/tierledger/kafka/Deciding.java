package org.tierledger.kafka;

import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Difference;
import org.tierledger.door.v1.OwnerWord;
import org.tierledger.door.v1.PluginMode;
import org.tierledger.door.v1.QuestionKind;
import org.tierledger.door.v1.Role;

/**
 * The manager that decides answers each call of the broker, whichever it is at the moment. Both
 * hear of roles. While the metadata is moved, no write begins.
 */
final class Deciding implements Manager {
    private static final long CATCH_UP_MS = 250;

    private final Logger log = LoggerFactory.getLogger(Deciding.class);
    private final Settings settings;
    private final Loop loop;
    private final Ledger ledger;
    /** Null: the broker decides by tierledger alone. */
    private final Embedded kafka;
    /** Null: nothing is compared. */
    private final Shadow shadow;
    /** Writes that a manager has begun, or that ask for one. */
    private final AtomicInteger underWay = new AtomicInteger();
    private volatile Decision decision;
    /** Done when there is another word than the newest. */
    private volatile CompletableFuture<Void> otherWord = new CompletableFuture<>();
    // On the loop alone:
    private boolean isClosed;
    /** The newest word under which the manager that may decide next is fit for it. */
    private long fitFor;

    Deciding(Settings settings, Map<String, ?> configs, Loop loop) {
        this.settings = settings;
        this.loop = loop;
        ledger = new Ledger(settings, loop);
        kafka = settings.mode == PluginMode.MODE_TIERLEDGER ? null : new Embedded(configs);
        shadow = settings.mode == PluginMode.MODE_SHADOW
            ? new Shadow(settings, loop, kafka, ledger) : null;
        go(Decision.of(settings.mode, OwnerWord.getDefaultInstance()));
    }

    void begin() {
        ledger.begin();
        if (kafka != null) {
            kafka.begin(loop);
        }
        if (shadow != null) {
            loop.run(shadow::tell);
        }
        loop.run(() -> new Owner(settings, loop, ledger.roles, this).attend());
    }

    /** End both; what is held fails. */
    void close() {
        loop.run(() -> {
            isClosed = true;
            otherWord.completeExceptionally(
                new RemoteStorageException("the plugin was closed"));
        });
        if (shadow != null) {
            shadow.close();
        }
        ledger.close();
        if (kafka != null) {
            kafka.close();
        }
    }

    Decision decision() {
        return decision;
    }

    /** In that order: no role of before, and no replica that was ready for it, counts any more. */
    private void go(Decision next) {
        ledger.roles.lead(next.reads == Decision.By.TIERLEDGER);
        ledger.roles.metrics.decision = next.toString();
        decision = next;
    }

    /** Whether no write is under way, if none begins, and another may decide. On the loop. */
    boolean isIdle(Decision stand) {
        return underWay.get() == 0 && fitFor == stand.number;
    }

    /**
     * Look, again and again while that word stands, whether Kafka's own manager has what the
     * ledger has: what it has not read yet it would take for gone. On the loop.
     */
    private void catchUp(long number) {
        CompletableFuture.runAsync(
            () -> ledger.roles.hosted().forEach(one -> check(one.tip)), loop.transports()
        ).whenComplete((nothing, behind) -> loop.after(behind == null ? 0 : CATCH_UP_MS, () -> {
            if (isClosed || decision.number != number) {
                return;
            }
            if (behind == null) {
                fitFor = number;
            } else {
                catchUp(number);
            }
        }));
    }

    private void check(TopicIdPartition tip) {
        try {
            Question all = new Question(QuestionKind.LIST, tip, 0, 0);
            // The leader's list: a replica may be behind.
            if (Shadow.among(
                (Iterator<?>) kafka.answer(all), (Iterator<?>) ledger.answerOfService(all),
                Difference.newBuilder())) {
                throw ledger.notReady(tip, "Kafka's own manager knows other segments");
            }
        } catch (RemoteStorageException error) {
            throw new KafkaException(error);
        }
    }

    /** Go by that word if it is newer than the last; whether it is. On the loop. */
    boolean hear(OwnerWord word) {
        if (isClosed || word.getNumber() <= decision.number) {
            return false;
        }
        Decision next = Decision.of(settings.mode, word);
        go(next);
        log.info("The owner of the remote log metadata is {}: {}", word.getOwner(), next);
        CompletableFuture<Void> waited = otherWord;
        otherWord = new CompletableFuture<>();
        waited.complete(null);
        if (kafka != null && next.isMoving && next.reads == Decision.By.TIERLEDGER) {
            catchUp(next.number);
        } else {
            fitFor = next.number;
        }
        return true;
    }

    void onPartitionLeadershipChanges(
        Set<TopicIdPartition> leaders, Set<TopicIdPartition> followers) {
        ledger.roles.become(Role.LEADER, leaders);
        ledger.roles.become(Role.FOLLOWER, followers);
        if (kafka != null) {
            kafka.manager.onPartitionLeadershipChanges(leaders, followers);
        }
    }

    void onStopPartitions(Set<TopicIdPartition> partitions) {
        ledger.roles.become(Role.ROLE_UNSPECIFIED, partitions);
        if (kafka != null) {
            kafka.manager.onStopPartitions(partitions);
        }
    }

    @Override
    public boolean isReady(TopicIdPartition tip) {
        Manager manager = manager(decision.reads);
        return manager != null && manager.isReady(tip);
    }

    @Override
    public Object answer(Question question) throws RemoteStorageException {
        Decision now = decision;
        Manager manager = manager(now.reads);
        if (manager == null) {
            throw notReady(question.tip, now);
        }
        Object answer = manager.answer(question);
        if (shadow != null) {
            shadow.compare(question);
        }
        return answer;
    }

    @Override
    public CompletableFuture<Void> write(RemoteLogMetadata change) throws RemoteStorageException {
        CompletableFuture<Void> other = otherWord; // Before the word that it follows.
        underWay.incrementAndGet();
        Decision now = decision; // After the count: whoever was idle under it begins nothing.
        CompletableFuture<Void> begun = null;
        try {
            Manager manager = manager(now.writes);
            if (manager != null) {
                begun = manager.write(change);
                begun.whenComplete((nothing, error) -> underWay.decrementAndGet());
                return begun;
            }
        } finally {
            if (begun == null) {
                underWay.decrementAndGet();
            }
        }
        if (now.isMoving && Manager.isFinish(change)) {
            return hold(change, other);
        }
        throw notReady(change.topicIdPartition(), now);
    }

    /** Write it once there is another word, off the loop: Kafka's own manager may block. */
    private CompletableFuture<Void> hold(
        RemoteLogMetadata change, CompletableFuture<Void> otherWord) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        Future<?> timeout = loop.after(settings.finishTimeoutMs, () -> done.completeExceptionally(
            notReady(change.topicIdPartition(), decision)));
        otherWord.whenCompleteAsync((nothing, closed) -> {
            timeout.cancel(false);
            try {
                if (closed != null) {
                    done.completeExceptionally(closed);
                } else if (!done.isDone()) {
                    write(change).whenComplete((written, error) -> {
                        if (error == null) {
                            done.complete(null);
                        } else {
                            done.completeExceptionally(error);
                        }
                    });
                }
            } catch (RemoteStorageException | RuntimeException error) {
                done.completeExceptionally(error);
            }
        }, loop.transports());
        return done;
    }

    private Manager manager(Decision.By by) {
        return by == Decision.By.KAFKA ? kafka : by == Decision.By.TIERLEDGER ? ledger : null;
    }

    private ReplicaNotAvailableException notReady(TopicIdPartition tip, Decision now) {
        return ledger.notReady(tip, "its manager does not decide: " + now);
    }
}
