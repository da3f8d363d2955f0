package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import org.apache.kafka.common.Uuid;
import org.bouncycastle.crypto.digests.Blake2bDigest;

/** Sums of BLAKE2b hashes with 128 bits, unkeyed, modulo 2^128: the checksum of a replica. */
final class HashSum {
    private final Blake2bDigest digest = new Blake2bDigest(128);
    private final ByteBuffer hash = ByteBuffer.allocate(16);

    /** The sum so far, its upper and its lower half. */
    private long high;
    private long low;

    void add(byte[] data) {
        hash(data);
        add(hash.getLong(0), hash.getLong(8));
    }

    void remove(byte[] data) {
        hash(data);
        long less = hash.getLong(8);
        add(~hash.getLong(0) + (less == 0 ? 1 : 0), -less);
    }

    /** Add another sum. */
    void add(HashSum other) {
        add(other.high, other.low);
    }

    private void add(long moreHigh, long moreLow) {
        low += moreLow;
        high += moreHigh + (Long.compareUnsigned(low, moreLow) < 0 ? 1 : 0);
    }

    /** The sum, big-endian. */
    ByteString sum() {
        return Segments.bytes(new Uuid(high, low));
    }

    private void hash(byte[] data) {
        digest.update(data, 0, data.length);
        digest.doFinal(hash.array(), 0);
    }
}
