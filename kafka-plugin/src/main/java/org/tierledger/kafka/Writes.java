package org.tierledger.kafka;

import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Answer;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Fate;
import org.tierledger.door.v1.Kind;
import org.tierledger.door.v1.Role;
import org.tierledger.door.v1.Write;

/** The writes of this broker to one partition. Runs on the loop. */
final class Writes {
    /**
     * Writes that may be open at once, from the oldest that has not ended to the newest. The
     * leader recognises a retry only among the last 256 requests of its broker.
     */
    private static final int OPEN_MAX = 200;
    private static final long PAUSE_MS = 10;
    private static final long PAUSE_MAX_MS = 200;

    /** One write; all its retries carry the same request id. */
    private final class One {
        final Write.Builder write;
        final CompletableFuture<Void> done;
        final long deadline;
        final Future<?> timeout;
        Claim claim;
        int attempts;
        /** An attempt awaits its answer, or the write is durable and not applied here yet. */
        boolean isSent;
        /** No attempt follows: the write is durable, or has failed. */
        boolean isOver;
        /** The last failure with an unknown outcome, and the last that surely wrote nothing. */
        CallFailed doubt;
        CallFailed refusal;

        One(Write.Builder write, long timeoutMs, CompletableFuture<Void> done) {
            this.write = write;
            this.done = done;
            deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
            timeout = loop.after(timeoutMs, () -> giveUp(
                "not done within " + timeoutMs + " ms: " + write.getChangeCase()));
        }

        void attempt() {
            if (done.isDone()) {
                return;
            }
            if (hosted.role != Role.LEADER) {
                giveUp("this broker no longer leads it");
                return;
            }
            Conversation conversation = doors.at(door);
            claim = claim != null ? claim : hosted.announcedClaim();
            long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
            if (conversation == null || claim == null || leftMs <= 0) {
                refusal = CallFailed.notReady(
                    conversation == null ? "no host answers" : "not announced yet");
                again();
                return;
            }
            isSent = true;
            conversation.ask(Call.newBuilder().setDeadlineMs((int) leftMs)
                    .setWrite(write.setClaim(claim)))
                .whenComplete((answer, error) -> {
                    isSent = error == null;
                    if (isSent) {
                        written(answer);
                    } else {
                        failed((CallFailed) error);
                    }
                });
        }

        private void again() {
            log.debug("The write {} of {} is tried again: {}", RequestId.text(write.getRequestId()),
                hosted.tip, (doubt != null ? doubt : refusal).getMessage());
            loop.after(Math.min(PAUSE_MS << Math.min(attempts++, 10), PAUSE_MAX_MS), this::attempt);
        }

        private void written(Answer answer) {
            if (!answer.getBetterDoor().isEmpty()) {
                door = answer.getBetterDoor();
                doors.learn(door);
            }
            isOver = true;
            next();
            hosted.feed.reached(answer.getWritten().getPosition(), () -> end(null));
        }

        private void failed(CallFailed error) {
            door = null;
            if (error.fate == Fate.UNKNOWN) {
                doubt = error;
                again();
            } else if (error.fate == Fate.RETRYABLE) {
                refusal = error;
                again();
            } else {
                if (error.fate == Fate.FENCED_OFF) {
                    roles.fenced(hosted, claim);
                }
                end(kafkaError(error));
            }
        }

        /**
         * The broker's exception after an attempt was refused. If an earlier attempt is in
         * doubt, the write may be durable, or become so while its message is still on the way.
         * Then the broker must not be told that nothing was written, unless the partition is
         * deleted.
         */
        private Exception kafkaError(CallFailed error) {
            String message = named(error.getMessage());
            if (error.kind == Kind.PARTITION_DELETED
                || doubt == null && error.kind == Kind.REMOTE_RESOURCE_NOT_FOUND) {
                return new RemoteResourceNotFoundException(message, error);
            }
            if (doubt == null && error.kind == Kind.FENCED) {
                return new ReplicaNotAvailableException(message, error);
            }
            return new RemoteStorageException(
                doubt == null ? message : named(doubt.getMessage()), error);
        }

        /** Fail the write, with an exception that brokers retry unless it is in doubt. */
        private void giveUp(String why) {
            CallFailed last = doubt != null ? doubt : refusal;
            String message = named(why + (last == null ? "" : ": " + last.getMessage()));
            end(doubt != null || isSent ? new RemoteStorageException(message)
                : new ReplicaNotAvailableException(message));
        }

        private String named(String why) {
            return RequestId.in(hosted.tip + ": " + why, write.getRequestId());
        }

        void end(Exception error) {
            timeout.cancel(false);
            if (error == null) {
                done.complete(null);
            } else {
                done.completeExceptionally(error);
            }
            isOver = true;
            all.remove(this);
            next();
        }
    }

    private final Logger log = LoggerFactory.getLogger(Writes.class);
    private final Hosted hosted;
    private final Doors doors;
    private final Loop loop;
    private final Roles roles;
    /** Writes that have not ended. */
    private final Set<One> all = new HashSet<>();
    private final ArrayDeque<One> waiting = new ArrayDeque<>();
    /** Writes that have begun, in order, from the oldest that may still be sent. */
    private final ArrayDeque<One> open = new ArrayDeque<>();
    /** The door of the host that leads the partition; null: unknown, any host passes it on. */
    private String door;

    Writes(Hosted hosted, Doors doors, Loop loop, Roles roles) {
        this.hosted = hosted;
        this.doors = doors;
        this.loop = loop;
        this.roles = roles;
    }

    /** Complete {@code done} when the write is durable and the replica has applied it. */
    void submit(Write.Builder write, long timeoutMs, CompletableFuture<Void> done) {
        One one = new One(write, timeoutMs, done);
        all.add(one);
        waiting.add(one);
        next();
    }

    /** Fail all writes that have not ended. */
    void close(String why) {
        waiting.clear();
        List.copyOf(all).forEach(
            one -> one.end(new RemoteStorageException(hosted.tip + ": " + why)));
    }

    private void next() {
        while (!open.isEmpty() && open.peek().isOver) {
            open.poll();
        }
        while (!waiting.isEmpty() && open.size() < OPEN_MAX) {
            open.add(waiting.peek());
            waiting.poll().attempt();
        }
    }
}
