package org.tierledger.kafka;

import org.apache.kafka.common.TopicIdPartition;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Role;

/** A partition that this broker hosts, or is about to host no more. */
final class Hosted {
    final TopicIdPartition tip;
    final Replica replica = new Replica();
    final FedReplica feed;
    final Writes writes;

    /** As Kafka said last, and as the service is told; unspecified: this broker hosts it no more. */
    Role kafkaRole = Role.ROLE_UNSPECIFIED;
    volatile Role role = Role.ROLE_UNSPECIFIED;
    /** The number of the newest word about it, and of the one that was announced last. */
    volatile int word;
    int announced;

    // On the loop alone:
    /** Under which it reads and writes now; null: announced anew, or not yet. */
    Claim claim;
    /** How often in a row it was fenced, and when it was last. */
    int fencings;
    long fencedAt;

    /** Null: its newest word has no claim yet; a former one may be that of a follower. */
    Claim announcedClaim() {
        return word == announced ? claim : null;
    }

    Hosted(TopicIdPartition tip, Doors doors, Loop loop, Roles roles, Metrics metrics) {
        this.tip = tip;
        roles.memory.recall(tip, replica);
        this.feed = new FedReplica(this, doors, loop, roles, metrics);
        this.writes = new Writes(this, doors, loop, roles);
    }
}
