package org.tierledger.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.grpc.Status;
import java.net.ConnectException;
import java.security.cert.CertPathValidatorException;
import javax.net.ssl.SSLHandshakeException;
import org.junit.jupiter.api.Test;

/** Why a stream has ended is told in words that gRPC's developers did not write. */
class DoorStreamTest {
    private static Status unavailable(Throwable cause) {
        return Status.UNAVAILABLE.withDescription("io exception").withCause(cause);
    }

    @Test
    void aCauseThatIsKnownIsNamed() {
        Throwable untrusted = new SSLHandshakeException("PKIX path building failed")
            .initCause(new CertPathValidatorException("no such authority"));

        assertEquals("nothing listens there", DoorStream.reason(
            unavailable(new RuntimeException(new ConnectException("Connection refused")))));
        assertEquals("the TLS handshake with the host failed: java.security.cert."
            + "CertPathValidatorException: no such authority",
            DoorStream.reason(unavailable(untrusted)));
    }

    @Test
    void eachStatusHasWordsOfItsOwn() {
        for (Status.Code code : Status.Code.values()) {
            String reason =
                DoorStream.reason(Status.fromCode(code).withDescription("GOAWAY shut down"));
            assertFalse(reason.contains("GOAWAY"), reason);
        }
        assertEquals(
            "the server there is no host", DoorStream.reason(Status.UNIMPLEMENTED));
    }
}
