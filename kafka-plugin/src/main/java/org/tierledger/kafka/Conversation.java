package org.tierledger.kafka;

import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.tierledger.door.v1.Answer;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.ClientFrame;
import org.tierledger.door.v1.HostFrame;
import org.tierledger.door.v1.StatusQuestion;

/** Sends calls to a host and receives answers; calls that wait together share a frame. */
final class Conversation extends DoorStream {
    private static final int FRAME_CALLS = 1_000;
    private static final int FRAME_BYTES = 512 * 1024;
    private static final long QUIET_MS = 1_000;
    private static final long SILENT_MS = 3_000;

    private long lastId;
    private final ArrayDeque<Call> waiting = new ArrayDeque<>();
    private final Map<Long, CompletableFuture<Answer>> owed = new LinkedHashMap<>();

    Conversation(String door, Loop loop, Settings settings) {
        super(door, "Converse", loop, settings);
        opened.thenRun(() -> watch(heard));
    }

    /**
     * The answer to a call; a failure is a {@link CallFailed}. A caller that stops waiting need
     * not cancel. A call without an id gets one.
     */
    CompletableFuture<Answer> ask(Call.Builder call) {
        CompletableFuture<Answer> answer = new CompletableFuture<>();
        if (!isOpen()) {
            answer.completeExceptionally(CallFailed.notReady(door + " is not open"));
            return answer;
        }
        if (!call.hasWrite() && call.getRequestId().isEmpty()) {
            call.setRequestId(RequestId.random());
        }
        Call made = call.setId(++lastId).build();
        if (made.getSerializedSize() > greeting.getFrameBytesMax() - 16) {
            answer.completeExceptionally(new CallFailed(
                org.tierledger.door.v1.Kind.INVALID_ARGUMENT,
                org.tierledger.door.v1.Fate.REJECTED,
                "expected a call of at most " + (greeting.getFrameBytesMax() - 16)
                    + " bytes, got one of " + made.getSerializedSize()));
            return answer;
        }
        owed.put(made.getId(), answer);
        waiting.add(made);
        flush();
        return answer;
    }

    /** End the stream if its host owes answers, is silent, and does not answer a ping. */
    private void watch(long before) {
        loop.after(QUIET_MS, () -> {
            if (!isOpen()) {
                return;
            }
            long now = heard;
            if (now > before || owed.isEmpty() || sent() >= greeting.getCallsMax()) {
                watch(now);
                return;
            }
            ask(Call.newBuilder().setDeadlineMs((int) SILENT_MS).setHost(greeting.getHost())
                .setStatus(StatusQuestion.newBuilder().setOf(StatusQuestion.Of.HOST)));
            loop.after(SILENT_MS, () -> {
                // Calls that were sent before the ping may have filled the host meanwhile.
                if (heard == now && sent() <= greeting.getCallsMax()) {
                    end(CallFailed.notReady(
                        "the host has sent nothing for " + SILENT_MS + " ms"));
                }
                watch(heard);
            });
        });
    }

    /** Calls that the host owes answers for; at as many as it allows it reads no further. */
    private int sent() {
        return owed.size() - waiting.size();
    }

    @Override
    ClientFrame nextFrame() {
        if (waiting.isEmpty()) {
            return null;
        }
        ClientFrame.Builder frame = ClientFrame.newBuilder();
        int size = 0;
        while (!waiting.isEmpty() && frame.getCallsCount() < FRAME_CALLS
            && (size == 0 || size + waiting.peek().getSerializedSize() <= FRAME_BYTES)) {
            size += waiting.peek().getSerializedSize();
            frame.addCalls(waiting.poll());
        }
        return frame.build();
    }

    @Override
    void given(HostFrame frame) {
        for (Answer answer : frame.getAnswersList()) {
            CompletableFuture<Answer> asked = owed.remove(answer.getId());
            if (asked != null && answer.hasFailure()) {
                asked.completeExceptionally(CallFailed.of(answer.getFailure()));
            } else if (asked != null) {
                asked.complete(answer);
            }
        }
    }

    @Override
    void onEnd(CallFailed why) {
        // Frames are filled in the order of ids, so the calls that wait have the highest. Any
        // other may have reached the host: whether it was carried out, nobody here knows.
        long sent = waiting.isEmpty() ? lastId : waiting.peek().getId() - 1;
        waiting.clear();
        Map<Long, CompletableFuture<Answer>> left = new LinkedHashMap<>(owed);
        owed.clear();
        left.forEach((id, asked) -> asked.completeExceptionally(id > sent
            ? CallFailed.notReady(why.getMessage()) : CallFailed.unknown(why.getMessage())));
    }
}
