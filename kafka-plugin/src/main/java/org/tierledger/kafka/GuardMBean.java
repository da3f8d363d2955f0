package org.tierledger.kafka;

/** Marks a broker whose storage manager is guarded. */
public interface GuardMBean {
    /** The class of the storage manager behind the guard. */
    String getGuarded();
}
