package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;
import org.junit.jupiter.api.Test;

/** README.md has the tables that the code gives. */
class DocumentsTest {
    private static void assertInReadme(String table) throws Exception {
        assertTrue(Files.readString(Path.of("README.md")).contains(table), () ->
            "expected in README.md:\n" + table);
    }

    @Test
    void settings() throws Exception {
        assertInReadme(Settings.definition().configKeys().values().stream()
            .filter(key -> key.name.startsWith("tierledger."))
            .map(key -> "| `" + key.name + "` | " + text(key) + "| " + key.documentation + " |\n")
            .collect(Collectors.joining(
                "", "| key, behind `rlmm.config.` | default | what it is |\n|---|---|---|\n",
                "\n")));
    }

    private static String text(ConfigDef.ConfigKey key) {
        return key.defaultValue == null || !key.hasDefault() ? "" : key.defaultValue + " ";
    }

    @Test
    void metrics() throws Exception {
        assertInReadme(new Metrics(null).shown.entrySet().stream()
            .map(one -> "| `" + one.getKey() + "` | " + one.getValue().getKey() + " |\n")
            .collect(Collectors.joining(
                "", "| attribute | what it is |\n|---|---|\n", "\n")));
    }
}
