package org.tierledger.kafka;

import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.LongAccumulator;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.ToLongFunction;
import java.util.stream.Stream;
import javax.management.JMException;
import javax.management.ObjectName;
import javax.management.StandardMBean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the plugin counts, as an MBean while it is registered. */
final class Metrics implements PluginMetrics {
    final LongAdder writes = new LongAdder();
    final LongAdder writesFailed = new LongAdder();
    final LongAdder writeNanos = new LongAdder();
    final LongAccumulator writeNanosMax = new LongAccumulator(Math::max, 0);
    final LongAdder notReady = new LongAdder();
    final LongAdder fenced = new LongAdder();
    final LongAdder reconnects = new LongAdder();
    final LongAdder snapshots = new LongAdder();
    final LongAdder replicasDropped = new LongAdder();
    final LongAdder shadowEqual = new LongAdder();
    final LongAdder shadowSkipped = new LongAdder();
    final LongAdder shadowDifferent = new LongAdder();
    volatile String decision = "";

    private final Logger log = LoggerFactory.getLogger(Metrics.class);
    private final Roles roles;
    private ObjectName name;

    Metrics(Roles roles) {
        this.roles = roles;
    }

    void register(int brokerId) {
        try {
            name = new ObjectName("org.tierledger:type=RemoteLogMetadataManager,broker="
                + brokerId + ",instance=" + Integer.toHexString(System.identityHashCode(this)));
            ManagementFactory.getPlatformMBeanServer().registerMBean(
                new StandardMBean(this, PluginMetrics.class), name);
        } catch (JMException error) {
            log.warn("No metrics of tierledger by JMX", error);
            name = null;
        }
    }

    void unregister() {
        if (name != null) {
            try {
                ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
            } catch (JMException error) {
                log.warn("Metrics of tierledger stay in JMX", error);
            }
            name = null;
        }
    }

    @Override
    public long getWrites() {
        return writes.sum();
    }

    @Override
    public long getWritesFailed() {
        return writesFailed.sum();
    }

    @Override
    public double getWriteMeanMs() {
        return writes.sum() == 0 ? 0 : writeNanos.sum() / 1e6 / writes.sum();
    }

    @Override
    public double getWriteMaxMs() {
        return writeNanosMax.get() / 1e6;
    }

    @Override
    public long getNotReadyAnswers() {
        return notReady.sum();
    }

    @Override
    public long getFenced() {
        return fenced.sum();
    }

    @Override
    public long getReconnects() {
        return reconnects.sum();
    }

    @Override
    public long getSnapshots() {
        return snapshots.sum();
    }

    @Override
    public long getReplicasDropped() {
        return replicasDropped.sum();
    }

    @Override
    public long getShadowEqual() {
        return shadowEqual.sum();
    }

    @Override
    public long getShadowSkipped() {
        return shadowSkipped.sum();
    }

    @Override
    public long getShadowDifferent() {
        return shadowDifferent.sum();
    }

    @Override
    public String getDecision() {
        return decision;
    }

    @Override
    public long getPartitions() {
        return roles.hosted().count();
    }

    @Override
    public long getPartitionsNotReady() {
        return roles.hosted().filter(one -> !one.replica.isReady()).count();
    }

    @Override
    public long getSegments() {
        return sum(Replica::count);
    }

    @Override
    public long getReplicaBytes() {
        return sum(Replica::size);
    }

    @Override
    public boolean isServiceAway() {
        return roles.isAway();
    }

    private long sum(ToLongFunction<Replica> of) {
        Stream<Hosted> hosted = roles.hosted();
        return hosted.map(one -> one.replica).mapToLong(of).sum();
    }
}
