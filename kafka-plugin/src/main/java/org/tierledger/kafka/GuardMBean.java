package org.tierledger.kafka;

/** Marks a broker whose storage manager is guarded. */
public interface GuardMBean {
    /** The class of the storage manager behind the guard. */
    String getGuarded();

    /**
     * Delete the data of a kept segment, a {@code RemoteLogSegmentMetadata}, whose time is over.
     *
     * @throws Exception that of the storage manager behind the guard
     */
    void purge(Object segment) throws Exception;
}
