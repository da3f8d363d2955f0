package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.Fed;
import org.tierledger.door.v1.SnapshotBegun;
import org.tierledger.door.v1.Subscribe;

/** A broker that restarts finds its replicas in its log folder. */
class SavedReplicaTest {
    private static final TopicIdPartition TIP = new TopicIdPartition(new Uuid(1, 2), 3, "t");
    private static final Claim CLAIM = Claim.newBuilder().setIncarnation(1).build();
    private static final int DAMAGED = 300;

    @TempDir
    Path folder;

    static Stream<Path> feeds() throws IOException {
        return FeedsTest.feeds();
    }

    private Path file() {
        return folder.resolve("tierledger.replica." + TIP.topicId() + "-3");
    }

    private SavedReplica saved(Replica replica) {
        return new SavedReplica(folder, TIP, replica);
    }

    private static List<Replica> whole(Path feed) throws IOException {
        return FeedsTest.fed(feed).values().stream().filter(Replica::isWhole)
            .collect(Collectors.toList());
    }

    @ParameterizedTest
    @MethodSource("feeds")
    void itAnswersAsTheReplicaThatWasSaved(Path feed) throws Exception {
        List<Replica> all = whole(feed);
        assertTrue(all.size() > 0);
        for (Replica replica : all) {
            saved(replica).write();
            Replica restored = new Replica();
            restored.remember(replica.position(), ByteString.EMPTY);
            assertTrue(saved(restored).restore());
            assertTrue(restored.savedAt() > 0);
            assertFalse(restored.isReady());
            Subscribe.Builder wanted = restored.subscription();
            assertEquals(replica.position(), wanted.getPosition());
            assertFalse(wanted.getWithoutRows(), "it goes on from there");
            List<String> found = FeedsTest.answers(feed, restored).stream()
                .filter(one -> !one.equals("NotReady")).collect(Collectors.toList());

            replica.expect(CLAIM);
            replica.ready(CLAIM);
            restored.expect(CLAIM);
            restored.ready(CLAIM);
            List<String> expected = FeedsTest.answers(feed, replica);
            assertEquals(expected, FeedsTest.answers(feed, restored));
            assertTrue(expected.containsAll(found), "what it found before it was ready");
            assertEquals(0, restored.savedAt());
        }
    }

    @ParameterizedTest
    @MethodSource("feeds")
    void damageIsNeverTakenForARow(Path feed) throws Exception {
        SplittableRandom random = new SplittableRandom(7);
        for (Replica replica : whole(feed).subList(0, 1)) {
            List<String> expected = FeedsTest.answers(feed, replica);
            saved(replica).write();
            byte[] bytes = Files.readAllBytes(file());
            for (int i = 0; i < DAMAGED; i++) {
                byte[] damaged = bytes.clone();
                damaged[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
                Files.write(file(), i % 2 == 0 ? damaged
                    : Arrays.copyOf(bytes, random.nextInt(bytes.length)));
                Replica restored = new Replica();
                restored.remember(0, ByteString.EMPTY);
                if (saved(restored).restore()) { // The id of an item is not looked at.
                    restored.ready(null);
                    assertEquals(expected.size(), FeedsTest.answers(feed, restored).size());
                    assertTrue(restored.isWhole());
                } else {
                    assertEquals(-1, restored.position());
                }
            }
        }
    }

    @Test
    void aHostThatFeedsIsBelievedMoreThanAFile() throws Exception {
        Replica fed = whole(feeds().findFirst().orElseThrow()).get(0);
        saved(fed).write();
        Replica replica = new Replica();
        replica.remember(0, ByteString.EMPTY);
        replica.take(Fed.newBuilder().setSnapshot(
            SnapshotBegun.newBuilder().setPosition(fed.position() + 1)).build());

        assertFalse(saved(replica).restore());
        assertFalse(replica.isWhole());
    }

    @Test
    void whoRemovesThePositionsLetsTheBrokerTakeAnyLedger() throws Exception {
        Replica fed = whole(feeds().findFirst().orElseThrow()).get(0);
        saved(fed).write();

        assertFalse(saved(new Replica()).restore());
    }

    @Test
    void aFileOfAnEarlierPositionFindsSegmentsUntilAHostSendsAll() throws Exception {
        Replica fed = whole(feeds().findFirst().orElseThrow()).get(0);
        saved(fed).write();
        Replica replica = new Replica();
        replica.remember(fed.position() + 5, ByteString.copyFromUtf8("hash"));
        assertTrue(saved(replica).restore());

        assertEquals(fed.count(), replica.count());
        assertThrows(Replica.NotReady.class, replica::listAll);
        Subscribe.Builder wanted = replica.subscription();
        assertEquals(fed.position() + 5, wanted.getPosition());
        assertEquals("hash", wanted.getChainHash().toStringUtf8());
        assertTrue(wanted.getWithoutRows());
    }

    @Test
    void filesOfPartitionsThatAreNotHostedAreRemoved() throws Exception {
        Replica fed = whole(feeds().findFirst().orElseThrow()).get(0);
        SavedReplica stopped = saved(fed);
        stopped.write();
        stopped.delete();
        stopped.write(0, fed.items().orElseThrow());
        assertFalse(Files.exists(file()));

        saved(fed).write();
        Path other = folder.resolve("tierledger.replica.AAAAAAAAAAEAAAAAAAAAAg-7");
        List<Path> kept = List.of(file(), folder.resolve("tierledger.positions"));
        for (Path one : List.of(other, kept.get(1))) {
            Files.writeString(one, "x");
        }
        SavedReplica.sweep(folder, Stream.of(TIP));
        kept.forEach(one -> assertTrue(Files.exists(one)));
        assertFalse(Files.exists(other));
    }

    @Test
    void withoutAFolderNothingIsSaved() throws Exception {
        Replica fed = whole(feeds().findFirst().orElseThrow()).get(0);
        SavedReplica nowhere = new SavedReplica(null, TIP, fed);
        nowhere.write();
        nowhere.delete();
        assertFalse(nowhere.restore());
    }
}
