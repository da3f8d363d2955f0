package org.tierledger.kafka;

import java.util.function.BooleanSupplier;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Answer;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.Partition;
import org.tierledger.door.v1.Purge;
import org.tierledger.door.v1.ToPurge;

/**
 * Has the guard in this JVM delete the data of kept segments whose time is over, one at a time.
 * The service says which, and is told. Without a guard, or if nothing is due, nothing happens.
 */
final class Purges {
    private static final int DEADLINE_MS = 30_000;
    private static final long IDLE_MS = 5_000;
    private static final String[] SIGNATURE = {Object.class.getName()};

    private final Logger log = LoggerFactory.getLogger(Purges.class);
    private final Segments segments = new Segments();
    private final int brokerId;
    private final Loop loop;
    private final Doors doors;
    private final BooleanSupplier mayPurge;
    // On the loop alone:
    /** What the service does not know yet to be deleted; null: nothing. */
    private Purge done;
    /** Why the last attempt failed; each reason is logged once. */
    private String failed;

    /** {@code mayPurge}: whether the service is the one whose word counts now. */
    Purges(int brokerId, Loop loop, Doors doors, BooleanSupplier mayPurge) {
        this.brokerId = brokerId;
        this.loop = loop;
        this.doors = doors;
        this.mayPurge = mayPurge;
    }

    /** Ask the service, and again as soon as that is done; until the loop is closed. */
    void next() {
        ObjectName guard = SameBroker.only(SameBroker.GUARD, brokerId);
        Conversation home = doors.at(null);
        if (guard == null || home == null || !mayPurge.getAsBoolean()) {
            loop.after(IDLE_MS, this::next);
            return;
        }
        Purge.Builder purge =
            done == null ? Purge.newBuilder().setBrokerId(brokerId) : done.toBuilder();
        home.ask(Call.newBuilder().setDeadlineMs(DEADLINE_MS).setPurge(purge))
            .whenComplete((answer, error) -> {
                if (error != null) {
                    later(error.getMessage());
                } else {
                    done = null;
                    given(guard, answer);
                }
            });
    }

    private void given(ObjectName guard, Answer answer) {
        ToPurge found = answer.getToPurge();
        if (!found.hasPartition() || !mayPurge.getAsBoolean()) {
            loop.after(IDLE_MS, this::next);
            return;
        }
        Partition of = found.getPartition();
        TopicIdPartition tip = new TopicIdPartition(
            Segments.uuid(of.getTopicId()), of.getPartition(), of.getTopic());
        RemoteLogSegmentMetadata segment =
            segments.metadata(tip, new Row(found.getRow().toByteArray(), 0));
        loop.transports().execute(() -> {
            String why = null;
            try {
                SameBroker.invoke(guard, "purge", new Object[] {segment}, SIGNATURE);
            } catch (JMException | RuntimeException error) {
                why = "the data of " + segment.remoteLogSegmentId() + " is not purged: "
                    + (error.getCause() == null ? error : error.getCause());
            }
            String reason = why;
            loop.run(() -> purged(found, segment, reason));
        });
    }

    private void purged(ToPurge found, RemoteLogSegmentMetadata segment, String why) {
        if (why != null) {
            later(why);
            return;
        }
        failed = null;
        done = Purge.newBuilder().setBrokerId(brokerId).setPartition(found.getPartition())
            .setSegmentId(Segments.bytes(segment.remoteLogSegmentId().id())).build();
        next();
    }

    private void later(String why) {
        if (why != null && !why.equals(failed)) {
            failed = why;
            log.info("The trash is purged later: {}", why);
        }
        loop.after(IDLE_MS, this::next);
    }
}
