"""The store's tables and functions in the database: their creation and their version.

Rule 1: one transaction creates them all. So if some exist without the others, they belong to
another program and are left alone.
Rule 2: a reader creates nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.events.errors import FormatTooNew, NoSuchStore, StoreRefused

if TYPE_CHECKING:
    from tierledger.storage.backends.postgres.pool import Pool

FORMAT_VERSION = 1

COLUMNS = "key text C, value bytea"
"""Columns of the table of keys. Collation "C" sorts text by its bytes, as all backends do."""

DESCRIBE = """
SELECT (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), collname),
                          ', ' ORDER BY attnum)
          FROM pg_attribute LEFT JOIN pg_collation ON pg_collation.oid = attcollation
         WHERE attrelid = to_regclass('tierledger_kv') AND attnum > 0 AND NOT attisdropped),
       to_regclass('tierledger_format') IS NOT NULL,
       to_regproc('tierledger_execute') IS NOT NULL
       AND to_regproc('tierledger_follow') IS NOT NULL
 WHERE (TABLE here)
"""

VERSION = "SELECT version FROM tierledger_format WHERE (TABLE here)"

OLDER = "TL002"
"""The code of the error by which `tierledger_follow` rolls back; its detail is a key before
which something is missing."""

CONFLICT = "TL001"
"""The code of the error by which `tierledger_execute` rolls back. Its detail lists the failed
operations as `place:reason`, places counted from 1, separated by blanks."""

# `CREATE ... IF NOT EXISTS` can fail if two processes run it at once: hence the lock, whose
# number no other program uses. `tierledger_execute` takes keys in ascending order, as every
# statement of the backend does, so that no two statements deadlock. It checks each row under a
# lock that it keeps until it ends. `tierledger_follow` looks for later keys in a second
# statement, after it has inserted its own: a statement sees the store as of its begin, so one
# that slept would not see keys written meanwhile; the second statement sees them. What has to
# be there before a key that was inserted is looked for last: if it is missing, nothing is kept.
# Nothing has to be where `formers` has an empty text: a role may have `array_nulls` off.
CREATE = """
SELECT pg_advisory_xact_lock(8389754676633563);
CREATE TABLE IF NOT EXISTS tierledger_kv (
    key text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);
