package org.tierledger.kafka;

/** What a guard asks the plugin in the same JVM; types of Java alone, as class loaders differ. */
public interface DeletionsMBean {
    /**
     * Whether a segment's data may be deleted: its deletion has begun, or its copy never finished.
     * Not if the metadata has no such segment, so also if it is kept.
     *
     * @param epoch one of the segment's leader epochs
     * @throws Exception that is not known, or the segment is finished and its deletion has not begun
     */
    boolean mayDelete(String topicId, String topic, int partition, String segmentId, int epoch)
        throws Exception;
}
