package org.tierledger.kafka;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import javax.management.ObjectName;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Attend;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.Difference;
import org.tierledger.door.v1.Fate;
import org.tierledger.door.v1.Ownership;
import org.tierledger.door.v1.PluginMode;
import org.tierledger.door.v1.QuestionKind;
import org.tierledger.door.v1.Role;

/**
 * Passes each call of the broker to the manager that owns the cluster's metadata at the moment:
 * Kafka's own or tierledger. Role changes go to both. Each {@link Ownership} of the coordinator
 * tells who owns the metadata; while it moves from one manager to the other, no write begins.
 */
final class Deciding implements Manager, DeletionsMBean {
    private static final String KAFKA = "kafka";
    private static final String TIERLEDGER = "tierledger";
    /** In place of an owner: that of the broker's last run, until a host answers. */
    private static final String RECALLED = "recalled";
    /** In place of an owner: the service's ledger is not the one that this broker knew. */
    private static final String ANOTHER = "another ledger";
    /** Partitions with another log that a report names at most. */
    private static final int OTHER_LOGS_MAX = 100;
    /** Of the jar; empty outside one, as in tests. */
    private static final String RELEASE =
        Objects.requireNonNullElse(Deciding.class.getPackage().getImplementationVersion(), "");
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
    /** Writes that a manager has begun and not ended, or that are about to choose a manager. */
    private final AtomicInteger underWay = new AtomicInteger();
    /** The owner epoch that this broker had seen before it started; 0: none. */
    private final long lastEpoch;
    private final long began = System.nanoTime();
    private final Purges purges;
    /** Under which a guard in this JVM finds the plugin. */
    private ObjectName answering;
    /** The newest that this broker obeys; before the first, one that its mode implies. */
    private volatile Ownership ownership;
    /** Completed when a newer {@link Ownership} has replaced {@link #ownership}. */
    private volatile CompletableFuture<Void> changed = new CompletableFuture<>();
    // On the loop alone:
    private boolean isClosed;
    /** The newest owner epoch for which the next manager is ready to take over. */
    private long fitFor;

    /** Why Kafka's own manager could not take over when that was last logged. */
    private String lastLag;
    /** Segments about which the two managers may differ in this move. */
    private volatile Set<Uuid> accepted = Set.of();
    /** Why the last report failed; each reason is logged once. */
    private String missed;

    Deciding(Settings settings, Map<String, ?> configs) {
        this.settings = settings;
        loop = new Loop("tierledger-broker-" + settings.brokerId);
        ledger = new Ledger(settings, loop);
        roles = ledger.roles;
        kafka = settings.mode == PluginMode.MODE_TIERLEDGER ? null : new Embedded(configs);
        purges = new Purges(settings.brokerId, loop, roles.doors, this::mayPurge);
        shadow = settings.mode == PluginMode.MODE_SHADOW
            ? new Shadow(settings, loop, kafka, ledger) : null;
        Ownership last = roles.memory.ownership();
        lastEpoch = last == null ? 0 : last.getEpoch();
        go(last == null || kafka == null ? Ownership.newBuilder().setReads(
            kafka == null ? TIERLEDGER : shadow == null ? "" : KAFKA).build() : recalled(last));
    }

    void begin() {
        ledger.begin();
        if (kafka != null) {
            kafka.begin(loop);
        }
        if (shadow != null) {
            shadow.begin();
        }
        answering = SameBroker.register(
            SameBroker.LEDGER, settings.brokerId, this, DeletionsMBean.class);
        loop.run(this::attend);
        loop.run(purges::next);
    }

