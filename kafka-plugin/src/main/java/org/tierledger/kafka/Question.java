package org.tierledger.kafka;

import java.util.Objects;
import org.apache.kafka.common.TopicIdPartition;
import org.tierledger.door.v1.QuestionKind;

/** What a broker asks about a partition; the kind says what the rest means. */
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

    @Override
    public String toString() {
        return kind + " of " + tip + " in epoch " + epoch + " at " + offset;
    }
}
