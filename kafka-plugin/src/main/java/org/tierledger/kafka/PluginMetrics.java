package org.tierledger.kafka;

/** What JMX shows of the plugin; counts are since it was configured. */
public interface PluginMetrics {
    /** Writes that are durable and applied in this broker's replica. */
    long getWrites();

    long getWritesFailed();

    double getWriteMeanMs();

    double getWriteMaxMs();

    /** Answers that were ReplicaNotAvailableException. */
    long getNotReadyAnswers();

    /** How often a newer announcement than this broker's led. */
    long getFenced();

    /** How often the conversation with the service broke. */
    long getReconnects();

    /** Replicas that were fetched as a whole. */
    long getSnapshots();

    /** Replicas that did not add up, and were fetched again. */
    long getReplicasDropped();

    /** In shadow: answers that both managers gave alike, or not, or that were not compared. */
    long getShadowEqual();

    long getShadowDifferent();

    long getShadowSkipped();

    /** By which manager this broker reads and writes, and the number of the word that says so. */
    String getDecision();

    /** Partitions that this broker hosts. */
    long getPartitions();

    long getPartitionsNotReady();

    long getSegments();

    /** Bytes that rows take in this broker's heap. */
    long getReplicaBytes();

    /** Whether no host of the service could be reached when that was tried last. */
    boolean isServiceAway();
}
