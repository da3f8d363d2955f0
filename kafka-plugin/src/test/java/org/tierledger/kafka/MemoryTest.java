package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.tierledger.door.v1.Ownership;
import org.tierledger.door.v1.Subscribe;

/** What outlives a broker's process. */
class MemoryTest {
    private static final TopicIdPartition TIP = new TopicIdPartition(new Uuid(1, 2), 3, "t");
    private static final ByteString HASH = ByteString.copyFromUtf8("= \n#hash");

    @TempDir
    Path folder;

    private Subscribe.Builder recalled() {
        Replica replica = new Replica();
        new Memory(folder.toString(), "c:1").recall(TIP, replica);
        return replica.subscription();
    }

    @Test
    void onlyPartitionsAreCounted() {
        Memory memory = new Memory(folder.toString(), "c:1");
        memory.note(Ownership.newBuilder().setEpoch(1).setReads("tierledger").build());
        assertEquals(0, memory.count(), "no ledger has fed a replica");
        memory.note(TIP, 41, HASH);
        assertEquals(1, memory.count());
    }

    @Test
    void aReplicaGoesOnFromWhereItWasInAnotherProcess() throws Exception {
        Memory memory = new Memory(folder.toString(), "c:1");
        memory.note(TIP, -1, ByteString.EMPTY);
        memory.write();
        assertFalse(Files.exists(memory.file), "there is nothing to remember");
        memory.note(TIP, 41, HASH);
        memory.write();

        Subscribe.Builder asked = recalled();
        assertEquals(41, asked.getPosition());
        assertEquals(41, asked.getFloor());
        assertEquals(HASH, asked.getChainHash());
        assertTrue(asked.getWithoutRows());

        Files.delete(memory.file);
        memory.note(TIP, 41, HASH);
        memory.write();
        assertFalse(Files.exists(memory.file), "nothing has changed");
        memory.forget(TIP);
        memory.write();
        assertFalse(recalled().hasPosition());
    }

    @Test
    void theLastOwnerIsKept() {
        Memory memory = new Memory(folder.toString(), "c:1");
        assertNull(memory.ownership());
        Ownership moved = Ownership.newBuilder().setEpoch(7).setReads("kafka").build();
        memory.note(moved);
        memory.write();

        assertEquals(moved, new Memory(folder.toString(), "c:1").ownership());
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "cluster=another", "x-0=", "x-0=41", "x-0=z aGFzaA==", "x-0=41 #", "\\uz"})
    void whatIsNotItsOwnIsNamed(String text) throws Exception {
        Path file = folder.resolve("tierledger.positions");
        Files.writeString(file, text);
        ConfigException error = assertThrows(
            ConfigException.class, () -> new Memory(folder.toString(), "c:1"));
        assertTrue(error.getMessage().contains(file.toString()), error::getMessage);
    }

    @Test
    void aBrokerThatHasNotSaidWhereRemembersNothing() {
        Memory memory = new Memory(null, "c");
        memory.note(TIP, 41, HASH);
        memory.write();
    }
}
