package org.tierledger.kafka;

import java.util.Arrays;
import java.util.stream.IntStream;

/** References of rows by a key, which need not be unique; sorted when first read. */
final class SortedRows {
    static final int NONE = -1;

    private long[] keys = new long[4];
    private int[] refs = new int[4];
    private int head;
    private int count;
    /** Until the first read rows are appended: sorting once is cheaper than inserting. */
    private boolean isSorted;

    /** All references, by ascending key. */
    IntStream refs() {
        sort();
        return Arrays.stream(refs, head, head + count);
    }

    /** The reference of the highest key that is at most {@code key}, or {@link #NONE}. */
    int floor(long key) {
        int at = above(key) - 1;
        return at < head ? NONE : refs[at];
    }

    void add(long key, int ref) {
        int behind = isSorted ? head + count - above(key) : 0;
        if (head + count == keys.length) {
            int end = head + count + Math.max(4, count / 4);
            keys = Arrays.copyOfRange(keys, head, end);
            refs = Arrays.copyOfRange(refs, head, end);
            head = 0;
        }
        int at = head + count++ - behind;
        move(at, at + 1, behind);
        keys[at] = key;
        refs[at] = ref;
    }

    void remove(long key, int ref) {
        int at = above(key) - 1;
        while (refs[at] != ref) {
            if (at == head || keys[--at] != key) {
                throw new IllegalStateException("a row is not where it was placed");
            }
        }
        count--;
        if (at - head < count / 2) {
            move(head, head + 1, at - head);
            head++;
        } else {
            move(at + 1, at, head + count - at);
        }
    }

    /** The index after the last entry whose key is at most {@code key}. */
    private int above(long key) {
        sort();
        int at = Arrays.binarySearch(keys, head, head + count, key);
        if (at < 0) {
            return -1 - at;
        }
        while (at < head + count && keys[at] == key) {
            at++;
        }
        return at;
    }

    private void move(int from, int to, int length) {
        System.arraycopy(keys, from, keys, to, length);
        System.arraycopy(refs, from, refs, to, length);
    }

    private void sort() {
        if (isSorted) {
            return;
        }
        long[] sorted = Arrays.copyOfRange(keys, head, head + count);
        Arrays.sort(sorted);
        int[] placed = new int[count];
        Arrays.fill(placed, NONE);
        for (int i = head; i < head + count; i++) {
            int at = Arrays.binarySearch(sorted, keys[i]);
            while (at > 0 && sorted[at - 1] == keys[i]) {
                at--;
            }
            while (placed[at] != NONE) {
                at++;
            }
            placed[at] = refs[i];
        }
        keys = sorted;
        refs = placed;
        head = 0;
        isSorted = true;
    }
}
