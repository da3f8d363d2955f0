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

/** Keeps a partition's replica subscribed to the feed of some host. Runs on the loop. */
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
    /** Callbacks by the position that the replica has to apply first. */
    private final TreeMap<Long, List<Runnable>> waiters = new TreeMap<>();
    /** The stream of the current subscription; null without one. */
    private FeedStream stream;
    private long id;
    private Role role = Role.ROLE_UNSPECIFIED;
    /** Grows with each subscription; a timer of a former one sees that and does nothing. */
    private int turn;
    private int inVain;
    /** Items that have arrived. */
    private long items;
    private boolean isClosed;
    /** Heap bytes of the replica. */
    private long bytes;
    /** The room that a replica needs to be fetched again that was dropped; 0: it is kept. */
    private volatile long lacking;
    /** The home conversation at the time of the last item, which came from a compared log. */
    private Conversation comparedBy;
    private volatile boolean isOther;
    /** When a host sent something last (nanoTime). */
    private volatile long heardAt = System.nanoTime();

    FedReplica(Hosted hosted, Doors doors, Loop loop, Roles roles, Metrics metrics) {
        this.hosted = hosted;
        this.replica = hosted.replica;
        this.doors = doors;
        this.loop = loop;
        this.roles = roles;
        this.metrics = metrics;
    }

    /** The coordinator accepted the broker's role: subscribe in it, and expect its claim. */
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

    /** Run {@code then} once answers are as of {@code position} or later. */
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

    /**
     * Where to ask in the replica's place. Null until a host has compared its log with this
     * replica since that connection was opened: a ledger restored from an older copy must not
     * answer for the log that this broker was fed from.
     */
    Conversation compared() {
        Conversation home = doors.at(null);
        return home == comparedBy && !isClosed ? home : null;
    }

    /**
     * The home conversation is new: subscribe again where the replica is fed, so that the host
     * compares the logs. Without that, a partition in which nothing happens, fed by a host that
     * lives on, could not be asked about at the service.
     */
    void compare() {
        if (stream != null && compared() == null) {
            String door = stream.door;
            leave();
            subscribe(door);
        }
    }

    /** Whether questions go to the service because the heap has no room for the replica. */
    boolean isOver() {
        return lacking > 0;
    }

    /** Whether the service's log is not the one that this replica was fed from. */
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
        items++;
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
        boolean fits = fits();
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

    /** The replica has taken what was saved: drop that if there is no room for it. */
    void restored() {
        if (isClosed || !fits()) {
            drop();
        }
    }

    /** Count what the replica takes; whether it has not grown or there is room for all. */
    private boolean fits() {
        long grown = replica.heapBytes() - bytes;
        bytes += grown;
        return roles.room.grow(grown) || grown <= 0;
    }

    private void drop() {
        replica.drop();
        roles.room.grow(-bytes);
        bytes = 0;
    }

    /**
     * Drop the replica for lack of room; questions go to the service. It is fetched again when
     * there is room for 1.5 times its size, so that it does not come and go.
     */
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

    /**
     * While there is no room: ask a host, again and again, whether this claim is ready.
     * Subscribe once there is room, or to compare the logs when the home conversation is new.
     */
    private void look(int mine) {
        Claim claim = hosted.claim;
        if (mine != turn || isClosed || claim == null) {
            return; // The role is being announced again; announced() subscribes.
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
        listen(mine, items);
    }

    /** Subscribe elsewhere if a replica that is not ready gets no item within the timeout. */
    private void listen(int mine, long before) {
        loop.after(SILENCE_MS, () -> {
            if (mine != turn || stream == null) {
                return;
            }
            if (items == before && !(replica.isWhole() && replica.isReady())) {
                again("", "the host has sent nothing for " + SILENCE_MS + " ms");
            } else {
                listen(mine, items);
            }
        });
    }

    /** Subscribe again; at a better door at once, unless hosts keep pointing at each other. */
    private void again(String door, String reason) {
        log.debug("{} is no longer fed by {}: {}", hosted.tip, stream, reason);
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
