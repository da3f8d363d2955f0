package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Announce;
import org.tierledger.door.v1.Answer;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Fate;
import org.tierledger.door.v1.LedPartition;
import org.tierledger.door.v1.Partition;
import org.tierledger.door.v1.Register;
import org.tierledger.door.v1.Role;

/**
 * This broker's role in each partition: the one that Kafka gave it last, and the one that the
 * service has accepted. Kafka may change roles on any thread. The loop announces them to the
 * coordinator and retries the newest role of each partition until the coordinator accepts it.
 */
final class Roles {
    private static final int ITEMS_MAX = 500;
    private static final int DEADLINE_MS = 10_000;
    private static final long PAUSE_MS = 100;
    private static final long PAUSE_MAX_MS = 10_000;
    private static final long READY_MS = 2_000;
    private static final long MEMORY_MS = 5_000;
    /** By then Kafka has told the broker of all partitions that it hosts. */
    private static final long SWEEP_MS = TimeUnit.HOURS.toMillis(1);
    private static final List<Role> ORDER =
        List.of(Role.LEADER, Role.FOLLOWER, Role.ROLE_UNSPECIFIED);
    private static final long FENCINGS_FORGOTTEN_NS = TimeUnit.MINUTES.toNanos(1);

    /** One partition's role in an announcement that is on its way. */
    private static final class Announced {
        final Hosted hosted;
        final Role role;
        final int number;

        Announced(Hosted hosted) {
            this.hosted = hosted;
            // Read before the role: a role that changes now is announced again.
            this.number = hosted.roleNumber;
            this.role = hosted.role;
        }
    }

    final Metrics metrics = new Metrics(this);
    final Room room;
    final Memory memory;
    final Doors doors;

    private final Logger log = LoggerFactory.getLogger(Roles.class);
    private final Settings settings;
    private final Loop loop;
    private final Map<TopicIdPartition, Hosted> all = new ConcurrentHashMap<>();
    /** Whether Kafka's leaders are announced as leaders; else as followers. */
    private boolean isLeading;

    // On the loop alone:
    private ByteString request = Segments.bytes(Uuid.randomUuid());
    /** The incarnation under which this broker is registered; 0: it is not registered. */
    long incarnation;
    private long newestIncarnation;
    private long announcements;
    private boolean isSending;
    private int failures;
    /** Why the coordinator refused the last request; each reason is logged once. */
    private String delayed;

    Roles(Settings settings, Loop loop) {
        this.settings = settings;
        this.loop = loop;
        this.doors = new Doors(loop, settings, metrics, this::atHome);
        this.room = new Room(settings.replicaBytesMax);
        this.memory = new Memory(settings.logFolder, settings.clusterId);
    }

    /** Start to connect to the service; returns at once. */
    void begin() {
        loop.run(() -> doors.seek(0));
        loop.after(MEMORY_MS, this::remember);
        if (memory.folder != null) {
            loop.after(SWEEP_MS, () -> loop.transports().execute(
                () -> SavedReplica.sweep(memory.folder, all.keySet().stream())));
        }
    }

    private void remember() {
        all.values().forEach(one -> one.replica.noteIn(memory, one.tip));
        loop.transports().execute(() -> {
            memory.write();
            hosted().forEach(one -> one.saved.write());
        });
        loop.after(MEMORY_MS, this::remember);
    }

    /** The partition; null if this broker does not host it. Safe for threads. */
    Hosted of(TopicIdPartition tip) {
        Hosted found = all.get(tip);
        return found == null || found.role == Role.ROLE_UNSPECIFIED ? null : found;
    }

    /** All partitions that this broker hosts. Safe for threads. */
    Stream<Hosted> hosted() {
        return all.values().stream().filter(one -> one.role != Role.ROLE_UNSPECIFIED);
    }

