package org.tierledger.kafka;

import java.util.Arrays;
import org.apache.kafka.common.Uuid;

/** Where the row of each segment id is: an open table of references into a slab. */
final class IdTable {
    static final int NONE = -1;

    private final Slab slab;
    private int[] table = empty(16);
    private int count;

    IdTable(Slab slab) {
        this.slab = slab;
    }

    int size() {
        return count;
    }

    /** Where the row of an id is, or {@link #NONE}. */
    int get(Uuid id) {
        return table[find(id)];
    }

    /** Put the reference of a row in place of that of the same id. */
    void put(Uuid id, int ref) {
        int at = find(id);
        if (table[at] == NONE && 3 * ++count > 2 * table.length) {
            int[] refs = refs();
            table = empty(2 * table.length);
            for (int one : refs) {
                table[find(idOf(one))] = one;
            }
            at = find(id);
        }
        table[at] = ref;
    }

    /** Take an id that is here away. */
    void remove(Uuid id) {
        int at = find(id);
        count--;
        table[at] = NONE;
        // What was pushed on by it moves up.
        for (at = next(at); table[at] != NONE; at = next(at)) {
            int ref = table[at];
            table[at] = NONE;
            table[find(idOf(ref))] = ref;
        }
    }

    /** All references, in no order. */
    int[] refs() {
        return Arrays.stream(table).filter(ref -> ref != NONE).toArray();
    }

    private Uuid idOf(int ref) {
        return Row.idAt(slab.chunk(ref), Slab.rowAt(ref));
    }

    /** Where the reference of an id is, or belongs. */
    private int find(Uuid id) {
        long mixed = (id.getMostSignificantBits() ^ id.getLeastSignificantBits())
            * 0x9e3779b97f4a7c15L;
        int at = (int) (mixed >>> 32) & table.length - 1;
        while (table[at] != NONE && !idOf(table[at]).equals(id)) {
            at = next(at);
        }
        return at;
    }

    private int next(int at) {
        return at + 1 & table.length - 1;
    }

    private static int[] empty(int size) {
        int[] table = new int[size];
        Arrays.fill(table, NONE);
        return table;
    }
}
