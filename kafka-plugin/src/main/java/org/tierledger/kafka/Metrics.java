package org.tierledger.kafka;

import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.DynamicMBean;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanInfo;
import javax.management.ObjectName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the plugin counts, as an MBean while it is registered. */
final class Metrics implements DynamicMBean {
    final Latency lookups = new Latency();
    final Latency writes = new Latency();
    final LongAdder writesFailed = new LongAdder();
    final LongAdder questions = new LongAdder();
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
    /** By name: what it is, and its value. */
    private final Map<String, Map.Entry<String, Supplier<?>>> shown = new LinkedHashMap<>();
    private ObjectName name;

    Metrics(Roles roles) {
        this.roles = roles;
        show("LookupP50Ms", "time of a lookup, of one in 64, within which half were answered",
            () -> lookups.ms(.5));
        show("LookupP99Ms", "the same for 99 in 100", () -> lookups.ms(.99));
        show("Writes", "writes that are durable and applied in this broker's replica",
            writes::count);
        show("WriteP50Ms", "time within which half of these were done", () -> writes.ms(.5));
        show("WriteP99Ms", "the same for 99 in 100", () -> writes.ms(.99));
        show("WriteMaxMs", "of the slowest", () -> writes.ms(1));
        show("WritesFailed", "writes that ended with an exception", writesFailed::sum);
        show("Questions", "asked of the service in a replica's place", questions::sum);
        show("NotReadyAnswers", "calls that were ReplicaNotAvailableException", notReady::sum);
        show("Fenced", "times that a newer announcement than this broker's led", fenced::sum);
        show("Reconnects", "times that the conversation with the service broke", reconnects::sum);
        show("Decision", "by which manager this broker reads and writes, as of which word",
            () -> decision);
        show("ShadowEqual", "in shadow: answers that both managers gave alike", shadowEqual::sum);
        show("ShadowDifferent", "in shadow: answers that differed at two looks",
            shadowDifferent::sum);
        show("ShadowSkipped", "in shadow: answers that were not compared", shadowSkipped::sum);
        show("ServiceAway", "whether no host could be reached when that was tried last",
            roles::isAway);
        show("Partitions", "partitions that this broker hosts", () -> sum(one -> 1));
        show("PartitionsNotReady", "of these, replicas that have not caught up",
            () -> sum(one -> one.replica.isReady() ? 0 : 1));
        show("PartitionsOver", "of these, replicas for which there is no room",
            () -> sum(one -> one.feed.isOver() ? 1 : 0));
        show("PartitionsOfAnotherLedger", "of these, those whose log at the service is not the one "
            + "that they were fed from; a person has to look",
            () -> sum(one -> one.feed.isOther() ? 1 : 0));
        show("Snapshots", "replicas that were fetched as a whole", snapshots::sum);
        show("ReplicasDropped", "replicas that did not add up, and were fetched again",
            replicasDropped::sum);
        show("ReplicaSilenceMaxMs", "since a host said something last, of the most silent replica",
            () -> max(one -> one.feed.silentMs()));
        show("ReplicaBehindMax", "positions by which a replica is behind what this broker was told",
            () -> max(one -> one.replica.behind()));
        show("Segments", "segments in all replicas", () -> sum(one -> one.replica.count()));
        show("ReplicaBytes", "bytes that their rows take in this broker's heap",
            () -> sum(one -> one.replica.size()));
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

    void register(int brokerId) {
        try {
            name = new ObjectName("org.tierledger:type=RemoteLogMetadataManager,broker="
                + brokerId + ",instance=" + Integer.toHexString(System.identityHashCode(this)));
            ManagementFactory.getPlatformMBeanServer().registerMBean(this, name);
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
    public Object getAttribute(String attribute) throws AttributeNotFoundException {
        if (!shown.containsKey(attribute)) {
            throw new AttributeNotFoundException(attribute);
        }
        return shown.get(attribute).getValue().get();
    }

    @Override
    public AttributeList getAttributes(String[] attributes) {
        AttributeList values = new AttributeList();
        for (String one : attributes) {
            if (shown.containsKey(one)) {
                values.add(new Attribute(one, shown.get(one).getValue().get()));
            }
        }
        return values;
    }

    @Override
    public MBeanInfo getMBeanInfo() {
        MBeanAttributeInfo[] attributes = shown.entrySet().stream().map(
            one -> new MBeanAttributeInfo(
                one.getKey(), one.getValue().getValue().get().getClass().getName(),
                one.getValue().getKey(), true, false, false))
            .toArray(MBeanAttributeInfo[]::new);
        return new MBeanInfo(
            Metrics.class.getName(), "counts since it was configured", attributes, null, null, null);
    }

    @Override
    public void setAttribute(Attribute attribute) throws AttributeNotFoundException {
        throw new AttributeNotFoundException(attribute.getName() + " can be read only");
    }

    @Override
    public AttributeList setAttributes(AttributeList attributes) {
        return new AttributeList();
    }

    @Override
    public Object invoke(String action, Object[] given, String[] signature) {
        throw new UnsupportedOperationException(action);
    }
}