CREATE TABLE IF NOT EXISTS tierledger_format (version integer NOT NULL);
INSERT INTO tierledger_format SELECT 1 WHERE NOT EXISTS (SELECT FROM tierledger_format);
CREATE OR REPLACE FUNCTION tierledger_execute(
    keys text[], guards text[], expected_values bytea[], stays boolean[], new_values bytea[],
    doomed boolean
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    step record;
    same boolean;
    met text;
    conflicts text[] := '{}';
BEGIN
    FOR step IN
        SELECT * FROM unnest(keys, guards, expected_values, stays, new_values)
            WITH ORDINALITY AS one(name, guard, expected, stays, content, place)
    LOOP
        met := NULL;
        IF step.guard = 'absent' THEN
            INSERT INTO tierledger_kv (key, value) VALUES (step.name, step.content)
                ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                met := 'exists';
            END IF;
        ELSIF step.guard <> 'any' THEN
            SELECT step.guard = 'present' OR value = step.expected INTO same
                FROM tierledger_kv WHERE key = step.name FOR UPDATE;
            IF NOT FOUND THEN
                met := 'missing';
            ELSIF NOT same THEN
                met := 'mismatch';
            END IF;
        END IF;
        IF met IS NOT NULL THEN
            conflicts := conflicts || concat(step.place, ':', met);
        ELSIF NOT step.stays THEN
            DELETE FROM tierledger_kv WHERE key = step.name;
        ELSIF step.guard = 'any' THEN
            INSERT INTO tierledger_kv (key, value) VALUES (step.name, step.content)
                ON CONFLICT (key) DO UPDATE SET value = excluded.value;
        ELSIF step.guard <> 'absent' THEN
            UPDATE tierledger_kv SET value = step.content WHERE key = step.name;
        END IF;
    END LOOP;
    IF doomed OR cardinality(conflicts) > 0 THEN
        RAISE EXCEPTION 'an operation met what it did not expect; nothing changed'
            USING ERRCODE = 'TL001', DETAIL = array_to_string(conflicts, ' ');
    END IF;
END
$$;
CREATE OR REPLACE FUNCTION tierledger_follow(
    keys text[], ends text[], new_values bytea[], formers text[], beginnings bytea[]
) RETURNS TABLE (slot text, is_passed boolean) LANGUAGE plpgsql AS $$
DECLARE
    fresh text[];
    passed text[];
    early text;
BEGIN
    WITH made AS (
        INSERT INTO tierledger_kv (key, value) SELECT * FROM unnest(keys, new_values)
            ON CONFLICT DO NOTHING RETURNING key
    ) SELECT coalesce(array_agg(key), '{}') INTO fresh FROM made;
    SELECT array_agg(one.name) INTO passed
      FROM unnest(keys, ends) AS one(name, stop)
     WHERE one.name = ANY (fresh) AND EXISTS (
        SELECT FROM tierledger_kv
         WHERE key > one.name AND key < one.stop AND NOT key = ANY (fresh));
    IF passed IS NOT NULL THEN
        DELETE FROM tierledger_kv WHERE key = ANY (passed);
    END IF;
    SELECT one.name INTO early
      FROM unnest(keys, formers, beginnings) AS one(name, former, beginning)
     WHERE one.former <> '' AND one.name = ANY (fresh)
       AND NOT coalesce(one.name = ANY (passed), false)
       AND NOT EXISTS (
        SELECT FROM tierledger_kv
         WHERE key = one.former
           AND substring(value FOR length(one.beginning)) = one.beginning)
     LIMIT 1;
    IF early IS NOT NULL THEN
        RAISE EXCEPTION 'what has to be there first is not there; nothing changed'
            USING ERRCODE = 'TL002', DETAIL = early;
    END IF;
    RETURN QUERY SELECT name, coalesce(name = ANY (passed), false) FROM unnest(fresh) AS name;
END
$$;
"""


async def check(pool: Pool) -> None:
    """Check that the database has a store; a writer creates one if there is none.

    Raises:
        NoSuchStore: There are no tables, and the store was opened for reading.
        StoreRefused: The tables are another program's.
        FormatTooNew: A newer program created them.
        StorageUnavailable: The server is away, or takes no writes.
    """
    where = pool.address.where
    if not await _is_complete(pool):
        if pool.address.read_only:
            raise NoSuchStore(f"no such store: {where} has no tables of tierledger")
        # Not marked as a change: after an unknown outcome a retry ends with the same tables.
        await pool.run(CREATE, None)
        await _is_complete(pool)
    versions = [version for (version,) in (await pool.run(VERSION)).rows]
    if versions and max(versions) > FORMAT_VERSION:
        raise FormatTooNew(
            f"{where} has format {max(versions)}, and this program knows {FORMAT_VERSION}"
        )
    if versions != [FORMAT_VERSION]:
        raise StoreRefused(f"{where} says it has formats {versions}, which there never were")


async def _is_complete(pool: Pool) -> bool:
    """Whether all tables and functions exist; refuses tables of another program."""
    ((columns, has_format, has_functions),) = (await pool.run(DESCRIBE)).rows
    if columns is None and not has_format:
        return False
    if columns != COLUMNS or not has_format:
        # A statement finds names as they are now, and rows as they were when it began. Of a
        # store that is made meanwhile it may see a part; the next statement sees it whole.
        ((columns, has_format, has_functions),) = (await pool.run(DESCRIBE)).rows
    if columns != COLUMNS or not has_format:
        raise StoreRefused(
            f"{pool.address.where} is not a store of tierledger: expected its table "
            f"tierledger_kv to have {COLUMNS}, beside tierledger_format; it has {columns}"
        )
    # A reader does not need the functions.
    return has_functions or pool.address.read_only
