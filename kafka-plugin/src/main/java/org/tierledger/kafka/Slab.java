package org.tierledger.kafka;

import com.google.protobuf.ByteString;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.function.IntFunction;
import java.util.stream.IntStream;

/**
 * Rows packed one after the other in chunks. The garbage collector sees a few objects, none so
 * large that each would get regions of its own. A row does not change while it is here, so the
 * holder of a {@link #view} can read while another thread adds rows. Otherwise not safe for
 * threads.
 */
final class Slab {
    private static final VarHandle INT =
        MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
    private static final int CHUNK_BITS = 18;
    private static final int CHUNK = 1 << CHUNK_BITS;
    private static final int FIRST_CHUNK = 1024;
    /** Entries begin at multiples of 8 bytes: the row's length, then the row. */
    private static final int UNIT_BITS = 3;
    private static final int HEAD = 4;
    private static final int REF_BITS = CHUNK_BITS - UNIT_BITS;
    private static final int REF_MASK = (1 << REF_BITS) - 1;
    private static final int RECENT_BITS = 12;
    /** The rows of all slabs that were looked up last, since brokers repeat lookups. */
    private static final Recent[] RECENT = new Recent[1 << RECENT_BITS];

    private byte[][] chunks = {new byte[FIRST_CHUNK]};
    private int[] used = new int[1];
    private int[] live = new int[1];
    /** The chunk that takes further rows. */
    private int current;
    /** Replaced when a chunk is released: its references may then name other rows. */
    private Object generation = new Object();

    private static final class Recent {
        final Object generation;
        final int ref;
        final Row row;

        Recent(Object generation, int ref, Row row) {
            this.generation = generation;
            this.ref = ref;
            this.row = row;
        }
    }

    static int rowAt(int ref) {
        return ((ref & REF_MASK) << UNIT_BITS) + HEAD;
    }

    static int chunkOf(int ref) {
        return ref >>> REF_BITS;
    }

    byte[] chunk(int ref) {
        return chunks[chunkOf(ref)];
    }

    private int length(int ref) {
        return (int) INT.get(chunk(ref), rowAt(ref) - HEAD);
    }

    Row row(int ref) {
        return new Row(chunk(ref), rowAt(ref));
    }

    /** The same, and the same object again if it was read a moment ago. */
    Row recent(int ref) {
        int slot = (ref ^ System.identityHashCode(generation)) * 0x9e3779b1 >>> -RECENT_BITS;
        Recent found = RECENT[slot];
        if (found == null || found.ref != ref || found.generation != generation) {
            found = new Recent(generation, ref, row(ref));
            RECENT[slot] = found;
        }
        return found.row;
    }

    byte[] bytes(int ref) {
        return Arrays.copyOfRange(chunk(ref), rowAt(ref), rowAt(ref) + length(ref));
    }

    /** Reads rows as they are now, also while another thread changes the slab. */
    IntFunction<Row> view() {
        byte[][] now = chunks.clone();
        return ref -> new Row(now[chunkOf(ref)], rowAt(ref));
    }

    /** Copies rows as they are now, also while another thread changes the slab. */
    IntFunction<ByteString> copies() {
        byte[][] now = chunks.clone();
        return ref -> {
            byte[] chunk = now[chunkOf(ref)];
            return ByteString.copyFrom(
                chunk, rowAt(ref), (int) INT.get(chunk, rowAt(ref) - HEAD));
        };
    }

    /** Bytes of all chunks. */
    long size() {
        long size = 0;
        for (byte[] chunk : chunks) {
            size += chunk == null ? 0 : chunk.length;
        }
        return size;
    }

    /** Copy a row into the slab; returns its reference. */
    int put(byte[] row) {
        int needed = spanOf(row.length);
        if (used[current] + needed > CHUNK) {
            current = newChunk(Math.max(needed, CHUNK));
        } else if (used[current] + needed > chunks[current].length) {
            int size = Math.max(2 * chunks[current].length, used[current] + needed);
            chunks[current] = Arrays.copyOf(chunks[current], Math.min(size, CHUNK));
        }
        int at = used[current];
        INT.set(chunks[current], at, row.length);
        System.arraycopy(row, 0, chunks[current], at + HEAD, row.length);
        used[current] += needed;
        live[current] += needed;
        return current << REF_BITS | at >>> UNIT_BITS;
    }

    /** Mark a row as dead; whether so few are left that its chunk is worth emptying. */
    boolean drop(int ref) {
        int chunk = chunkOf(ref);
        live[chunk] -= spanOf(length(ref));
        return chunk != current && 2 * live[chunk] < used[chunk];
    }

    /** References of all rows that were put into a chunk, live or dead. */
    int[] rowsOf(int chunk) {
        return IntStream.iterate(
            chunk << REF_BITS, ref -> rowAt(ref) - HEAD < used[chunk] && chunkOf(ref) == chunk,
            ref -> ref + (spanOf(length(ref)) >>> UNIT_BITS)).toArray();
    }

    /** Free a chunk that has no live row. */
    void release(int chunk) {
        chunks[chunk] = null;
        used[chunk] = 0;
        live[chunk] = 0;
        generation = new Object();
    }

    private int newChunk(int size) {
        int chunk = Arrays.asList(chunks).indexOf(null);
        if (chunk < 0) {
            chunk = chunks.length;
            chunks = Arrays.copyOf(chunks, chunk + 1);
            used = Arrays.copyOf(used, chunk + 1);
            live = Arrays.copyOf(live, chunk + 1);
        }
        chunks[chunk] = new byte[size];
        return chunk;
    }

    private static int spanOf(int length) {
        return length + HEAD + (1 << UNIT_BITS) - 1 >>> UNIT_BITS << UNIT_BITS;
    }
}
