package org.tierledger.kafka;

import java.util.ArrayDeque;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.OwnerWord;
import org.tierledger.door.v1.PluginMode;
import org.tierledger.door.v1.Role;

/**
 * The manager that decides answers each call of the broker, whichever it is at the moment. Both
 * hear of roles. While the metadata is moved, no write begins.
 */
final class Deciding implements Manager {
    /** A write that waits for the next word. */
    private static final class Held {
        final RemoteLogMetadata change;
        final CompletableFuture<Void> done = new CompletableFuture<>();
        Future<?> timeout;

        Held(RemoteLogMetadata change) {
            this.change = change;
        }
    }

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
    /** On the loop alone. */
    private final Queue<Held> held = new ArrayDeque<>();
    private volatile boolean isClosed;

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
        isClosed = true;
        loop.run(() -> held.forEach(Deciding::drop));
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

    /** Whether no write is under way, if none begins. */
    boolean isIdle() {
        return underWay.get() == 0;
    }

    /** Go by that word if it is newer than the last; whether it is. On the loop. */
    boolean hear(OwnerWord word) {
        if (word.getNumber() <= decision.number) {
            return false;
        }
        Decision next = Decision.of(settings.mode, word);
        go(next);
        log.info("The owner of the remote log metadata is {}: {}", word.getOwner(), next);
        if (!next.isMoving) {
            for (Held one = held.poll(); one != null; one = held.poll()) {
                one.timeout.cancel(false);
                release(one);
            }
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
            return hold(change);
        }
        throw notReady(change.topicIdPartition(), now);
    }

    private CompletableFuture<Void> hold(RemoteLogMetadata change) {
        Held one = new Held(change);
        loop.run(() -> {
            one.timeout = loop.after(settings.finishTimeoutMs, () -> {
                held.remove(one);
                one.done.completeExceptionally(notReady(change.topicIdPartition(), decision));
            });
            if (decision.isMoving) {
                held.add(one);
            } else {
                one.timeout.cancel(false);
                release(one);
            }
        });
        if (isClosed) { // The loop may have dropped it.
            drop(one);
        }
        return one.done;
    }

    private static void drop(Held one) {
        one.done.completeExceptionally(new RemoteStorageException("the plugin was closed"));
    }

    /** Kafka's own manager may hold up who writes by it, which the loop must not be. */
    private void release(Held one) {
        loop.transports().execute(() -> {
            try {
                write(one.change).whenComplete((nothing, error) -> {
                    if (error == null) {
                        one.done.complete(null);
                    } else {
                        one.done.completeExceptionally(error);
                    }
                });
            } catch (RemoteStorageException | RuntimeException error) {
                one.done.completeExceptionally(error);
            }
        });
    }

    private Manager manager(Decision.By by) {
        return by == Decision.By.KAFKA ? kafka : by == Decision.By.TIERLEDGER ? ledger : null;
    }

    private ReplicaNotAvailableException notReady(TopicIdPartition tip, Decision now) {
        return ledger.notReady(tip, "its manager does not decide: " + now);
    }
}
