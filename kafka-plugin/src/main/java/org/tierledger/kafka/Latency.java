package org.tierledger.kafka;

import java.util.concurrent.atomic.AtomicLongArray;

/** How long something took, in buckets of which four double the time. Safe for threads. */
final class Latency {
    private final AtomicLongArray buckets = new AtomicLongArray(256);

    void add(long nanos) {
        int power = 63 - Long.numberOfLeadingZeros(Math.max(nanos, 4));
        buckets.incrementAndGet(4 * power + (int) (nanos >>> power - 2 & 3));
    }

    long count() {
        long count = 0;
        for (int i = 0; i < buckets.length(); i++) {
            count += buckets.get(i);
        }
        return count;
    }

    /** Milliseconds within which that share of all was done; up to a quarter too many. */
    double ms(double share) {
        double left = count() * share;
        int bucket = 0;
        while (bucket < buckets.length() - 1 && (left -= buckets.get(bucket)) > 0) {
            bucket++;
        }
        return left == 0 && bucket == 0 ? 0 : (5 + bucket % 4) * Math.pow(2, bucket / 4 - 2) / 1e6;
    }
}
