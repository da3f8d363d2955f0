package org.tierledger.kafka;

import java.util.Objects;
import org.apache.kafka.common.TopicIdPartition;
import org.tierledger.door.v1.QuestionKind;

/** A broker's question about a partition; its kind tells which of the fields it uses. */
final class Question {
    final QuestionKind kind;
    final TopicIdPartition tip;
    final int epoch;
    final long offset;

    Question(QuestionKind kind, TopicIdPartition tip, int epoch, long offset) {
        this.kind = kind;
        this.tip = Objects.requireNonNull(tip, "topicIdPartition");
        this.epoch = epoch;
        this.offset = offset;
    }

    /** Whether the answer is a segment or none. */
    boolean isOfSegment() {
        return kind == QuestionKind.LOOKUP || kind == QuestionKind.NEXT_TXN_SEGMENT;
    }

    @Override
    public String toString() {
        return kind + " of " + tip + " in epoch " + epoch + " at " + offset;
    }
}
