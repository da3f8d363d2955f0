package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.impl.StaticLoggerBinder;

/** Neither token nor key is in a line of any log, at whatever level. */
@Timeout(60)
class SecretsTest {
    private static final byte[] SETTINGS = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    private static final int HEADERS = 1;

    @TempDir
    Path folder;

    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord line) {
            StaticLoggerBinder.LINES.add(line.getMessage() + line.getThrown());
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    /** Done when a client has sent the headers of a call. */
    private static CompletableFuture<Void> headersAt(ServerSocket server) {
        return CompletableFuture.runAsync(() -> {
            try (Socket client = server.accept()) {
                client.getOutputStream().write(SETTINGS);
                DataInputStream input = new DataInputStream(client.getInputStream());
                input.readNBytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".length());
                int type;
                do {
                    int length = input.readUnsignedByte() << 16 | input.readUnsignedShort();
                    type = input.readUnsignedByte();
                    input.readNBytes(5 + length);
                } while (type != HEADERS);
            } catch (IOException error) {
                throw new AssertionError(error);
            }
        });
    }

    @Test
    void noLineHasThem() throws Exception {
        Path token = Files.writeString(folder.resolve("token"), "hush-token");
        Path key = Files.writeString(
            folder.resolve("key"), "-----BEGIN PRIVATE KEY-----\nhush+key\n");
        Logger root = Logger.getLogger("");
        root.setLevel(Level.ALL);
        root.addHandler(handler);
        StaticLoggerBinder.isKeeping = true;
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            String door = "127.0.0.1:" + server.getLocalPort();
            CompletableFuture<Void> sent = headersAt(server);
            try (TierledgerRemoteLogMetadataManager manager =
                    new TierledgerRemoteLogMetadataManager()) {
                manager.configure(Map.of(
                    "broker.id", 1, "cluster.id", "c", "tierledger.bootstrap", door,
                    "tierledger.token.location", token.toString()));
                sent.get(30, TimeUnit.SECONDS);
            }
            try (TierledgerRemoteLogMetadataManager manager =
                    new TierledgerRemoteLogMetadataManager()) {
                manager.configure(Map.of(
                    "broker.id", 1, "cluster.id", "c",
                    "tierledger.bootstrap", "tierledgers://" + door,
                    "tierledger.ssl.certificate.location", key.toString(),
                    "tierledger.ssl.key.location", key.toString(),
                    "tierledger.token.location", token.toString()));
                while (StaticLoggerBinder.LINES.stream().noneMatch(
                        line -> line.contains("No host of tierledger answers; the last: {}" + door)
                            && line.contains("a file of the plugin's settings"))) {
                    Thread.sleep(5);
                }
            }
        } finally {
            StaticLoggerBinder.isKeeping = false;
            root.removeHandler(handler);
            root.setLevel(Level.INFO);
        }
        assertTrue(StaticLoggerBinder.LINES.stream().anyMatch(line -> line.contains(".grpc.")
            || line.contains("Transport")), "the connections say what they do");
        for (String line : StaticLoggerBinder.LINES) {
            assertFalse(line.matches("(?s).*hush.(token|key).*"), line);
        }
        StaticLoggerBinder.LINES.clear();
    }
}
