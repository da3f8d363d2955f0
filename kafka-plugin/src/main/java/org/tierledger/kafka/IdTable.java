package org.tierledger.kafka;

import java.util.Arrays;

/** Where the row of each segment id is: an open table of references into a slab. */
final class IdTable {
    static final int NONE = -1;

    private final Slab slab;
    private int[] table = new int[16];
    private int count;

    IdTable(Slab slab) {
        this.slab = slab;
        Arrays.fill(table, NONE);
    }

    int size() {
        return count;
    }

    /** Where the row of an id is, or {@link #NONE}. */
    int get(long high, long low) {
        return table[find(high, low)];
    }

    /** Put the reference of a row in place of that of the same id. */
    void put(long high, long low, int ref) {
        int at = find(high, low);
        if (table[at] == NONE && 3 * ++count > 2 * table.length) {
            grow();
            at = find(high, low);
        }
        table[at] = ref;
    }

    void remove(long high, long low) {
        int hole = find(high, low);
        if (table[hole] == NONE) {
            return;
        }
        count--;
        // What was pushed on by the one that goes moves up.
        int mask = table.length - 1;
        for (int at = hole + 1 & mask; table[at] != NONE; at = at + 1 & mask) {
            int home = homeOf(table[at]);
            if ((at - home & mask) >= (at - hole & mask)) {
                table[hole] = table[at];
                hole = at;
            }
        }
        table[hole] = NONE;
    }

    /** All references, in no order. */
    int[] refs() {
        return Arrays.stream(table).filter(ref -> ref != NONE).toArray();
    }

    private int find(long high, long low) {
        int mask = table.length - 1;
        int at = hash(high, low) & mask;
        while (table[at] != NONE) {
            byte[] bytes = slab.bytes(table[at]);
            int id = Slab.rowAt(table[at]) + Row.ID_AT;
            if (Slab.longAt(bytes, id) == high && Slab.longAt(bytes, id + 8) == low) {
                break;
            }
            at = at + 1 & mask;
        }
        return at;
    }

    private int homeOf(int ref) {
        byte[] bytes = slab.bytes(ref);
        int id = Slab.rowAt(ref) + Row.ID_AT;
        return hash(Slab.longAt(bytes, id), Slab.longAt(bytes, id + 8)) & table.length - 1;
    }

    private void grow() {
        int[] refs = refs();
        table = new int[2 * table.length];
        Arrays.fill(table, NONE);
        int mask = table.length - 1;
        for (int ref : refs) {
            int at = homeOf(ref);
            while (table[at] != NONE) {
                at = at + 1 & mask;
            }
            table[at] = ref;
        }
    }

    private static int hash(long high, long low) {
        long mixed = (high ^ low) * 0x9e3779b97f4a7c15L;
        return (int) (mixed >>> 32);
    }
}
