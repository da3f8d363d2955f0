package org.tierledger.kafka;

import java.util.HashMap;
import java.util.Map;
import org.tierledger.door.v1.Claim;
import org.tierledger.door.v1.ClientFrame;
import org.tierledger.door.v1.Expect;
import org.tierledger.door.v1.Fed;
import org.tierledger.door.v1.HostFrame;
import org.tierledger.door.v1.Subscribe;

/** Sends subscriptions to a host and receives feed items. */
final class FeedStream extends DoorStream {
    /** The receiver of a subscription's items. */
    interface Taker {
        /** Take the next item. */
        void given(Fed item);

        /** The stream has ended. */
        void lost(CallFailed why);
    }

    private long lastId;
    private final Map<Long, Taker> takers = new HashMap<>();
    private ClientFrame.Builder next = ClientFrame.newBuilder();

    FeedStream(String door, Loop loop, Settings settings) {
        super(door, "Feed", loop, settings);
    }

    /** Subscribe; returns the subscription's id. */
    long subscribe(Subscribe.Builder asked, Taker taker) {
        long id = ++lastId;
        takers.put(id, taker);
        next.addSubscribed(asked.setId(id));
        flush();
        return id;
    }

    /** Tell the host the subscription's new claim, from a newer announcement. */
    void expect(long id, Claim claim) {
        next.addExpected(Expect.newBuilder().setId(id).setClaim(claim));
        flush();
    }

    /** Unsubscribe; no effect on a subscription that has ended. */
    void drop(long id) {
        if (takers.remove(id) != null) {
            next.addUnsubscribed(id);
            flush();
        }
    }

    @Override
    ClientFrame nextFrame() {
        ClientFrame frame = next.build();
        next = ClientFrame.newBuilder();
        return frame.getSerializedSize() == 0 ? null : frame;
    }

    @Override
    void given(HostFrame frame) {
        for (Fed item : frame.getFedList()) {
            Taker taker = item.hasEnded() ? takers.remove(item.getId()) : takers.get(item.getId());
            if (taker != null) {
                taker.given(item);
            }
        }
    }

    @Override
    void onEnd(CallFailed why) {
        Map<Long, Taker> left = new HashMap<>(takers);
        takers.clear();
        left.values().forEach(taker -> taker.lost(why));
    }
}
