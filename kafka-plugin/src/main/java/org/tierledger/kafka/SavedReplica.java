package org.tierledger.kafka;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Iterator;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicIdPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Fed;

/**
 * A partition's replica as a file in the broker's log folder, so that a broker that restarts
 * while the service is away finds what it has tiered. The file has the items of a feed, so the
 * feed's checksum shows damage; a damaged file is as good as none. Safe for threads.
 */
final class SavedReplica {
    private static final Logger LOG = LoggerFactory.getLogger(SavedReplica.class);
    private static final String PREFIX = "tierledger.replica.";
    /** Writing a file takes at most one part in so many of the time. */
    private static final int SHARE = 100;

    private final TopicIdPartition tip;
    private final Replica replica;
    /** Null: the broker's settings name no log folder. */
    private final Path file;
    /** The replica's position in the file; -1: not known. */
    private long position = -1;
    private long dueAt = System.nanoTime();
    private volatile boolean isGone;

    SavedReplica(Path folder, TopicIdPartition tip, Replica replica) {
        this.tip = tip;
        this.replica = replica;
        file = folder == null ? null : folder.resolve(name(tip));
    }

    private static String name(TopicIdPartition tip) {
        return PREFIX + tip.topicId() + "-" + tip.partition();
    }

    /** Remove the files of partitions that left this broker while it was down. */
    static void sweep(Path folder, Stream<TopicIdPartition> hosted) {
        Set<String> kept = hosted.map(SavedReplica::name).collect(Collectors.toSet());
        try (DirectoryStream<Path> found = Files.newDirectoryStream(folder, PREFIX + "*")) {
            for (Path one : found) {
                if (!kept.contains(one.getFileName().toString())) {
                    Files.deleteIfExists(one);
                }
            }
        } catch (IOException | DirectoryIteratorException error) {
            LOG.warn("{} keeps files of partitions that this broker does not host: {}",
                folder, error.toString());
        }
    }

    /** Let the replica take what the file has, unless a host feeds it; whether it did. */
    synchronized boolean restore() {
        if (file == null || isGone) {
            return false;
        }
        Replica saved = new Replica();
        try (InputStream in = new BufferedInputStream(Files.newInputStream(file))) {
            for (Fed item = Fed.parseDelimitedFrom(in); item != null;
                item = Fed.parseDelimitedFrom(in)) {
                saved.take(item);
            }
            long when = Files.getLastModifiedTime(file).toMillis();
            if (!replica.adopt(saved, when)) {
                return false;
            }
            position = saved.position();
            LOG.info("{}: {} segments as of {} s ago serve reads until the service feeds the replica",
                tip, saved.count(),
                TimeUnit.MILLISECONDS.toSeconds(System.currentTimeMillis() - when));
            return true;
        } catch (NoSuchFileException none) {
            return false;
        } catch (IOException | RuntimeException error) {
            LOG.warn("{} cannot be read and is not used: {}", file, error.toString());
            return false;
        }
    }

    /** Write the replica if it has changed and a write is due. */
    synchronized void write() {
        if (System.nanoTime() - dueAt >= 0) {
            write(replica.position(), replica.items().orElse(null));
        }
    }

    /**
     * Write those items of the replica at {@code there}, if the file has not got them already.
     * After a crash the file is the old or the new one, or one that is damaged and not used.
     */
    synchronized void write(long there, Iterator<Fed> items) {
        if (file == null || items == null || there == position || isGone) {
            return;
        }
        long begun = System.nanoTime();
        Path made = file.resolveSibling(file.getFileName() + ".tmp");
        try {
            try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(made))) {
                while (items.hasNext()) {
                    items.next().writeDelimitedTo(out);
                }
            }
            Files.move(made, file, StandardCopyOption.ATOMIC_MOVE);
            position = there;
        } catch (IOException error) {
            LOG.warn("{} stays behind what the broker's replica has: {}", file, error.toString());
        }
        dueAt = System.nanoTime() + SHARE * (System.nanoTime() - begun);
        if (isGone) {
            delete();
        }
    }

    /** The broker no longer hosts the partition. */
    void delete() {
        isGone = true;
        try {
            if (file != null) {
                Files.deleteIfExists(file);
            }
        } catch (IOException error) {
            LOG.warn("{} is left though this broker does not host it: {}", file, error.toString());
        }
    }
}