    /** Take the role that Kafka gave this broker in those partitions. Safe for threads. */
    synchronized void become(Role role, Collection<TopicIdPartition> partitions) {
        for (TopicIdPartition tip : partitions) {
            Hosted one = role == Role.ROLE_UNSPECIFIED ? all.get(tip)
                : all.computeIfAbsent(tip, this::hosted);
            if (one != null) {
                one.kafkaRole = role;
                if (one.role != announcedAs(role)) {
                    renew(one);
                }
            }
        }
        loop.run(this::sendNext);
    }

    private Hosted hosted(TopicIdPartition tip) {
        Hosted hosted = new Hosted(tip, doors, loop, this, metrics);
        loop.transports().execute(() -> {
            if (hosted.saved.restore()) {
                loop.run(hosted.feed::restored);
            }
        });
        return hosted;
    }

    /** Announce all again, Kafka's leaders as leaders or as followers. Safe for threads. */
    synchronized void lead(boolean isLeading) {
        if (this.isLeading != isLeading) {
            this.isLeading = isLeading;
            hosted().forEach(this::renew);
            loop.run(this::sendNext);
        }
    }

    private Role announcedAs(Role role) {
        return role == Role.LEADER && !isLeading ? Role.FOLLOWER : role;
    }

    private void renew(Hosted one) {
        one.role = announcedAs(one.kafkaRole);
        one.replica.expect(null);
        one.roleNumber++;
    }

    /**
     * A host reports that this claim is fenced: a newer one holds the partition. The role is
     * announced again after a back-off that grows with each fencing. On the loop.
     */
    void fenced(Hosted hosted, Claim claim) {
        if (claim.equals(hosted.claim)) {
            hosted.replica.expect(null);
            announceAgain(hosted, "a newer announcement than this broker's leads");
        }
    }

    /**
     * The service regards another broker as leader. This broker or the service may not have
     * heard of Kafka's last change yet; so the role is announced again after a back-off.
     */
    private void announceAgain(Hosted hosted, String why) {
        log.info("{}: {}", hosted.tip, why);
        hosted.claim = null;
        metrics.fenced.increment();
        long now = System.nanoTime();
        if (now - hosted.fencedAt > FENCINGS_FORGOTTEN_NS) {
            hosted.fencings = 0;
        }
        hosted.fencedAt = now;
        int number = hosted.roleNumber;
        loop.after(pause(hosted.fencings++), () -> repeat(hosted, number));
    }

    /**
     * Close all partitions; pending writes fail. What it returns saves the replicas as they
     * were. On the loop.
     */
    List<Runnable> close(String why) {
        List<Runnable> saves = new ArrayList<>();
        for (Hosted one : all.values()) {
            one.replica.noteIn(memory, one.tip);
            long position = one.replica.position();
            one.replica.items().ifPresent(
                items -> saves.add(() -> one.saved.write(position, items)));
            one.writes.close(why);
            one.feed.close();
        }
        return saves;
    }

    /** Announce the role again, unless a newer role of that partition waits to be announced. */
    private void repeat(Hosted hosted, int number) {
        synchronized (this) {
            hosted.roleNumber += hosted.roleNumber == number ? 1 : 0;
        }
        sendNext();
    }

    /** A home conversation has been opened. On the loop. */
    private void atHome() {
        all.values().forEach(one -> one.feed.compare());
        sendNext();
    }

    /** Send the coordinator its next request, one at a time: register first, then announce. */
    private void sendNext() {
        Conversation home = doors.at(null);
        if (isSending || home == null) {
            return;
        }
        if (incarnation == 0) {
            send(home, Call.newBuilder().setRegister(Register.newBuilder()
                .setBrokerId(settings.brokerId)
                .setRequest(request)
                .setAfter(newestIncarnation)
                .setIsPlugin(true)
                .setMode(settings.mode)), this::registered);
            return;
        }
        // The answer has claims for leaders, then for followers; none for stopped partitions.
        List<Announced> items = all.values().stream()
            .filter(one -> one.roleNumber != one.acceptedNumber)
            .limit(ITEMS_MAX).map(Announced::new)
            .sorted(Comparator.comparingInt(one -> ORDER.indexOf(one.role)))
            .collect(Collectors.toList());
        if (!items.isEmpty()) {
            send(home, Call.newBuilder().setAnnounce(announcement(items)),
                answer -> announced(items, answer.getAnnounced().getClaimsList().iterator()));
        }
    }

