package org.tierledger.kafka;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Fed;
import org.tierledger.door.v1.FeedEnded;
import org.tierledger.door.v1.ReadyQuestion;
import org.tierledger.door.v1.Role;

/** Keeps a partition's replica fed, by whichever host does. All of it happens on the loop. */
final class FedReplica implements FeedStream.Taker {
    private static final int SILENCE_MS = 10_000;
    private static final long PAUSE_MS = 50;
    private static final long PAUSE_MAX_MS = 2_000;
    private static final long OVER_MS = 500;

    private final Logger log = LoggerFactory.getLogger(FedReplica.class);
    private final Hosted hosted;
    private final Replica replica;
    private final Doors doors;
    private final Loop loop;
    private final Roles roles;
    private final Metrics metrics;
    /** What waits until a position is applied. */
    private final TreeMap<Long, List<Runnable>> waiters = new TreeMap<>();
    /** Null: nobody feeds it, or is asked to. */
    private FeedStream stream;
    private long id;
    private Role role = Role.ROLE_UNSPECIFIED;
    /** Grows with each subscription, so that what concerns a former one does nothing. */
    private int turn;
    private int inVain;
    private long words;
    private boolean isClosed;
    /** Bytes that the replica takes, and those for which there was no room; 0: there was. */
    private long bytes;
    private volatile long lacking;
    /** The conversation that was there when a host said last what the log is. */
    private Conversation comparedBy;
    private volatile boolean isOther;
    /** When a host said something last. */
    private volatile long heardAt = System.nanoTime();

    FedReplica(Hosted hosted, Doors doors, Loop loop, Roles roles, Metrics metrics) {
        this.hosted = hosted;
        this.replica = hosted.replica;
        this.doors = doors;
        this.loop = loop;
        this.roles = roles;
        this.metrics = metrics;
    }

    /** The broker's announcement was taken: be fed in that role, and hear when it is ready. */
    void announced() {
        replica.expect(hosted.claim);
        if (stream != null && role == hosted.role) {
            stream.expect(id, hosted.claim);
            return;
        }
        leave();
        inVain = 0;
        subscribe("");
    }

    /** Do {@code then} once answers are of {@code position} or later. */
    void reached(long position, Runnable then) {
        if (lacking > 0) {
            replica.answered(position);
            then.run();
        } else if (replica.position() >= position) {
            then.run();
        } else {
            waiters.computeIfAbsent(position, any -> new ArrayList<>()).add(then);
        }
    }

    /** Whom to ask in the replica's place: who answers for the log that it is fed from. */
    Conversation compared() {
        Conversation home = doors.at(null);
        return home == comparedBy && !isClosed ? home : null;
    }

    /** Whether the service is asked because there is no room for the replica. */
    boolean isOver() {
        return lacking > 0;
    }

    /** Whether the service's log is another than the one that it was fed from. */
    boolean isOther() {
        return isOther;
    }