    /** Close both managers and all threads; held writes fail. */
    void close() {
        if (answering != null) {
            SameBroker.unregister(answering);
        }
        loop.run(() -> {
            isClosed = true;
            changed.completeExceptionally(
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

    /**
     * Obey {@code next}. Roles change before {@link #ownership}: a call that sees the new owner
     * must not find a replica that is still ready under a claim from before the change.
     */
    private void go(Ownership next) {
        roles.lead(next.getReads().equals(TIERLEDGER) && !isRecalled(next));
        roles.metrics.decision = text(next);
        ownership = next;
    }

    /**
     * What a broker in shadow or handover obeys until a host answers: the manager by which it
     * read last serves segments that it finds. It certifies nothing and takes no write, as the
     * metadata may have moved since. In shadow only Kafka's manager answers.
     */
    private Ownership recalled(Ownership last) {
        boolean isKafka = last.getReads().equals(KAFKA);
        return Ownership.newBuilder().setOwner(shadow != null && isKafka ? KAFKA : RECALLED)
            .setReads(shadow != null && !isKafka ? "" : last.getReads()).build();
    }

    private static boolean isRecalled(Ownership ownership) {
        return ownership.getOwner().equals(RECALLED);
    }

    private static String text(Ownership ownership) {
        return "reads by " + name(ownership.getReads()) + ", writes by " + name(writes(ownership))
            + (isRecalled(ownership) ? ", as in its last run"
                : ", owner epoch " + ownership.getEpoch());
    }

    private static String name(String manager) {
        return manager.isEmpty() ? "nobody" : manager;
    }

    private static boolean isMoving(Ownership ownership) {
        return ownership.getOwner().equals("moving");
    }

    /** The name of the manager that takes writes; empty while the metadata moves. */
    private static String writes(Ownership ownership) {
        return isMoving(ownership) || isRecalled(ownership) ? "" : ownership.getReads();
    }

    /**
     * Report this broker's mode and state to the coordinator, and learn from the answer who
     * owns the cluster's metadata; repeated until the plugin is closed. While no host answers,
     * the broker obeys the last ownership. On the loop.
     */
    private void attend() {
        Conversation home = roles.doors.at(null);
        if (home == null) {
            loop.after(HOMELESS_MS, this::attend);
            return;
        }
        // Read before the count, as write() counts before it reads `ownership`: a write that this
        // count misses reads this ownership or a newer one. So if this one is of a move, the
        // manager that gives the metadata away does not begin that write.
        Ownership stand = ownership;
        boolean isIdle =
            writes(stand).isEmpty() && underWay.get() == 0 && fitFor == stand.getEpoch();
        Attend.Builder attend = Attend.newBuilder()
            .setBrokerId(settings.brokerId)
            .setIncarnation(roles.incarnation)
            .setMode(settings.mode)
            .setOwnerEpoch(stand.getEpoch())
            .setIsIdle(isIdle)
            .setRanMs(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began))
            .setPositions(roles.memory.count())
            .setIsGuarded(SameBroker.only(SameBroker.GUARD, settings.brokerId) != null)
            .setClockMs(System.currentTimeMillis())
            .setRelease(RELEASE);
        Ownership seen = roles.memory.ownership();
        if (seen != null) {
            attend.setSeenEpoch(seen.getEpoch()).setSeenReadsBytes(seen.getReadsBytes());
        }
        roles.hosted().filter(one -> one.feed.isOther()).limit(OTHER_LOGS_MAX)
            .forEach(one -> attend.addOtherLogs(Segments.partition(one.tip)));
        if (shadow != null) {
            attend.setShadow(shadow.report());
        }
        home.ask(
            Call.newBuilder().setDeadlineMs(ATTEND_DEADLINE_MS).setAttend(attend)
        ).whenComplete((answer, error) -> {
            if (error == null) {
                accepted = answer.getOwnership().getAcceptedList().stream()
                    .map(Segments::uuid).collect(Collectors.toSet());
            }
            boolean isNews = error == null && hear(answer.getOwnership());
            if (error != null) {
                missed((CallFailed) error);
            } else if (shadow != null) {
                shadow.reported(attend.getShadow(), answer.getOwnership());
            }
            loop.after(isNews ? 0 : ATTEND_MS, this::attend);
        });
    }

    private void missed(CallFailed error) {
        if (error.fate == Fate.FENCED_OFF) {
            roles.failed(error);
        } else if (!error.getMessage().equals(missed)) {
            missed = error.getMessage();
            log.warn("Who owns the cluster's metadata is not known: {}", missed);
        }
    }

    /**
     * Poll, while that owner epoch is the newest, until Kafka's own manager has read all
     * segments that the ledger has. Taking over earlier it would treat segments that it has not
     * read yet as gone, and brokers would delete them. On the loop.
     */
    private void catchUp(long ownerEpoch) {
        loop.transports().execute(() -> {
            String lag = roles.hosted().map(one -> lag(one.tip)).filter(one -> one != null)
                .findFirst().orElse(null);
            loop.after(lag == null ? 0 : CATCH_UP_MS, () -> {
                if (isClosed || ownership.getEpoch() != ownerEpoch) {
                    return;
                }
                if (lag == null) {
                    fitFor = ownerEpoch;
                    return;
                }
                if (!lag.equals(lastLag)) {
                    lastLag = lag;
                    log.info("Kafka's own manager may not take over yet: {}", lag);
                }
                catchUp(ownerEpoch);
            });
        });
    }

    /**
     * Why Kafka's own manager may not take over this partition; null if it lists what
     * tierledger's leader lists, but for segments about which they may differ. Replicas may lag.
     */
    private String lag(TopicIdPartition tip) {
        Question all = new Question(QuestionKind.LIST, tip, 0, 0);
        try {
            Object ours =
                ledger.answerOfService(all, new Replica.NotReady("the replica is not asked"));
            List<?> kafkas = judged(kafka.answer(all)), here = judged(ours);
            return Shadow.differ(kafkas, here, Difference.newBuilder())
                ? tip + ": it lists " + kafkas.size() + " segments, the service " + here.size()
                : null;
        } catch (RemoteStorageException | RuntimeException notReady) {
            return tip + ": " + notReady.getMessage();
        }
    }

    private List<?> judged(Object listed) {
        Set<Uuid> without = accepted;
        return Shadow.listed(listed).stream()
            .filter(one -> !without.contains(Shadow.id(one))).collect(Collectors.toList());
    }

    /** Obey {@code next} if it is newer than the last; whether it is. On the loop. */
    private boolean hear(Ownership next) {
        if (!isClosed && next.getEpoch() < lastEpoch && ownership.getEpoch() == 0) {
            another(next);
        }
        if (isClosed || next.getEpoch() <= ownership.getEpoch() || next.getEpoch() < lastEpoch) {
            return false;
        }
        go(next);
        roles.memory.note(next);
        log.info("The owner of the remote log metadata is {}: {}", next.getOwner(), text(next));
        CompletableFuture<Void> waited = changed;
        changed = new CompletableFuture<>();
        waited.complete(null);
        if (kafka != null && isMoving(next) && next.getReads().equals(TIERLEDGER)) {
            catchUp(next.getEpoch());
        } else {
            fitFor = next.getEpoch();
        }
        return true;
    }

    /** A ledger that is older than what this broker saw decides nothing. On the loop. */
    private void another(Ownership older) {
        if (!ownership.getOwner().equals(ANOTHER)) {
            go(Ownership.newBuilder().setOwner(ANOTHER).build());
            log.error("The remote log metadata is not read any more: the service is at owner epoch "
                + "{}, and this broker has seen {}. If it was restored and that is right, stop "
                + "this broker, remove {}, and start it",
                older.getEpoch(), lastEpoch, roles.memory.file);
        }
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
        Manager manager = manager(ownership.getReads());
        return manager != null && !isRecalled(ownership) && manager.isReady(tip);
    }

    @Override
    public Object answer(Question question) throws RemoteStorageException {
        Ownership now = ownership;
        Manager manager = manager(now.getReads());
        if (manager == null) {
            throw notReady(question.tip, now);
        }
        Object answer = manager.answer(question);
        if (isRecalled(now) && !(answer instanceof Optional && question.isOfSegment()
            && ((Optional<?>) answer).isPresent())) {
            throw notReady(question.tip, now);
        }
        if (shadow != null) {
            shadow.compare(question);
        }
        return answer;
    }

    @Override
    public CompletableFuture<Void> write(RemoteLogMetadata change) throws RemoteStorageException {
        // The order matters. `changed` is read before `ownership`; otherwise a held write could
        // miss a change that comes in between. The write is counted before `ownership` is read,
        // because attend() reads them the other way round: it reports idle if it reads the
        // ownership of a move and then a count of 0. A write that is counted later reads the
        // same or a newer one; so the manager that gives the metadata away does not begin it.
        CompletableFuture<Void> other = changed;
        underWay.incrementAndGet();
        Ownership now = ownership;
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
        if ((isMoving(now) || isRecalled(now)) && Manager.isFinish(change)) {
            return hold(change, other.copy());
        }
        throw notReady(change.topicIdPartition(), now);
    }

    @Override
    public boolean mayDelete(
        String topicId, String topic, int partition, String segmentId, int epoch)
        throws RemoteStorageException {
        TopicIdPartition tip = new TopicIdPartition(Uuid.fromString(topicId), partition, topic);
        Ownership now = ownership;
        Manager manager = manager(writes(now));
        if (manager == null) {
            throw notReady(tip, now);
        }
        RemoteLogSegmentState state =
            manager.state(new RemoteLogSegmentId(tip, Uuid.fromString(segmentId)), epoch);
        if (state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED) {
            throw ledger.notReady(tip, "the deletion of segment " + segmentId + " has not begun");
        }
        return state != null;
    }

    /**
     * Whether the service's ledger is the one that this broker knows, and the metadata stands
     * still: another ledger may have kept what this one does not know to be needed.
     */
    private boolean mayPurge() {
        Ownership now = ownership;
        return !isClosed && now.getEpoch() >= lastEpoch && !writes(now).isEmpty()
            && roles.hosted().noneMatch(one -> one.feed.isOther());
    }

    /** Write once a newer ownership has come, off the loop: Kafka's manager may block. */
    private CompletableFuture<Void> hold(
        RemoteLogMetadata change, CompletableFuture<Void> changed) {
        Future<?> timeout = loop.after(
            settings.finishTimeoutMs, () -> changed.completeExceptionally(
                notReady(change.topicIdPartition(), ownership)));
        return changed.thenComposeAsync(nothing -> {
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

    private ReplicaNotAvailableException notReady(TopicIdPartition tip, Ownership now) {
        return ledger.notReady(tip, "its manager does not decide: " + text(now));
    }
}
