-- An option for PostgreSQL 15 and later: outbox_events in PostgreSQL partitions of a range of numbers
-- each, so that old events are dropped whole instead of deleted. See "Dropping old events whole" in relay.md
-- for when it pays. Stop relays and writers, run this file once, as the owner of the tables,
-- with psql -1 -f; rename tables and indexes first if yours have other names.
-- Ranges are of seq and not of created_at: the primary key (part, seq) stays, the relay's
-- search "part = … AND seq > …" goes to the ranges above the low marks only, and seq is never changed.
-- Privileges, publications and the like of the old table are to be given to the new one again.

LOCK TABLE "outbox_events" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "outbox_events" RENAME TO "outbox_events_first";
ALTER INDEX "outbox_events_pkey" RENAME TO "outbox_events_first_pkey";
ALTER INDEX "outbox_events_available" RENAME TO "outbox_events_first_available";
-- A unique index of a partitioned table must have seq, so id alone is unique no more. The plugin makes ids as UUIDv7.
DROP INDEX "outbox_events_id";

CREATE TABLE "outbox_events" (
  "xid"            xid8         NOT NULL DEFAULT pg_current_xact_id(),
  "seq"            bigint       NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 1),
  "part"           integer      NOT NULL,
  "id"             uuid         NOT NULL,
  "aggregate_type" varchar(255) NOT NULL,
  "aggregate_id"   varchar(255) NOT NULL,
  "event_type"     varchar(255) NOT NULL,
  "topic"          varchar(255) NOT NULL DEFAULT '',
  "payload"        bytea        NOT NULL,
  "headers"        text         NOT NULL DEFAULT '{}',
  "created_at"     timestamptz  NOT NULL DEFAULT clock_timestamp(),
  "available_at"   timestamptz,
  "processed_at"   timestamptz,
  "attempts"       integer      NOT NULL DEFAULT 0,
  "last_error"     text,
  "parked_at"      timestamptz,
  PRIMARY KEY ("part", "seq")
) PARTITION BY RANGE ("seq");
CREATE INDEX "outbox_events_id" ON "outbox_events" ("id");
CREATE INDEX "outbox_events_available" ON "outbox_events" ("available_at") WHERE "available_at" IS NOT NULL;

-- What is there becomes the first range, and numbers go on behind it. The fences of earlier calls of
-- gormoutbox.Repartition go on, too.
DO $$
DECLARE
  next bigint := COALESCE(pg_sequence_last_value(pg_get_serial_sequence('outbox_events_first', 'seq')), 0) + 1;
  fence record;
BEGIN
  FOR fence IN SELECT conname, pg_get_constraintdef(oid) AS def FROM pg_constraint
               WHERE conrelid = 'outbox_events_first'::regclass AND contype = 'c' AND conname LIKE 'outbox\_events\_part\_%' LOOP
    EXECUTE format('ALTER TABLE outbox_events ADD CONSTRAINT %I %s', fence.conname, fence.def);
  END LOOP;
  ALTER TABLE "outbox_events_first" ALTER "seq" DROP IDENTITY;
  EXECUTE format('ALTER TABLE outbox_events ALTER seq RESTART WITH %s', next);
  EXECUTE format('ALTER TABLE outbox_events_first ADD CONSTRAINT outbox_events_range CHECK (seq < %s)', next);
  EXECUTE format('ALTER TABLE outbox_events ATTACH PARTITION outbox_events_first FOR VALUES FROM (MINVALUE) TO (%s)', next);
END $$;

-- Takes events for which no range was made in time, so that no save fails for it.
CREATE TABLE "outbox_events_default" PARTITION OF "outbox_events" DEFAULT WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 1);

-- Makes ranges of the given size until so many are ahead of the last number. Call it once an hour, say. It
-- gives up after 2 s if it can't have its locks.
CREATE FUNCTION "outbox_events_extend"(size bigint DEFAULT 1000000, ahead integer DEFAULT 4) RETURNS integer
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
  made integer := 0;
  last bigint;
  next bigint;
BEGIN
  LOOP
    last := COALESCE(pg_sequence_last_value(pg_get_serial_sequence('outbox_events', 'seq')), 0);
    SELECT max(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''(\d+)''\)')::bigint) INTO next
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'outbox_events'::regclass;
    IF next > last + size * ahead THEN
      RETURN made;
    END IF;
    IF next <= last AND EXISTS (SELECT 1 FROM "outbox_events_default") THEN
      next := last + size; -- numbers below go on to the default one
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE outbox_events INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE, '
      'CONSTRAINT outbox_events_range CHECK (seq >= %s AND seq < %s)) '
      'WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 1)', 'outbox_events_' || next, next, next + size);
    EXECUTE format('ALTER TABLE outbox_events ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', 'outbox_events_' || next, next, next + size);
    made := made + 1;
  END LOOP;
END $$;

SELECT "outbox_events_extend"();

-- Takes the oldest range out of the table if all of its events were published so long ago and its numbers are used up, and returns
-- its name, else null. It looks without a lock; the change itself takes a moment.
CREATE FUNCTION "outbox_events_detach"(older interval DEFAULT '7 days') RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
  last bigint := COALESCE(pg_sequence_last_value(pg_get_serial_sequence('outbox_events', 'seq')), 0);
  range record;
  busy boolean;
BEGIN
  FOR range IN
    SELECT c.relname, substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''(\d+)''\)')::bigint AS upper
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'outbox_events'::regclass ORDER BY 2
  LOOP
    CONTINUE WHEN range.upper IS NULL OR range.upper > last;
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I WHERE processed_at IS NULL OR processed_at >= clock_timestamp() - $1)', range.relname) INTO busy USING older;
    CONTINUE WHEN busy;
    EXECUTE format('ALTER TABLE outbox_events DETACH PARTITION %I', range.relname);
    RETURN range.relname;
  END LOOP;
  RETURN NULL;
END $$;

-- Drops a range that was taken out, in a transaction of its own. If an event became pending between the look and
-- the change, because it was replayed or its transaction was open all the time, the range comes back and the relay's sweep finds the event.
CREATE FUNCTION "outbox_events_drop"(name text) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
  pending boolean;
  bounds text;
BEGIN
  EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I WHERE processed_at IS NULL)', name) INTO pending;
  IF NOT pending THEN
    EXECUTE format('DROP TABLE %I', name);
    RETURN true;
  END IF;
  SELECT format('FROM (%s) TO (%s)', COALESCE(substring(d FROM '>= ''?(\d+)'), 'MINVALUE'), substring(d FROM '< ''?(\d+)')) INTO bounds
    FROM (SELECT pg_get_constraintdef(oid) AS d FROM pg_constraint WHERE conrelid = format('%I', name)::regclass AND conname = 'outbox_events_range') c;
  EXECUTE format('ALTER TABLE outbox_events ATTACH PARTITION %I FOR VALUES %s', name, bounds);
  RETURN false;
END $$;