    long silentMs() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - heardAt);
    }

    void close() {
        isClosed = true;
        leave();
        waiters.clear();
        drop();
    }

    @Override
    public void given(Fed item) {
        words++;
        heardAt = System.nanoTime();
        if (item.hasEnded()) {
            FeedEnded ended = item.getEnded();
            doors.learn(ended.getBetterDoor());
            again(ended.getBetterDoor(), ended.getFailure().getMessage());
            return;
        }
        comparedBy = doors.at(null);
        if (item.hasSnapshot()) {
            metrics.snapshots.increment();
            lacking = lacking > 0 && roles.room.has(lacking) ? 0 : lacking;
        }
        long before = replica.position();
        String gap;
        try {
            gap = replica.take(item);
        } catch (RuntimeException error) {
            gap = error.toString();
            metrics.replicasDropped.increment();
            log.warn("The replica of {} is dropped: {}", hosted.tip, gap);
        }
        long grown = replica.heapBytes() - bytes;
        bytes += grown;
        boolean fits = roles.room.grow(grown) || grown <= 0;
        if (item.hasOtherHistory()) {
            log.error("{} is not read any more: the service's ledger has another log at position "
                + "{} than the one that this broker was fed from, or ends before. If it was "
                + "restored and that is right, stop this broker, remove {}, and start it",
                hosted.tip, item.getOtherHistory().getPosition(), roles.memory.file);
            isOther = true;
            close();
        } else if (gap != null) {
            again("", gap);
        } else {
            taken(item, before);
            if (!fits || lacking > 0) {
                over();
            }
        }
    }

    private void drop() {
        replica.drop();
        roles.room.grow(-bytes);
        bytes = 0;
    }

    /** There is no room for it: the service is asked, until there is half as much again. */
    private void over() {
        if (lacking == 0) {
            lacking = Math.max(1, bytes + bytes / 2);
            log.warn("{} is not kept in memory, and the service is asked: all replicas would take "
                + "more than {} bytes", hosted.tip, roles.room.max);
        }
        drop();
        leave();
        while (!waiters.isEmpty()) {
            replica.answered(waiters.firstKey());
            waiters.pollFirstEntry().getValue().forEach(Runnable::run);
        }
        look(turn);
    }

    /** While there is no room: ask whether it is ready, and be compared with who is new. */
    private void look(int mine) {
        Claim claim = hosted.claim;
        if (mine != turn || isClosed || claim == null) {
            return; // It is announced anew, and comes back.
        }
        if (compared() != null && !roles.room.has(lacking)) {
            compared().ask(Call.newBuilder().setDeadlineMs(SILENCE_MS).setReady(
                ReadyQuestion.newBuilder().setPartition(Segments.partition(hosted.tip))
                    .setRole(role).setClaim(claim))).whenComplete((answer, error) -> {
                        if (mine == turn && error == null && answer.getReady().getIsReady()) {
                            heardAt = System.nanoTime();
                            replica.ready(claim);
                        } else if (mine == turn && error == null && replica.isReady()) {
                            roles.fenced(hosted, claim);
                        }
                    });
            loop.after(OVER_MS, () -> look(mine));
        } else if (doors.at(null) != null) {
            subscribe("");
        } else {
            loop.after(OVER_MS, () -> look(mine));
        }
    }

    private void taken(Fed item, long before) {
        long position = replica.position();
        if (position > before) {
            inVain = 0;
        }
        while (!waiters.isEmpty() && waiters.firstKey() <= position) {
            waiters.pollFirstEntry().getValue().forEach(Runnable::run);
        }
        if (item.hasFenced()) {
            roles.fenced(hosted, item.getFenced().getClaim());
        }
    }

    @Override
    public void lost(CallFailed why) {
        again("", why.getMessage());
    }

    private void subscribe(String door) {
        if (isClosed || hosted.claim == null) {
            return;
        }
        int mine = ++turn;
        role = hosted.role;
        stream = doors.feed(door, inVain);
        id = stream.subscribe(
            replica.subscription().setPartition(Segments.partition(hosted.tip)).setRole(role),
            this);
        listen(mine, words);
    }

    /** Ask elsewhere when it waits for a word that does not come. */
    private void listen(int mine, long before) {
        loop.after(SILENCE_MS, () -> {
            if (mine != turn || stream == null) {
                return;
            }
            if (words == before && !(replica.isWhole() && replica.isReady())) {
                again("", "nothing was said for " + SILENCE_MS + " ms");
            } else {
                listen(mine, words);
            }
        });
    }

    /** Subscribe anew: to a better door at once, but for hosts that point at each other. */
    private void again(String door, String reason) {
        log.debug("{} is fed no more by {}: {}", hosted.tip, stream, reason);
        leave();
        inVain++;
        int mine = turn;
        boolean isAtOnce = !door.isEmpty() && inVain <= 2;
        long pause = isAtOnce ? 0 : Math.min(PAUSE_MS << Math.min(inVain, 10), PAUSE_MAX_MS);
        loop.after(pause, () -> {
            if (mine == turn) {
                subscribe(door);
            }
        });
    }

    private void leave() {
        turn++;
        if (stream != null) {
            stream.drop(id);
            stream = null;
        }
    }
}
