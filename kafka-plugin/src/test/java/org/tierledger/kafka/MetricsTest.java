package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.management.ManagementFactory;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import javax.management.ObjectName;
import org.junit.jupiter.api.Test;

/** JMX names stay the same from one start of a broker to the next. */
class MetricsTest {
    private static final String NAME = "org.tierledger:type=RemoteLogMetadataManager,broker=77";

    @Test
    void onlyTheSecondManagerOfABrokerInOneJvmHasANameOfItsOwn() throws Exception {
        Metrics first = new Metrics(null);
        Metrics second = new Metrics(null);
        first.register(77);
        second.register(77);
        String other = NAME + ",instance=" + Integer.toHexString(System.identityHashCode(second));
        assertEquals(Set.of(NAME, other), names());

        first.unregister();
        assertEquals(Set.of(other), names());
        second.unregister();
        assertEquals(Set.of(), names());

        Metrics next = new Metrics(null);
        next.register(77);
        assertEquals(Set.of(NAME), names());
        next.unregister();
    }

    private static Set<String> names() throws Exception {
        return ManagementFactory.getPlatformMBeanServer()
            .queryNames(new ObjectName("org.tierledger:broker=77,*"), null).stream()
            .map(ObjectName::toString).collect(Collectors.toCollection(TreeSet::new));
    }
}
