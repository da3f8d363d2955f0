package org.tierledger.kafka;

import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import org.HdrHistogram.ConcurrentHistogram;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.common.metrics.KafkaMetricsContext;
import org.tierledger.door.v1.Ownership;

/** What the plugin counts, as an MBean of Kafka's own kind while it is registered. */
final class Metrics {
    private static final String DOMAIN = "org.tierledger";
    private static final String TYPE = "RemoteLogMetadataManager";

    /** Each metric's description and value, by name. */
    final Map<String, Map.Entry<String, Supplier<?>>> shown = new LinkedHashMap<>();

    final LongAdder writesFailed =
        counted("WritesFailed", "writes that ended with an exception");
    final LongAdder questions = counted("Questions", "asked of the service in a replica's place");
    final LongAdder notReady =
        counted("NotReadyAnswers", "calls that were ReplicaNotAvailableException");
    final LongAdder fenced =
        counted("Fenced", "times that a newer announcement than this broker's led");
    final LongAdder reconnects =
        counted("Reconnects", "times that the conversation with the service broke");
    final LongAdder snapshots = counted("Snapshots", "replicas that were fetched as a whole");
    final LongAdder replicasDropped =
        counted("ReplicasDropped", "replicas that did not add up, and were fetched again");
    final LongAdder shadowEqual =
        counted("ShadowEqual", "in shadow: answers that both managers gave alike");
    final LongAdder shadowDifferent =
        counted("ShadowDifferent", "in shadow: answers that differed at two looks");
    final LongAdder shadowSkipped =
        counted("ShadowSkipped", "in shadow: answers that were not compared");
    final LongAdder shadowResolved =
        counted("ShadowResolved", "in shadow: differences that have gone again");
    /** In shadow: differences that stand; answers alike since the newest; and when (nanoTime). */
    volatile long standing;
    volatile long verified;
    volatile long verifiedAt;
    /** Times in nanoseconds, to two significant digits. */
    final ConcurrentHistogram lookups = new ConcurrentHistogram(2);
    final ConcurrentHistogram writes = new ConcurrentHistogram(2);
    volatile String decision = "";

    private final org.apache.kafka.common.metrics.Metrics registry =
        new org.apache.kafka.common.metrics.Metrics();
    private final Roles roles;

    Metrics(Roles roles) {
        this.roles = roles;
        show("LookupP50Ms", "time of a lookup, of one in 64, within which half were answered",
            () -> ms(lookups, 50));
        show("LookupP99Ms", "the same for 99 in 100", () -> ms(lookups, 99));
        show("Writes", "writes that are durable and applied in this broker's replica",
            writes::getTotalCount);
        show("WriteP50Ms", "time within which half of these were done", () -> ms(writes, 50));
        show("WriteP99Ms", "the same for 99 in 100", () -> ms(writes, 99));
        show("WriteMaxMs", "of the slowest", () -> ms(writes, 100));
        show("Decision", "by which manager this broker reads and writes, in which owner epoch",
            () -> decision);
        show("OwnerEpoch", "the newest owner epoch that this broker has seen, also in its earlier runs; "
            + "0: none", () -> ownerEpoch());
        show("ShadowStanding", "in shadow: differences that stand now, without those in which only "
            + "Kafka's manager lacks segments", () -> standing);
        show("ShadowVerified", "in shadow: answers alike since the start or the newest difference",
            () -> verified);
        show("ShadowVerifiedAgoMs", "since the last of these; -1 without one",
            this::verifiedAgoMs);
        show("ServiceAway", "whether no host could be reached when that was tried last",
            () -> roles.doors.isAway());
        show("Partitions", "partitions that this broker hosts", () -> sum(one -> 1));
        show("PartitionsNotReady", "of these, replicas that have not caught up",
            () -> sum(one -> one.replica.isReady() ? 0 : 1));
        show("PartitionsOver", "of these, replicas for which there is no room",
            () -> sum(one -> one.feed.isOver() ? 1 : 0));
        show("PartitionsOfAnotherLedger", "of these, those whose log at the service is not the one "
            + "that they were fed from; a person has to look",
            () -> sum(one -> one.feed.isOther() ? 1 : 0));
        show("PartitionsSaved", "of these, those read from the broker's folder since its start, which "
            + "no host has confirmed yet", () -> sum(one -> one.replica.savedAt() > 0 ? 1 : 0));
        show("SavedAgeMaxMs", "since the oldest of these was saved",
            () -> max(one -> one.replica.savedAt() > 0
                ? System.currentTimeMillis() - one.replica.savedAt() : 0));
        show("PositionsRemembered", "partitions of which this broker's folder remembers how far a "
            + "ledger has fed them, also from its earlier runs", () -> roles.memory.count());
        show("ReplicaSilenceMaxMs", "since a host last sent something, of the most silent replica",
            () -> max(one -> one.feed.silentMs()));
        show("ReplicaBehindMax", "positions by which a replica is behind the newest that it knows of",
            () -> max(one -> one.replica.behind()));
        show("Segments", "segments in all replicas", () -> sum(one -> one.replica.count()));
        show("ReplicaBytes", "bytes that their rows take in this broker's heap",
            () -> sum(one -> one.replica.size()));
    }

    private long ownerEpoch() {
        Ownership seen = roles.memory.ownership();
        return seen == null ? 0 : seen.getEpoch();
    }

    private static double ms(ConcurrentHistogram times, double percentile) {
        return times.getValueAtPercentile(percentile) / 1e6;
    }

    long verifiedAgoMs() {
        return verified == 0 ? -1 : TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - verifiedAt);
    }

    private LongAdder counted(String attribute, String description) {
        LongAdder count = new LongAdder();
        show(attribute, description, count::sum);
        return count;
    }

    private void show(String attribute, String description, Supplier<?> value) {
        shown.put(attribute, Map.entry(description, value));
    }

    private long sum(ToLongFunction<Hosted> of) {
        return roles.hosted().mapToLong(of).sum();
    }

    private long max(ToLongFunction<Hosted> of) {
        return roles.hosted().mapToLong(of).max().orElse(0);
    }

    /**
     * Show all metrics by JMX, through Kafka's own registry. The name is the same at each start
     * of the broker; only a second manager of that broker in one JVM has a name of its own.
     */
    void register(int brokerId) {
        JmxReporter jmx = new JmxReporter();
        jmx.contextChange(new KafkaMetricsContext(DOMAIN));
        registry.removeMetric(registry.metricName("count", "kafka-metrics-count")); // Kafka's.
        registry.addReporter(jmx);
        Map<String, String> tags = new LinkedHashMap<>();
        tags.put("broker", String.valueOf(brokerId));
        if (isTaken(brokerId)) {
            tags.put("instance", Integer.toHexString(System.identityHashCode(this)));
        }
        shown.forEach((name, one) -> registry.addMetric(
            registry.metricName(name, TYPE, one.getKey(), tags),
            (Gauge<Object>) (config, now) -> one.getValue().get()));
    }

    private static boolean isTaken(int brokerId) {
        try {
            return ManagementFactory.getPlatformMBeanServer().isRegistered(
                new ObjectName(DOMAIN + ":type=" + TYPE + ",broker=" + brokerId));
        } catch (MalformedObjectNameException error) {
            throw new IllegalStateException(error);
        }
    }

    void unregister() {
        registry.close();
    }
}
