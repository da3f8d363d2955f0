package org.tierledger.kafka;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigException;
import org.tierledger.door.v1.PluginMode;

/** The plugin's settings in the broker's; a wrong value is a ConfigException that names it. */
final class Settings {
    static final String BROKER = "broker.id";
    static final String CLUSTER = "cluster.id";
    static final String MODE = "tierledger.mode";
    static final String LOG_FOLDER = "log.dir";
    static final String BOOTSTRAP = "tierledger.bootstrap";
    static final String CA = "tierledger.ssl.ca.location";
    static final String CERTIFICATE = "tierledger.ssl.certificate.location";
    static final String KEY = "tierledger.ssl.key.location";
    static final String TOKEN = "tierledger.token.location";
    static final String TOKEN_WITHOUT_TLS = "tierledger.token.without.tls";
    static final String REPLICA_BYTES = "tierledger.replica.max.bytes";
    static final String WRITE_TIMEOUT = "tierledger.write.timeout.ms";
    static final String FINISH_TIMEOUT = "tierledger.finish.timeout.ms";

    private static final String TLS_SCHEME = "tierledgers://";

    final int brokerId;
    final String clusterId;
    final PluginMode mode;
    /** The broker's first log folder; null if its settings name none. */
    final String logFolder;
    /** Hosts of the service, each HOST:PORT. */
    final List<String> bootstrap;
    /** Whether the hosts speak TLS. */
    final boolean isTls;
    /** PEM files, read for each stream; null: Java's own authorities, no client certificate. */
    final String caFile;
    final String certificateFile;
    final String keyFile;
    /** A file with the broker's token, read for each stream; null without tokens. */
    final String tokenFile;
    /** Whether the token may go to another machine unencrypted. */
    final boolean isTokenSentWithoutTls;
    /** Heap bytes that all replicas may take together. */
    final long replicaBytesMax;
    final long writeTimeoutMs;
    final long finishTimeoutMs;

    Settings(Map<String, ?> config) {
        AbstractConfig read = new AbstractConfig(definition(), config, false);
        brokerId = read.getInt(BROKER);
        clusterId = read.getString(CLUSTER);
        mode = PluginMode.valueOf("MODE_" + read.getString(MODE).toUpperCase(Locale.ROOT));
        logFolder = read.getString(LOG_FOLDER);
        List<String> doors = read.getList(BOOTSTRAP);
        isTls = doors.get(0).startsWith(TLS_SCHEME);
        bootstrap = doors.stream().map(Settings::withoutScheme).collect(Collectors.toList());
        caFile = read.getString(CA);
        certificateFile = read.getString(CERTIFICATE);
        keyFile = read.getString(KEY);
        for (String key : List.of(CA, CERTIFICATE, KEY)) {
            if (!isTls && read.getString(key) != null) {
                throw new ConfigException(
                    key, read.getString(key), "expected " + TLS_SCHEME + "... in " + BOOTSTRAP);
            }
        }
        if ((certificateFile == null) != (keyFile == null)) {
            throw new ConfigException(
                KEY, keyFile, "expected it together with " + CERTIFICATE + ", or neither");
        }
        tokenFile = read.getString(TOKEN);
        isTokenSentWithoutTls = read.getBoolean(TOKEN_WITHOUT_TLS);
        long bytes = read.getLong(REPLICA_BYTES);
        replicaBytesMax = bytes > 0 ? bytes : Runtime.getRuntime().maxMemory() / 4;
        writeTimeoutMs = read.getLong(WRITE_TIMEOUT);
        finishTimeoutMs = read.getLong(FINISH_TIMEOUT);
    }

    static ConfigDef definition() {
        return new ConfigDef()
            .define(BROKER, Type.INT, ConfigDef.NO_DEFAULT_VALUE, Range.atLeast(0),
                Importance.HIGH, "The broker's id; the broker gives it.")
            .define(CLUSTER, Type.STRING, ConfigDef.NO_DEFAULT_VALUE,
                new ConfigDef.NonEmptyString(), Importance.HIGH,
                "The Kafka cluster's id; the broker gives it.")
            .define(LOG_FOLDER, Type.STRING, null, Importance.HIGH,
                "The broker's first log folder; the broker gives it.")
            .define(BOOTSTRAP, Type.LIST, ConfigDef.NO_DEFAULT_VALUE,
                ConfigDef.LambdaValidator.with(
                    Settings::checkDoors, () -> "HOST:PORT,HOST:PORT,..."),
                Importance.HIGH, "hosts of the service, `HOST:PORT,HOST:PORT`; one that answers is "
                    + "enough, the others are learnt. `" + TLS_SCHEME
                    + "HOST:PORT,…`: they speak TLS")
            .define(MODE, Type.STRING, "tierledger",
                ConfigDef.ValidString.in("shadow", "handover", "tierledger"), Importance.HIGH,
                "by which manager the broker decides, see below: `shadow`, `handover`, "
                    + "`tierledger`")
            .define(CA, Type.STRING, null, Importance.MEDIUM,
                "authorities whose signature on a host's certificate counts, a PEM file; with TLS. "
                    + "None: Java's own list")
            .define(CERTIFICATE, Type.STRING, null, Importance.MEDIUM,
                "the broker's own certificate chain, a PEM file")
            .define(KEY, Type.STRING, null, Importance.MEDIUM, "its key, a PEM file")
            .define(TOKEN, Type.STRING, null, Importance.MEDIUM, "a file with the broker's token")
            .define(TOKEN_WITHOUT_TLS, Type.BOOLEAN, false, Importance.LOW,
                "whether the token may go to another machine unencrypted")
            .define(REPLICA_BYTES, Type.LONG, 0, Range.atLeast(0), Importance.LOW,
                "bytes of the broker's heap that the replicas of all partitions may take; about a "
                    + "partition for which there is no room the service is asked. 0: a quarter of "
                    + "the heap")
            .define(WRITE_TIMEOUT, Type.LONG, 30_000, Range.between(1_000, 3_600_000),
                Importance.LOW, "time after which a write fails")
            .define(FINISH_TIMEOUT, Type.LONG, 120_000, Range.between(1_000, 3_600_000),
                Importance.LOW,
                "the same for COPY_SEGMENT_FINISHED, whose failure costs an upload");
    }

    private static void checkDoors(String name, Object value) {
        List<?> doors = (List<?>) value;
        if (doors == null || doors.isEmpty()) {
            throw new ConfigException(name, value, "expected HOST:PORT,HOST:PORT,...");
        }
        for (Object door : doors) {
            String one = door == doors.get(0) ? withoutScheme((String) door) : (String) door;
            String port = one.substring(one.lastIndexOf(':') + 1);
            if (!one.matches(".+:0*[1-9][0-9]{0,4}") || Integer.parseInt(port) > 65535) {
                throw new ConfigException(name, value, "expected HOST:PORT, got " + door);
            }
        }
    }

    private static String withoutScheme(String door) {
        return door.replaceFirst("^tierledgers?://", "");
    }
}
