-- An option for PostgreSQL 15 and later: dedup's processed_events in PostgreSQL partitions, so that old records are
-- dropped whole instead of deleted. See "Retention" in consumers.md for when it pays. Stop the consumers and run this file
-- once, as the owner of the tables, with psql -1 -f; rename tables and indexes first if yours have other names.
--
-- Once means one record for each id, and a unique index of a partitioned table must have the column of its ranges. So ranges
-- are of event_id: a UUIDv7, such as the outbox gives its events, begins with the time at which it was made (RFC 9562, section 5.7), and the
-- text of a later one is greater. All other ids (UUIDv4, those of returned messages, ULIDs) go to tables of the rest.

LOCK TABLE "processed_events" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "processed_events" RENAME TO "processed_events_old";
ALTER INDEX "processed_events_pkey" RENAME TO "processed_events_old_pkey";
ALTER INDEX "processed_events_processed_at" RENAME TO "processed_events_old_processed_at";

CREATE TABLE "processed_events" (
  "consumer"     varchar(255) COLLATE "C" NOT NULL,
  "event_id"     varchar(255) COLLATE "C" NOT NULL,
  "processed_at" timestamptz  NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY ("consumer", "event_id")
) PARTITION BY RANGE ("event_id");
CREATE INDEX "processed_events_processed_at" ON "processed_events" ("processed_at");

CREATE TABLE "processed_events_rest" PARTITION OF "processed_events" DEFAULT;
-- From 2004 to 2039. The level keeps the large rest out of the way: a new range has PostgreSQL look through the default
-- beside it, which has one of 256 UUIDv4 only.
CREATE TABLE "processed_events_dated" PARTITION OF "processed_events" FOR VALUES FROM ('01') TO ('02') PARTITION BY RANGE ("event_id");
CREATE TABLE "processed_events_dated_rest" PARTITION OF "processed_events_dated" DEFAULT;

-- The least text of UUIDv7 made at a time, and back.
CREATE FUNCTION "processed_events_bound"(at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT overlay(lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') PLACING '-' FROM 9 FOR 0)
$$;
CREATE FUNCTION "processed_events_time"(bound text) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT to_timestamp(('x' || lpad(replace(bound, '-', ''), 16, '0'))::bit(64)::bigint / 1000.0)
$$;

-- The ranges, the oldest first.
CREATE VIEW "processed_events_ranges" AS
  SELECT c.relname::text AS name, processed_events_time(b.bounds[1]) AS lower, processed_events_time(b.bounds[2]) AS upper
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid,
         regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([0-9a-f-]+)''\) TO \(''([0-9a-f-]+)''\)') AS b(bounds)
   WHERE i.inhparent = 'processed_events_dated'::regclass AND b.bounds IS NOT NULL ORDER BY 2;

-- Makes ranges of the given span until so many are ahead of now. Call it once a day, say. It gives up after 2 s if it can't
-- have its locks. Records for which no range was made in time move to theirs.
CREATE FUNCTION "processed_events_extend"(span interval DEFAULT '7 days', ahead integer DEFAULT 4) RETURNS integer
LANGUAGE plpgsql SET search_path FROM CURRENT SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
DECLARE
  made integer := 0;
  next timestamptz;
  name text;
  range text;
BEGIN
  IF span < interval '1 hour' OR ahead < 1 THEN
    RAISE EXCEPTION 'processed_events_extend: a range is of an hour at least, and one must be ahead, not % and %', span, ahead;
  END IF;
  SELECT COALESCE(max(upper), date_trunc('day', clock_timestamp())) INTO next FROM "processed_events_ranges";
  WHILE next <= clock_timestamp() + span * ahead LOOP
    name := 'processed_events_' || to_char(next, 'YYYYMMDD_HH24');
    range := format('event_id >= %L AND event_id < %L', processed_events_bound(next), processed_events_bound(next + span));
    EXECUTE format('CREATE TABLE %I (LIKE processed_events_dated INCLUDING DEFAULTS, CONSTRAINT %I CHECK (%s))', name, name || '_range', range);
    LOCK TABLE "processed_events_dated_rest" IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('WITH moved AS (DELETE FROM processed_events_dated_rest WHERE %s RETURNING *) INSERT INTO %I SELECT * FROM moved', range, name);
    EXECUTE format('ALTER TABLE processed_events_dated ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
      name, processed_events_bound(next), processed_events_bound(next + span));
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', name, name || '_range');
    next := next + span;
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;

SELECT "processed_events_extend"();

INSERT INTO "processed_events" SELECT * FROM "processed_events_old";
DROP TABLE "processed_events_old";

-- Drops the oldest range if its messages were made and handled so long ago, and returns its name, else null. It waits at most 2 s for
-- handlers that are at work, and they for it.
CREATE FUNCTION "processed_events_drop"(older interval DEFAULT '30 days') RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
  range record;
  busy boolean;
  look text;
BEGIN
  FOR range IN SELECT * FROM "processed_events_ranges" WHERE upper < clock_timestamp() - older ORDER BY upper LOOP
    look := format('SELECT EXISTS (SELECT 1 FROM %I WHERE processed_at >= clock_timestamp() - $1)', range.name);
    EXECUTE look INTO busy USING older;
    CONTINUE WHEN busy;
    -- In the order in which handlers lock. A late message may have been handled since the look.
    LOCK TABLE ONLY "processed_events", ONLY "processed_events_dated" IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', range.name);
    EXECUTE look INTO busy USING older;
    CONTINUE WHEN busy;
    EXECUTE format('ALTER TABLE processed_events_dated DETACH PARTITION %I', range.name);
    EXECUTE format('DROP TABLE %I', range.name);
    RETURN range.name;
  END LOOP;
  RETURN NULL;
END $$;
