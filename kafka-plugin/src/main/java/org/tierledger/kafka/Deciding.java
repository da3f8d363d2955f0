package org.tierledger.kafka;

import java.util.Map;
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
import org.tierledger.door.v1.Attend;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.Difference;
import org.tierledger.door.v1.Fate;
import org.tierledger.door.v1.OwnerWord;
import org.tierledger.door.v1.PluginMode;
import org.tierledger.door.v1.QuestionKind;
import org.tierledger.door.v1.Role;

/**
 * The manager that decides answers each call of the broker, whichever it is at the moment. Both
 * hear of roles. While the metadata is moved, no write begins.
 */
final class Deciding implements Manager {
    private static final String KAFKA = "kafka";
    private static final String TIERLEDGER = "tierledger";
    private static final int ATTEND_DEADLINE_MS = 2_000;
    private static final long ATTEND_MS = 500;
    private static final long HOMELESS_MS = 50;
    private static final long CATCH_UP_MS = 250;

    private final Logger log = LoggerFactory.getLogger(Deciding.class);
    private final Settings settings;
    private final Loop loop;
    private final Ledger ledger;
    private final Roles roles;
    /** Null: the broker decides by tierledger alone. */
    private final Embedded kafka;
    /** Null: nothing is compared. */
    private final Shadow shadow;
    /** Writes that a manager has begun, or that ask for one. */
    private final AtomicInteger underWay = new AtomicInteger();
    /** The newest, by which it goes; before it has heard one, by what its mode alone says. */
    private volatile OwnerWord word;
    /** Done when there is another word than the newest. */
    private volatile CompletableFuture<Void> otherWord = new CompletableFuture<>();
    // On the loop alone:
    private boolean isClosed;
    /** The newest word under which the manager that may decide next is fit for it. */
    private long fitFor;
    /** Why there was no word last; logged once. */
    private String missed;

    Deciding(Settings settings, Map<String, ?> configs) {
        this.settings = settings;
        loop = new Loop("tierledger-broker-" + settings.brokerId);
        ledger = new Ledger(settings, loop);
        roles = ledger.roles;
        kafka = settings.mode == PluginMode.MODE_TIERLEDGER ? null : new Embedded(configs);
        shadow = settings.mode == PluginMode.MODE_SHADOW
            ? new Shadow(settings, loop, kafka, ledger) : null;
        go(OwnerWord.newBuilder().setReads(
            kafka == null ? TIERLEDGER : shadow == null ? "" : KAFKA).build());
    }

    void begin() {
        ledger.begin();
        if (kafka != null) {
            kafka.begin(loop);
        }
        loop.run(this::attend);
    }

