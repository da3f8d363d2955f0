package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Ownership;

/**
 * The positions of this broker's replicas, and the last owner of the cluster's metadata, in a
 * file that outlives the broker. So a ledger that is not the one that they came from is noticed
 * after a restart, too. Safe for threads.
 */
final class Memory {
    private static final String CLUSTER = "cluster";
    /** Written as a position is: releases that know no owner read it as one. */
    private static final String OWNER = "owner";

    private final Logger log = LoggerFactory.getLogger(Memory.class);
    /** Null: the broker's settings name no log folder, and positions are not kept. */
    final Path folder;
    final Path file;
    private final Properties places = new Properties();
    private volatile boolean isChanged;

    /** {@code folder}: the broker's log folder; null if its settings name none. */
    Memory(String folder, String clusterId) {
        this.folder = folder == null ? null : Path.of(folder);
        file = folder == null ? null : Path.of(folder, "tierledger.positions");
        if (file != null && Files.exists(file)) {
            try (InputStream in = Files.newInputStream(file)) {
                places.load(in);
                places.forEach((key, place) -> check((String) key, (String) place, clusterId));
            } catch (IOException | RuntimeException error) {
                throw new ConfigException(Settings.LOG_FOLDER, folder, "expected to read " + file
                    + " there, whose removal lets the broker take any ledger: " + error);
            }
        }
        places.put(CLUSTER, clusterId);
    }

    private static void check(String key, String place, String clusterId) {
        if (!key.equals(CLUSTER)) {
            positionIn(place);
            hashIn(place);
        } else if (!place.equals(clusterId)) {
            throw new IllegalArgumentException(
                "expected it to be of the cluster " + clusterId + ", got " + place);
        }
    }

    /** Give the partition's replica its saved position as floor, if one was saved. */
    void recall(TopicIdPartition tip, Replica replica) {
        String place = places.getProperty(key(tip)); // Properties are safe for threads.
        if (place != null) {
            replica.remember(positionIn(place), hashIn(place));
        }
    }

    void note(TopicIdPartition tip, long position, ByteString chainHash) {
        if (position >= 0) {
            put(key(tip), position, chainHash);
        }
    }

    private void put(String key, long number, ByteString bytes) {
        String place = number + " " + Base64.getEncoder().encodeToString(bytes.toByteArray());
        if (!place.equals(places.put(key, place))) {
            isChanged = true;
        }
    }

    /** Note by which manager this broker reads, in which owner epoch. */
    void note(Ownership ownership) {
        put(OWNER, ownership.getEpoch(), ownership.getReadsBytes());
    }

    /** The last ownership that was noted, with its epoch and reads; null if none was. */
    Ownership ownership() {
        String place = places.getProperty(OWNER);
        return place == null ? null : Ownership.newBuilder()
            .setEpoch(positionIn(place)).setReadsBytes(hashIn(place)).build();
    }

    void forget(TopicIdPartition tip) {
        if (places.remove(key(tip)) != null) {
            isChanged = true;
        }
    }

    /** The number of partitions whose position is remembered. */
    long count() {
        return places.keySet().stream()
            .filter(key -> !key.equals(CLUSTER) && !key.equals(OWNER)).count();
    }

    /** Make changes durable, atomically: after a crash the file is the old or the new one. */
    synchronized void write() {
        if (!isChanged || file == null) {
            return;
        }
        Path made = file.resolveSibling(file.getFileName() + ".tmp");
        isChanged = false;
        try (FileOutputStream out = new FileOutputStream(made.toFile())) {
            places.store(out, "What the plugin of tierledger was fed up to.");
            out.getFD().sync();
            Files.move(made, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            isChanged = true;
            log.warn("{} stays behind what the broker's replicas were fed", file, error);
        }
    }

    private static String key(TopicIdPartition tip) {
        return tip.topicId() + "-" + tip.partition();
    }

    private static long positionIn(String place) {
        return Long.parseLong(place.substring(0, place.indexOf(' ')));
    }

    private static ByteString hashIn(String place) {
        return ByteString.copyFrom(
            Base64.getDecoder().decode(place.substring(place.indexOf(' ') + 1)));
    }
}
