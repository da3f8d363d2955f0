package org.apache.kafka.tiered.storage;

import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.common.replica.ReplicaSelector;
import org.apache.kafka.tiered.storage.integration.BaseReassignReplicaTest;
import org.apache.kafka.tiered.storage.integration.TransactionsWithTieredStoreTest;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Kafka's own tests of tiered storage, on brokers whose remote log metadata tierledger keeps.
 * System properties say which tests, where the plugin's jar is, and where the service listens.
 */
final class TierledgerSuite {
    private static final String MANAGER = "remote.log.metadata.manager.";

    private TierledgerSuite() {}

    private static Properties onTierledger(Properties broker) {
        broker.setProperty(
            MANAGER + "class.name", "org.tierledger.kafka.TierledgerRemoteLogMetadataManager");
        broker.setProperty(MANAGER + "class.path", System.getProperty("suite.plugin"));
        broker.setProperty(
            broker.getProperty(MANAGER + "impl.prefix") + "tierledger.bootstrap",
            System.getProperty("suite.door"));
        return broker;
    }

    /** All but those of transactions. They are final classes: each says here what it would do. */
    @ParameterizedClass
    @MethodSource("names")
    static class Tiering extends TieredStorageTestHarness {
        private final TieredStorageTestHarness test;

        Tiering(String name) throws ReflectiveOperationException {
            test = (TieredStorageTestHarness) Class
                .forName("org.apache.kafka.tiered.storage.integration." + name)
                .getDeclaredConstructor().newInstance();
        }

        static String[] names() {
            return System.getProperty("suite.tests").split(",");
        }

        @Override
        public int brokerCount() {
            return test.brokerCount();
        }

        @Override
        protected int numRemoteLogMetadataPartitions() {
            return test.numRemoteLogMetadataPartitions();
        }

        @Override
        protected Optional<Class<ReplicaSelector>> readReplicaSelectorClass() {
            return test.readReplicaSelectorClass();
        }

        /** With folders of this harness: the test's own was not set up. */
        @Override
        public Properties overridingProps() {
            Properties broker = super.overridingProps();
            test.overridingProps().forEach((key, value) -> {
                if (!key.toString().matches("(rsm|rlmm)[.]config[.].*")) {
                    broker.putIfAbsent(key, value);
                }
            });
            return onTierledger(broker);
        }

        @Override
        protected void overrideConsumerConfig(Properties consumer) {
            test.overrideConsumerConfig(consumer);
        }

        /**
         * Moving replicas begins with a look at the topic of Kafka's own manager. It is there, and
         * empty: that step proves nothing here.
         */
        @Override
        protected void writeTestSpecifications(TieredStorageTestBuilder builder) {
            if (test instanceof BaseReassignReplicaTest) {
                builder.createTopic(
                    "__remote_log_metadata", numRemoteLogMetadataPartitions(), 1, 1, Map.of(),
                    false);
            }
            test.writeTestSpecifications(builder);
        }
    }

    static class Transactions extends TransactionsWithTieredStoreTest {
        @Override
        public Properties overridingProps() {
            return onTierledger(super.overridingProps());
        }
    }
}
