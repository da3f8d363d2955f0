package org.tierledger.kafka;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.tierledger.door.v1.Answer;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.Found;
import org.tierledger.door.v1.Kind;
import org.tierledger.door.v1.NextPage;
import org.tierledger.door.v1.Role;

/**
 * Asks the service what a replica cannot answer; the broker's thread waits. A follower's answer
 * counts only if it is a segment. Everything else, also that there is none, has to come from
 * the leader, whose answers are linearizable. No answer is from before an earlier one.
 */
final class Questions {
    private static final long TIME_MS = 400;
    private static final int OPEN_MAX = 64;

    private final Loop loop;
    private final Metrics metrics;
    private final Semaphore room = new Semaphore(OPEN_MAX);

    Questions(Loop loop, Metrics metrics) {
        this.loop = loop;
        this.metrics = metrics;
    }

    /** The service's answer. {@code why}: what the replica lacks, for error messages. */
    Found ask(Hosted hosted, Question asked, Replica.NotReady why)
        throws Replica.NotReady, Replica.Deleted {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(TIME_MS);
        var question = org.tierledger.door.v1.Question.newBuilder()
            .setPartition(Segments.partition(hosted.tip))
            .setKind(asked.kind).setEpoch(asked.epoch).setOffset(asked.offset);
        if (asked.isOfSegment() && hosted.role == Role.FOLLOWER) {
            Found found = found(hosted, question.setRole(Role.FOLLOWER), until, why);
            if (found.hasRow()) {
                return found;
            }
        }
        return found(hosted, question.setRole(Role.LEADER), until, why);
    }

    private Found found(
        Hosted hosted, org.tierledger.door.v1.Question.Builder question, long until,
        Replica.NotReady why)
        throws Replica.NotReady, Replica.Deleted {
        long floor = hosted.replica.floor();
        if (floor >= 0) {
            question.setPositionMin(floor);
        }
        Found found = answer(hosted, Call.newBuilder().setQuestion(question), until, why);
        if (found.getPosition() < floor || found.getStale() && !found.hasRow()) {
            throw new Replica.NotReady(why.getMessage() + ", and the service is at "
                + found.getPosition() + ", after answers of " + floor);
        }
        hosted.replica.answered(found.getPosition());
        return found;
    }

    /** The next page of a list. */
    Found page(Hosted hosted, String cursor) throws Replica.NotReady, Replica.Deleted {
        return answer(
            hosted, Call.newBuilder().setNextPage(NextPage.newBuilder().setCursor(cursor)),
            System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(TIME_MS),
            new Replica.NotReady("the rest of a list"));
    }

    private Found answer(Hosted hosted, Call.Builder call, long until, Replica.NotReady why)
        throws Replica.NotReady, Replica.Deleted {
        String problem;
        call.setRequestId(RequestId.random());
        if (!room.tryAcquire()) {
            throw new Replica.NotReady(why.getMessage() + ", and " + OPEN_MAX + " questions wait");
        }
        try {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime());
            return CompletableFuture.completedFuture(null).thenComposeAsync(nothing -> {
                Conversation home = hosted.feed.compared();
                if (home == null || leftMs <= 0) {
                    return CompletableFuture.<Answer>failedFuture(
                        CallFailed.notReady("nobody can be asked"));
                }
                metrics.questions.increment();
                return home.ask(call.setDeadlineMs((int) leftMs));
            }, loop::run).get(leftMs, TimeUnit.MILLISECONDS).getFound();
        } catch (ExecutionException error) {
            CallFailed failed = (CallFailed) error.getCause();
            if (failed.kind == Kind.PARTITION_DELETED) {
                throw new Replica.Deleted();
            }
            problem = failed.getMessage();
        } catch (TimeoutException late) {
            problem = "no answer within " + TIME_MS + " ms";
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            problem = "interrupted";
        } finally {
            room.release();
        }
        throw new Replica.NotReady(RequestId.in(
            why.getMessage() + ", and of the service: " + problem, call.getRequestId()));
    }
}