    private Announce.Builder announcement(List<Announced> items) {
        Announce.Builder announce = Announce.newBuilder()
            .setBrokerId(settings.brokerId)
            .setIncarnation(incarnation)
            .setNumber(++announcements);
        for (Announced one : items) {
            Partition partition = Segments.partition(one.hosted.tip);
            switch (one.role) {
                case LEADER:
                    announce.addLeaders(LedPartition.newBuilder().setPartition(partition));
                    break;
                case FOLLOWER: announce.addFollowers(partition); break;
                default: announce.addStopped(partition);
            }
        }
        return announce;
    }

    private void send(Conversation home, Call.Builder call, Consumer<Answer> taken) {
        isSending = true;
        home.ask(call.setDeadlineMs(DEADLINE_MS)).whenComplete((answer, error) -> {
            isSending = false;
            if (error == null) {
                failures = 0;
                delayed = null;
                taken.accept(answer);
                sendNext();
            } else {
                failed((CallFailed) error);
            }
        });
    }

    /** The coordinator did not accept a request; it is retried after a pause. On the loop. */
    void failed(CallFailed error) {
        if (error.fate == Fate.FENCED_OFF) {
            metrics.fenced.increment();
            log.warn("Another plugin speaks for broker {}: {}",
                settings.brokerId, error.getMessage());
            incarnation = 0;
            announcements = 0;
            request = Segments.bytes(Uuid.randomUuid());
            synchronized (this) {
                all.values().forEach(one -> one.roleNumber++);
            }
        } else if (error.fate != Fate.RETRYABLE && error.fate != Fate.UNKNOWN) {
            log.error("The service does not take what this broker announces: {}",
                error.getMessage());
        } else if (!error.getMessage().equals(delayed)) {
            delayed = error.getMessage();
            log.warn("The service does not take what this broker announces yet: {}", delayed);
        }
        loop.after(pause(failures++), this::sendNext);
    }

    private void registered(Answer answer) {
        newestIncarnation = answer.getRegistered().getIncarnation();
        if (answer.getRegistered().getIsGiven()) {
            incarnation = newestIncarnation;
            log.info("Broker {} is registered as incarnation {}", settings.brokerId, incarnation);
        }
    }

    private void announced(List<Announced> items, Iterator<Claim> claims) {
        for (Announced one : items) {
            if (one.role == Role.ROLE_UNSPECIFIED) {
                stopped(one);
            } else {
                taken(one, claims.next());
            }
        }
    }

    private void taken(Announced one, Claim claim) {
        Hosted hosted = one.hosted;
        hosted.acceptedNumber = one.number;
        if (hosted.roleNumber != one.number) {
            return;
        }
        if (claim.getIncarnation() == 0) {
            announceAgain(hosted, "another broker leads, Kafka says");
            return;
        }
        hosted.claim = claim;
        hosted.feed.announced();
        loop.after(READY_MS, () -> {
            if (hosted.claim == claim && !hosted.replica.isReady()) {
                // A newer claim may have replaced this one before any host opened its session.
                // Then the log holds no trace of it, and no host ever reports it as fenced. So
                // a broker that is not ready in time announces again.
                repeat(hosted, one.number);
            }
        });
    }

    private synchronized void stopped(Announced one) {
        one.hosted.acceptedNumber = one.number;
        if (one.hosted.roleNumber == one.number) {
            all.remove(one.hosted.tip);
            memory.forget(one.hosted.tip);
            one.hosted.saved.delete();
            one.hosted.writes.close("this broker no longer hosts the partition");
            one.hosted.feed.close();
        }
    }

    private static long pause(int times) {
        return Math.min(PAUSE_MS << Math.min(times, 10), PAUSE_MAX_MS);
    }
}
