package org.tierledger.kafka;

import org.apache.kafka.common.TopicIdPartition;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Role;

/** A partition that this broker hosts, or whose stop the service has not accepted yet. */
final class Hosted {
    final TopicIdPartition tip;
    final Replica replica = new Replica();
    final FedReplica feed;
    final Writes writes;
    final SavedReplica saved;

    /** The role from Kafka, and the one to announce; unspecified: no longer hosted here. */
    Role kafkaRole = Role.ROLE_UNSPECIFIED;
    volatile Role role = Role.ROLE_UNSPECIFIED;
    /** Grows with each change of the role, or when the role is to be announced again. */
    volatile int roleNumber;
    /** The number of the last role that the service accepted. */
    int acceptedNumber;

    // On the loop alone:
    /** The claim under which this broker reads and writes; null until the role is accepted. */
    Claim claim;
    /** How often in a row the claim was fenced, and when it was last (nanoTime). */
    int fencings;
    long fencedAt;

    /** The newest role's claim; null until it has one: the former may be a follower's. */
    Claim announcedClaim() {
        return roleNumber == acceptedNumber ? claim : null;
    }

    Hosted(TopicIdPartition tip, Doors doors, Loop loop, Roles roles, Metrics metrics) {
        this.tip = tip;
        roles.memory.recall(tip, replica);
        this.saved = new SavedReplica(roles.memory.folder, tip, replica);
        this.feed = new FedReplica(this, doors, loop, roles, metrics);
        this.writes = new Writes(this, doors, loop, roles);
    }
}
