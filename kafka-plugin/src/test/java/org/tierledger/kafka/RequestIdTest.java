package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import com.google.protobuf.ByteString;
import org.junit.jupiter.api.Test;
import org.tierledger.door.v1.Failure;
import org.tierledger.door.v1.Kind;

/** An id is written as hosts write it, and once in an error. */
class RequestIdTest {
    private static final ByteString ID =
        ByteString.copyFrom(new byte[] {0, 10, (byte) 0xff, 0x7f});

    @Test
    void itIsWrittenInHexadecimalDigits() {
        assertEquals("000aff7f", RequestId.text(ID));
        assertEquals(16, RequestId.random().size());
        assertNotEquals(RequestId.random(), RequestId.random());
    }

    @Test
    void anErrorHasItOnceIfThereIsOne() {
        Failure failure = Failure.newBuilder()
            .setKind(Kind.FENCED).setMessage("replaced").setRequestId(ID).build();
        String message = CallFailed.of(failure).getMessage();

        assertEquals("FENCED: replaced (request 000aff7f)", message);
        assertEquals("t-0: " + message, RequestId.in("t-0: " + message, ID));
        assertEquals("t-0: late", RequestId.in("t-0: late", ByteString.EMPTY));
    }
}
