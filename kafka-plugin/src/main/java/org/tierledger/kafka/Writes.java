package org.tierledger.kafka;

import java.util.ArrayDeque;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.errors.ReplicaNotAvailableException;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.tierledger.door.v1.Answer;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Fate;
import org.tierledger.door.v1.Kind;
import org.tierledger.door.v1.Role;
import org.tierledger.door.v1.Write;

/** The writes of this broker to one partition. All of it happens on the loop. */
final class Writes {
    /**
     * Writes from the oldest that has not ended to the newest. A repeat is recognised among the
     * last 256 requests of its broker.
     */
    private static final int OPEN_MAX = 200;
    private static final long PAUSE_MS = 10;
    private static final long PAUSE_MAX_MS = 200;

    /** One write, with the same request id however often it is sent. */
    private final class One {
        final Write.Builder write;
        final CompletableFuture<Void> done;
        final long deadline;
        final Future<?> timeout;
        final String what;
        long number = -1;
        Claim claim;
        int attempts;
        /** An attempt that may have succeeded, and the last that certainly did not. */
        CallFailed doubt;
        CallFailed refusal;

        One(Write.Builder write, long timeoutMs, String what, CompletableFuture<Void> done) {
            this.write = write;
            this.what = what;
            this.done = done;
            deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
            timeout = loop.after(timeoutMs, () -> end(late(timeoutMs)));
        }

        private Exception late(long timeoutMs) {
            String message = hosted.tip + ": not done within " + timeoutMs + " ms: " + what;
            if (doubt != null || isSent) {
                return new RemoteStorageException(
                    message + (doubt == null ? "" : ": " + doubt.getMessage()));
            }
            return new ReplicaNotAvailableException(
                message + (refusal == null ? "" : ": " + refusal.getMessage()));
        }

        /** An attempt has no answer yet, or it is written and not applied here yet. */
        boolean isSent;

        void begin() {
            number = begun++;
            open.put(number, this);
            attempt();
        }

        void attempt() {
            if (done.isDone()) {
                return;
            }
            if (hosted.role != Role.LEADER) {
                end(doubt != null
                    ? new RemoteStorageException(hosted.tip + ": " + doubt.getMessage())
                    : new ReplicaNotAvailableException(
                        hosted.tip + " is led by this broker no more"));
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
                    isSent = false;
                    if (error == null) {
                        written(answer);
                    } else {
                        failed((CallFailed) error);
                    }
                });
        }

        private void again() {
            loop.after(Math.min(PAUSE_MS << Math.min(attempts++, 10), PAUSE_MAX_MS), this::attempt);
        }

        private void written(Answer answer) {
            isSent = true;
            if (!answer.getBetterDoor().isEmpty()) {
                door = answer.getBetterDoor();
                doors.learn(door);
            }
            leave();
            hosted.feed.reached(answer.getWritten().getPosition(), () -> end(null));
        }

        private void failed(CallFailed error) {
            door = null;
            if (error.fate == Fate.RETRYABLE || error.fate == Fate.UNKNOWN) {
                if (error.fate == Fate.UNKNOWN) {
                    doubt = error;
                } else {
                    refusal = error;
                }
                again();
                return;
            }
            if (error.fate == Fate.FENCED_OFF) {
                roles.fenced(hosted, claim);
            }
            // Of the last attempt; the one before may still arrive.
            boolean isCertain = doubt == null || error.kind == Kind.PARTITION_DELETED;
            end(isCertain ? kafkaError(error) : new RemoteStorageException(
                hosted.tip + ": " + doubt.getMessage(), error));
        }

        private Exception kafkaError(CallFailed error) {
            String message = hosted.tip + ": " + error.getMessage();
            switch (error.kind) {
                case REMOTE_RESOURCE_NOT_FOUND:
                case PARTITION_DELETED:
                    return new RemoteResourceNotFoundException(message, error);
                case FENCED:
                    return new ReplicaNotAvailableException(message, error);
                default:
                    return new RemoteStorageException(message, error);
            }
        }

        private void leave() {
            if (open.remove(number) != null) {
                next();
            }
        }

        void end(Exception error) {
            timeout.cancel(false);
            if (error == null) {
                done.complete(null);
            } else {
                done.completeExceptionally(error);
            }
            waiting.remove(this);
            leave();
        }
    }

    private final Hosted hosted;
    private final Doors doors;
    private final Loop loop;
    private final Roles roles;
    private final TreeMap<Long, One> open = new TreeMap<>();
    private final ArrayDeque<One> waiting = new ArrayDeque<>();
    private long begun;
    /** Where the partition's leader is reached without being passed on; null: not known. */
    private String door;

    Writes(Hosted hosted, Doors doors, Loop loop, Roles roles) {
        this.hosted = hosted;
        this.doors = doors;
        this.loop = loop;
        this.roles = roles;
    }

    /** Let {@code done} be done when the write is durable, and applied in the replica. */
    void submit(Write.Builder write, long timeoutMs, String what, CompletableFuture<Void> done) {
        waiting.add(new One(write, timeoutMs, what, done));
        next();
    }

    /** Fail all that is under way. */
    void close(String why) {
        waiting.addAll(open.values());
        open.clear();
        while (!waiting.isEmpty()) {
            waiting.poll().end(new RemoteStorageException(hosted.tip + ": " + why));
        }
    }

    private void next() {
        while (!waiting.isEmpty() && (open.isEmpty() || begun - open.firstKey() < OPEN_MAX)) {
            waiting.poll().begin();
        }
    }
}
