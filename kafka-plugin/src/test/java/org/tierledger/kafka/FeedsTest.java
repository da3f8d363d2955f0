package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Fed;

/** Replicas answer all questions of recorded feeds as the Python model does. */
class FeedsTest {
    private static final TopicIdPartition TIP = new TopicIdPartition(new Uuid(1, 2), 0, "t");

    private final Segments segments = new Segments();
    private final Map<String, Replica> replicas = new HashMap<>();

    static Stream<Path> feeds() throws IOException {
        Path folder = Path.of(System.getProperty("tierledger.feeds", "src/test/resources/feeds"));
        List<Path> found = Files.list(folder).sorted().collect(Collectors.toList());
        assertTrue(found.size() > 0);
        return found.stream();
    }

    @ParameterizedTest
    @MethodSource("feeds")
    void answersAsTheModel(Path feed) throws IOException {
        int asked = 0;
        for (String line : lines(feed)) {
            String[] words = line.split(" ", 3);
            if (words[0].equals("partition")) {
                Replica replica = new Replica();
                replica.expect(Claim.parseFrom(bytes(words[2])));
                replicas.put(words[1], replica);
            } else if (words[0].equals("fed")) {
                take(replicas.get(words[1]), Fed.parseFrom(bytes(words[2])));
            } else {
                int equals = words[2].indexOf(" = ");
                String question = words[2].substring(0, equals);
                assertEquals(
                    words[2].substring(equals + 3), answer(replicas.get(words[1]), question),
                    () -> feed + ": " + question);
                asked++;
            }
        }
        assertTrue(asked > 100);
    }

    @ParameterizedTest
    @MethodSource("feeds")
    void noticesWhatIsMissing(Path feed) throws IOException {
        Replica replica = new Replica();
        boolean isRefused = false;
        for (String line : lines(feed)) {
            if (!line.startsWith("fed 0")) {
                continue;
            }
            Fed item = Fed.parseFrom(bytes(line.split(" ")[2]));
            if (item.hasSlice() && item.getSlice().getContents().getRowsCount() > 0) {
                Fed.Builder less = item.toBuilder();
                less.setSlice(item.getSlice().toBuilder().setContents(
                    item.getSlice().getContents().toBuilder().clearRows()));
                item = less.build();
            }
            if (item.hasChange() && item.getChange().getContents().getRowsCount() > 0) {
                Fed.Builder less = item.toBuilder();
                less.setChange(item.getChange().toBuilder().setContents(
                    item.getChange().getContents().toBuilder().clearRows()));
                item = less.build();
            }
            try {
                assertNull(replica.take(item));
            } catch (IllegalStateException missed) {
                assertEquals(-1, replica.position());
                isRefused = true;
                break;
            }
        }
        assertTrue(isRefused);
    }

    /** The replicas of a feed as it ends, by their names there. */
    static Map<String, Replica> fed(Path feed) throws IOException {
        Map<String, Replica> fed = new HashMap<>();
        for (String line : lines(feed)) {
            String[] words = line.split(" ", 3);
            if (words[0].equals("partition")) {
                Replica replica = new Replica();
                replica.expect(Claim.parseFrom(bytes(words[2])));
                fed.put(words[1], replica);
            } else if (words[0].equals("fed")) {
                take(fed.get(words[1]), Fed.parseFrom(bytes(words[2])));
            }
        }
        return fed;
    }

    /** A replica's answers to all questions of a feed, whichever partition they were about. */
    static List<String> answers(Path feed, Replica replica) throws IOException {
        FeedsTest asking = new FeedsTest();
        return lines(feed).stream().map(line -> line.split(" ", 3))
            .filter(words -> !words[0].equals("partition") && !words[0].equals("fed"))
            .map(words -> asking.answer(replica, words[2].substring(0, words[2].indexOf(" = "))))
            .collect(Collectors.toList());
    }

    private static void take(Replica replica, Fed item) {
        assertNull(replica.take(item));
    }

    private String answer(Replica replica, String question) {
        String[] words = question.split(" ");
        int epoch = Integer.parseInt(words[1]);
        long offset = Long.parseLong(words[2]);
        try {
            switch (words[0]) {
                case "lookup": return text(replica.lookup(epoch, offset));
                case "next_txn": return text(replica.nextWithTxnIndex(epoch, offset));
                case "highest_offset": return none(replica.highest(epoch));
                case "size": return String.valueOf(replica.size(epoch));
                case "list_epoch": return replica.listEpoch(epoch).map(row -> hex(row.id))
                    .collect(Collectors.joining(","));
                default:
                    return replica.listAll().map(this::text).sorted()
                        .collect(Collectors.joining(";"));
            }
        } catch (Replica.NotReady error) {
            return "NotReady";
        } catch (Replica.Deleted error) {
            return "PartitionDeleted";
        }
    }

    /** The segment as Kafka's object, and the one field that its 3.9 does not have. */
    private String text(Row row) {
        if (row == null) {
            return "None";
        }
        RemoteLogSegmentMetadata metadata = segments.metadata(TIP, row);
        String epochs = metadata.segmentLeaderEpochs().entrySet().stream()
            .map(one -> one.getKey() + ":" + one.getValue()).collect(Collectors.joining("+"));
        Optional<String> custom = metadata.customMetadata().map(
            one -> one.value().length == 0 ? "empty" : hex(one.value()));
        return Stream.of(
                hex(metadata.remoteLogSegmentId().id()),
                metadata.state().id(), metadata.startOffset(), metadata.endOffset(), epochs,
                metadata.segmentSizeInBytes(), metadata.maxTimestampMs(), metadata.brokerId(),
                metadata.eventTimestampMs(), custom.orElse("None"),
                row.isTxnIndexEmpty ? "True" : "False")
            .map(Object::toString).collect(Collectors.joining("/"));
    }

    private static String none(Long number) {
        return number == null ? "None" : number.toString();
    }

    private static String hex(Uuid id) {
        return String.format(
            "%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static List<String> lines(Path feed) throws IOException {
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(
                new GZIPInputStream(Files.newInputStream(feed))))) {
            return reader.lines().collect(Collectors.toList());
        }
    }
}
