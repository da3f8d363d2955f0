package org.tierledger.kafka;

import java.util.Comparator;
import java.util.PriorityQueue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Fed;
import org.tierledger.door.v1.FeedEnded;
import org.tierledger.door.v1.Role;

/** Keeps a partition's replica fed, by whichever host does. All of it happens on the loop. */
final class FedReplica implements FeedStream.Taker {
    private static final long SILENCE_MS = 10_000;
    private static final long PAUSE_MS = 50;
    private static final long PAUSE_MAX_MS = 2_000;

    /** Somebody who waits until a position is applied. */
    private static final class Waiter {
        final long position;
        final Runnable then;

        Waiter(long position, Runnable then) {
            this.position = position;
            this.then = then;
        }

        long position() {
            return position;
        }
    }

    private final Logger log = LoggerFactory.getLogger(FedReplica.class);
    private final Hosted hosted;
    private final Replica replica;
    private final Doors doors;
    private final Loop loop;
    private final Roles roles;
    private final Metrics metrics;
    private final PriorityQueue<Waiter> waiters =
        new PriorityQueue<>(Comparator.comparingLong(Waiter::position));
    /** Null: nobody feeds it, or is asked to. */
    private FeedStream stream;
    private long id;
    private Role role = Role.ROLE_UNSPECIFIED;
    /** Grows with each subscription, so that what concerns a former one does nothing. */
    private int turn;
    private int inVain;
    private long words;
    private boolean isClosed;

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
        if (replica.position() >= position) {
            then.run();
        } else {
            waiters.add(new Waiter(position, then));
        }
    }

    void close() {
        isClosed = true;
        leave();
        waiters.clear();
    }

    @Override
    public void given(Fed item) {
        words++;
        if (item.hasEnded()) {
            FeedEnded ended = item.getEnded();
            doors.learn(ended.getBetterDoor());
            again(ended.getBetterDoor(), ended.getFailure().getMessage());
            return;
        }
        if (item.hasSnapshot()) {
            metrics.snapshots.increment();
        }
        long before = replica.position();
        Replica.Refusal refusal;
        try {
            refusal = replica.take(item);
        } catch (RuntimeException error) { // Whatever bytes that are no row may lead to.
            replica.drop();
            refusal = new Replica.Refusal(error.toString(), true);
        }
        if (refusal != null && refusal.isDropped) {
            metrics.replicasDropped.increment();
            log.warn("The replica of {} is dropped: {}", hosted.tip, refusal.reason);
        }
        if (item.hasOtherHistory()) {
            log.error("{} is not read any more: the service's log is another at position {} "
                + "than the one that this broker was fed from; restart the broker if that is "
                + "right", hosted.tip, item.getOtherHistory().getPosition());
            close();
        } else if (refusal != null) {
            again("", refusal.reason);
        } else {
            taken(item, before);
        }
    }

    private void taken(Fed item, long before) {
        long position = replica.position();
        if (position > before) {
            inVain = 0;
        }
        while (!waiters.isEmpty() && waiters.peek().position <= position) {
            waiters.poll().then.run();
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
