package org.tierledger.kafka;

import java.util.Arrays;
import org.apache.kafka.common.Uuid;

/** Finds rows by segment id: a hash table with open addressing, of references into a slab. */
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

    /** The reference of an id's row, or {@link #NONE}. */
    int get(Uuid id) {
        return table[find(id)];
    }

    /** Add a row's reference, or replace the one of the same id. */
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

    /** Remove an id, which must be here. */
    void remove(Uuid id) {
        int at = find(id);
        count--;
        table[at] = NONE;
        // Rows that collided with it are placed again, up to the next free slot.
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

    /** The table's index at which an id is, or would be put. */
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
