package org.tierledger.kafka;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.Arrays;

/**
 * Rows packed one behind the other in chunks of 1 MiB, which the garbage collector sees as a few
 * objects. A row does not change while it is here, so who holds a {@link #view} reads on beside
 * the thread that adds rows. Not safe for threads otherwise.
 */
final class Slab {
    private static final VarHandle LONG =
        MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);
    private static final VarHandle INT =
        MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
    private static final int CHUNK_BITS = 20;
    private static final int CHUNK = 1 << CHUNK_BITS;
    private static final int FIRST_CHUNK = 1024;
    /** Rows begin at multiples of 8 bytes, behind their length. */
    private static final int UNIT_BITS = 3;
    private static final int HEAD = 4;
    private static final int REF_BITS = CHUNK_BITS - UNIT_BITS;
    private static final int REF_MASK = (1 << REF_BITS) - 1;

    private byte[][] chunks = new byte[1][];
    private int[] used = new int[1];
    private int[] live = new int[1];
    private final ArrayDeque<Integer> free = new ArrayDeque<>();
    /** The chunk that takes further rows. */
    private int current;

    Slab() {
        chunks[0] = new byte[FIRST_CHUNK];
    }

    static long longAt(byte[] bytes, int at) {
        return (long) LONG.get(bytes, at);
    }

    static int rowAt(int ref) {
        return ((ref & REF_MASK) << UNIT_BITS) + HEAD;
    }

    static int chunkOf(int ref) {
        return ref >>> REF_BITS;
    }

    byte[] bytes(int ref) {
        return chunks[chunkOf(ref)];
    }

    int length(int ref) {
        return (int) INT.get(bytes(ref), rowAt(ref) - HEAD);
    }

    Row row(int ref) {
        return new Row(bytes(ref), rowAt(ref));
    }

    /** The chunks as they are now, for reading beside the thread that goes on changing rows. */
    byte[][] view() {
        return chunks.clone();
    }

    /** The bytes that chunks take. */
    long size() {
        long size = 0;
        for (byte[] chunk : chunks) {
            size += chunk == null ? 0 : chunk.length;
        }
        return size;
    }

    /** Copy a row; where it is from now on. */
    int put(byte[] row, int from, int length) {
        int needed = spanOf(length);
        if (used[current] + needed > CHUNK) {
            current = newChunk(Math.max(needed, CHUNK));
        } else if (used[current] + needed > chunks[current].length) {
            int size = Math.max(2 * chunks[current].length, used[current] + needed);
            chunks[current] = Arrays.copyOf(chunks[current], Math.min(size, CHUNK));
        }
        int at = used[current];
        INT.set(chunks[current], at, length);
        System.arraycopy(row, from, chunks[current], at + HEAD, length);
        used[current] += needed;
        live[current] += needed;
        return current << REF_BITS | at >>> UNIT_BITS;
    }

    /** The row counts no more. Whether its chunk is worth {@link #rowsOf moving} out of. */
    boolean drop(int ref) {
        int chunk = chunkOf(ref);
        live[chunk] -= spanOf(length(ref));
        return chunk != current && 2 * live[chunk] < used[chunk];
    }

    /** Where rows stood that were put into a chunk, whether they still count or not. */
    int[] rowsOf(int chunk) {
        int[] refs = new int[16];
        int count = 0;
        for (int at = 0; at < used[chunk]; ) {
            if (count == refs.length) {
                refs = Arrays.copyOf(refs, 2 * count);
            }
            int ref = chunk << REF_BITS | at >>> UNIT_BITS;
            refs[count++] = ref;
            at += spanOf(length(ref));
        }
        return Arrays.copyOf(refs, count);
    }

    /** Let go of a chunk of which no row counts any more. */
    void release(int chunk) {
        chunks[chunk] = null;
        used[chunk] = 0;
        live[chunk] = 0;
        free.push(chunk);
    }

    private int newChunk(int size) {
        Integer found = free.poll();
        int chunk = found != null ? found : chunks.length;
        if (found == null) {
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
