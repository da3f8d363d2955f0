package org.tierledger.kafka;

import org.tierledger.door.v1.Failure;
import org.tierledger.door.v1.Fate;
import org.tierledger.door.v1.Kind;

/** A call or a stream that failed. */
final class CallFailed extends Exception {
    final Kind kind;
    final Fate fate;

    CallFailed(Kind kind, Fate fate, String message) {
        super(message);
        this.kind = kind;
        this.fate = fate;
    }

    static CallFailed of(Failure failure) {
        Kind kind = failure.getKind();
        return new CallFailed(kind, failure.getFate(),
            RequestId.in(kind + ": " + failure.getMessage(), failure.getRequestId()));
    }

    /** The call was not sent, so a retry is safe. */
    static CallFailed notReady(String message) {
        return new CallFailed(Kind.NOT_READY, Fate.RETRYABLE, message);
    }

    /** The call was sent and not answered: it is in doubt. */
    static CallFailed unknown(String message) {
        return new CallFailed(Kind.OUTCOME_UNKNOWN, Fate.UNKNOWN, message);
    }
}
