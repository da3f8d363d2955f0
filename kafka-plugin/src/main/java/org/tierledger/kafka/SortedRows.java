package org.tierledger.kafka;

import java.util.Arrays;

/** References of rows by an offset, which need not be unique; sorted when it is first read. */
final class SortedRows {
    private long[] keys = new long[4];
    private int[] refs = new int[4];
    private int head;
    private int count;
    private boolean isSorted = true;

    int size() {
        return count;
    }

    long key(int index) {
        return keys[head + index];
    }

    int ref(int index) {
        return refs[head + index];
    }

    /** All references by their offsets. */
    int[] refs() {
        sort();
        return Arrays.copyOfRange(refs, head, head + count);
    }

    /** Add without looking where it belongs: sorted all at once when that is asked. */
    void append(long key, int ref) {
        isSorted &= count == 0 || keys[head + count - 1] <= key;
        open(count);
        keys[head + count - 1] = key;
        refs[head + count - 1] = ref;
    }

    void add(long key, int ref) {
        int index = above(key);
        open(index);
        keys[head + index] = key;
        refs[head + index] = ref;
    }

    void remove(long key, int ref) {
        int index = find(key, ref);
        if (index < count / 2) {
            System.arraycopy(keys, head, keys, head + 1, index);
            System.arraycopy(refs, head, refs, head + 1, index);
            head++;
        } else {
            System.arraycopy(keys, head + index + 1, keys, head + index, count - index - 1);
            System.arraycopy(refs, head + index + 1, refs, head + index, count - index - 1);
        }
        count--;
    }

    /** The row has moved. */
    void replace(long key, int before, int after) {
        refs[head + find(key, before)] = after;
    }

    /** The number of rows at {@code key} or below. */
    int above(long key) {
        sort();
        int low = 0;
        int high = count;
        while (low < high) {
            int middle = low + high >>> 1;
            if (keys[head + middle] <= key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private int find(long key, int ref) {
        for (int index = above(key) - 1; index >= 0 && key(index) == key; index--) {
            if (ref(index) == ref) {
                return index;
            }
        }
        throw new IllegalStateException("a row is not where it was placed");
    }

    /** Make room at {@code index}, by moving what is shorter: the front or the back. */
    private void open(int index) {
        boolean isFront = index < count / 2;
        if (isFront ? head == 0 : head + count == keys.length) {
            int room = Math.max(4, count / 2);
            int newHead = isFront ? room : Math.min(head, room);
            long[] newKeys = new long[newHead + count + room];
            int[] newRefs = new int[newKeys.length];
            System.arraycopy(keys, head, newKeys, newHead, count);
            System.arraycopy(refs, head, newRefs, newHead, count);
            keys = newKeys;
            refs = newRefs;
            head = newHead;
        }
        if (isFront) {
            System.arraycopy(keys, head, keys, head - 1, index);
            System.arraycopy(refs, head, refs, head - 1, index);
            head--;
        } else {
            System.arraycopy(keys, head + index, keys, head + index + 1, count - index);
            System.arraycopy(refs, head + index, refs, head + index + 1, count - index);
        }
        count++;
    }

    private void sort() {
        if (isSorted) {
            return;
        }
        for (int root = count / 2 - 1; root >= 0; root--) {
            sink(root, count);
        }
        for (int end = count - 1; end > 0; end--) {
            swap(0, end);
            sink(0, end);
        }
        isSorted = true;
    }

    private void sink(int root, int end) {
        int parent = root;
        for (int child = 2 * parent + 1; child < end; child = 2 * parent + 1) {
            if (child + 1 < end && key(child) < key(child + 1)) {
                child++;
            }
            if (key(parent) >= key(child)) {
                return;
            }
            swap(parent, child);
            parent = child;
        }
    }

    private void swap(int one, int other) {
        long key = keys[head + one];
        keys[head + one] = keys[head + other];
        keys[head + other] = key;
        int ref = refs[head + one];
        refs[head + one] = refs[head + other];
        refs[head + other] = ref;
    }
}
