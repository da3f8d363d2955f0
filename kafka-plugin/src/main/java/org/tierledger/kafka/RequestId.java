package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import org.apache.kafka.common.Uuid;

/** The id of a call, by which the logs of tierledger's hosts name it, and errors here. */
final class RequestId {
    private RequestId() {
    }

    static ByteString random() {
        return Segments.bytes(Uuid.randomUuid());
    }

    /** In hexadecimal digits, as hosts' logs and {@code tierledger log} have it. */
    static String text(ByteString id) {
        StringBuilder text = new StringBuilder(2 * id.size());
        for (int at = 0; at < id.size(); at++) {
            text.append(Character.forDigit(id.byteAt(at) >> 4 & 15, 16))
                .append(Character.forDigit(id.byteAt(at) & 15, 16));
        }
        return text.toString();
    }

    /** The message with the id in it, once. */
    static String in(String message, ByteString id) {
        return id.isEmpty() || message.contains("(request ")
            ? message : message + " (request " + text(id) + ")";
    }
}