    /** End both, and all threads; what is held fails. */
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
        loop.close();
    }

    /** In that order: no role of before, and no replica that was ready for it, counts any more. */
    private void go(OwnerWord next) {
        roles.lead(next.getReads().equals(TIERLEDGER));
        roles.metrics.decision = text(next);
        word = next;
    }

    private static String text(OwnerWord word) {
        return "reads by " + name(word.getReads()) + ", writes by " + name(writes(word))
            + ", as of word " + word.getNumber();
    }

    private static String name(String manager) {
        return manager.isEmpty() ? "nobody" : manager;
    }

    private static boolean isMoving(OwnerWord word) {
        return word.getOwner().equals("moving");
    }

    /** Whose manager writes; nobody's while it is moving: writes that can wait are held. */
    private static String writes(OwnerWord word) {
        return isMoving(word) ? "" : word.getReads();
    }

    /**
     * Tell the coordinator how this broker stands, and hear who owns the cluster's metadata, now
     * and from now on. While no host answers, the last word stands. On the loop.
     */
    private void attend() {
        Conversation home = roles.doors.at(null);
        if (home == null) {
            loop.after(HOMELESS_MS, this::attend);
            return;
        }
        OwnerWord stand = word; // Before what is under way is looked at.
        boolean isIdle =
            writes(stand).isEmpty() && underWay.get() == 0 && fitFor == stand.getNumber();
        Attend.Builder attend = Attend.newBuilder()
            .setBrokerId(settings.brokerId)
            .setIncarnation(roles.incarnation)
            .setMode(settings.mode)
            .setNumber(stand.getNumber())
            .setIsIdle(isIdle);
        if (shadow != null) {
            attend.setShadow(shadow.report());
        }
        home.ask(
            Call.newBuilder().setDeadlineMs(ATTEND_DEADLINE_MS).setAttend(attend)
        ).whenComplete((answer, error) -> {
            boolean isNews = error == null && hear(answer.getOwnerWord());
            if (error != null) {
                missed((CallFailed) error);
            } else if (shadow != null) {
                shadow.reported(attend.getShadow());
            }
            loop.after(isNews ? 0 : ATTEND_MS, this::attend);
        });
    }

    private void missed(CallFailed error) {
        if (error.fate == Fate.FENCED_OFF) {
            roles.failed(error);
        } else if (!error.getMessage().equals(missed)) {
            missed = error.getMessage();
            log.warn("No word on who owns the cluster's metadata: {}", missed);
        }
    }

    /**
     * Look, again and again while that word stands, whether Kafka's own manager has what the
     * ledger has: what it has not read yet it would take for gone. On the loop.
     */
    private void catchUp(long number) {
        loop.transports().execute(() -> {
            boolean isBehind = !roles.hosted().allMatch(one -> isCaughtUp(one.tip));
            loop.after(isBehind ? CATCH_UP_MS : 0, () -> {
                if (isClosed || word.getNumber() != number) {
                    return;
                }
                if (isBehind) {
                    catchUp(number);
                } else {
                    fitFor = number;
                }
            });
        });
    }

    /** Whether Kafka's own manager has the list of the leader: a replica may be behind. */
    private boolean isCaughtUp(TopicIdPartition tip) {
        Question all = new Question(QuestionKind.LIST, tip, 0, 0);
        try {
            Object ours =
                ledger.answerOfService(all, new Replica.NotReady("the replica is not asked"));
            return !Shadow.differ(
                Shadow.listed(kafka.answer(all)), Shadow.listed(ours), Difference.newBuilder());
        } catch (RemoteStorageException | RuntimeException notReady) {
            return false;
        }
    }

    /** Go by that word if it is newer than the last; whether it is. On the loop. */
    private boolean hear(OwnerWord next) {
        if (isClosed || next.getNumber() <= word.getNumber()) {
            return false;
        }
        go(next);
        log.info("The owner of the remote log metadata is {}: {}", next.getOwner(), text(next));
        CompletableFuture<Void> waited = otherWord;
        otherWord = new CompletableFuture<>();
        waited.complete(null);
        if (kafka != null && isMoving(next) && next.getReads().equals(TIERLEDGER)) {
            catchUp(next.getNumber());
        } else {
            fitFor = next.getNumber();
        }
        return true;
    }

    void onPartitionLeadershipChanges(
        Set<TopicIdPartition> leaders, Set<TopicIdPartition> followers) {
        roles.become(Role.LEADER, leaders);
        roles.become(Role.FOLLOWER, followers);
        if (kafka != null) {
            kafka.manager.onPartitionLeadershipChanges(leaders, followers);
        }
    }

    void onStopPartitions(Set<TopicIdPartition> partitions) {
        roles.become(Role.ROLE_UNSPECIFIED, partitions);
        if (kafka != null) {
            kafka.manager.onStopPartitions(partitions);
        }
    }

    @Override
    public boolean isReady(TopicIdPartition tip) {
        Manager manager = manager(word.getReads());
        return manager != null && manager.isReady(tip);
    }

    @Override
    public Object answer(Question question) throws RemoteStorageException {
        OwnerWord now = word;
        Manager manager = manager(now.getReads());
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
        OwnerWord now = word; // After the count: whoever was idle under it begins nothing.
        CompletableFuture<Void> begun = null;
        try {
            Manager manager = manager(writes(now));
            begun = manager == null ? null : manager.write(change);
        } finally {
            if (begun == null) {
                underWay.decrementAndGet();
            } else {
                begun.whenComplete((nothing, error) -> underWay.decrementAndGet());
            }
        }
        if (begun != null) {
            return begun;
        }
        if (isMoving(now) && Manager.isFinish(change)) {
            return hold(change, other.copy());
        }
        throw notReady(change.topicIdPartition(), now);
    }

    /** Write it once there is another word, off the loop: Kafka's own manager may block. */
    private CompletableFuture<Void> hold(
        RemoteLogMetadata change, CompletableFuture<Void> otherWord) {
        Future<?> timeout = loop.after(
            settings.finishTimeoutMs, () -> otherWord.completeExceptionally(
                notReady(change.topicIdPartition(), word)));
        return otherWord.thenComposeAsync(nothing -> {
            timeout.cancel(false);
            try {
                return write(change);
            } catch (RemoteStorageException error) {
                return CompletableFuture.failedFuture(error);
            }
        }, loop.transports());
    }

    private Manager manager(String name) {
        return name.equals(KAFKA) ? kafka : name.equals(TIERLEDGER) ? ledger : null;
    }

    private ReplicaNotAvailableException notReady(TopicIdPartition tip, OwnerWord now) {
        return ledger.notReady(tip, "its manager does not decide: " + text(now));
    }
}
