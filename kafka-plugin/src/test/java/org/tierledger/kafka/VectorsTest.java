package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.MessageLite;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Each golden message of the door's protocol reads as its text says, and writes the same. */
class VectorsTest {
    private static final Path VECTORS = Path.of("../tests/actors/door/vectors");

    static Stream<String> names() throws IOException {
        List<String> names = Files.list(VECTORS).map(path -> path.getFileName().toString())
            .filter(name -> name.endsWith(".hex")).map(name -> name.replace(".hex", ""))
            .sorted().collect(Collectors.toList());
        assertTrue(names.size() > 50);
        return names.stream();
    }

    @ParameterizedTest
    @MethodSource("names")
    void readsAndWritesTheSame(String name) throws Exception {
        byte[] bytes = FeedsTest.bytes(Files.readString(VECTORS.resolve(name + ".hex")).trim());
        String text = Files.readString(VECTORS.resolve(name + ".txtpb"));
        String type = text.lines().findFirst().orElseThrow()
            .replace("# tierledger.door.v1.", "org.tierledger.door.v1.").trim();
        MessageLite read = (MessageLite) Class.forName(type)
            .getMethod("parseFrom", byte[].class).invoke(null, (Object) bytes);
        assertArrayEquals(bytes, read.toByteArray());
        List<String> shown = fields(read.toString());
        for (String field : fields(text)) {
            assertTrue(shown.remove(field), () -> field + " is not in " + read);
        }
        // This protobuf also shows numbers of enums, and what is not set in lists.
        shown.removeIf(line -> line.matches("[a-z_]+: (0|false|\"\")|[a-z_]+_value: [0-9]+"));
        assertEquals(List.of(), shown);
    }

    /** The lines of the text, without those that say the type. */
    private static List<String> fields(String text) {
        return text.lines().map(String::trim).filter(line -> !line.startsWith("#"))
            .map(line -> line.replace("\\007", "\\a").replace("\\010", "\\b")
                .replace("\\013", "\\v").replace("\\014", "\\f"))
            .collect(Collectors.toCollection(ArrayList::new));
    }
}
