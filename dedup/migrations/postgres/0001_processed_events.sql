-- Which consumer has handled which message.
-- COLLATE "C": ids are compared byte by byte, whatever the database's collation.
CREATE TABLE "processed_events" (
  "consumer"     varchar(255) COLLATE "C" NOT NULL,
  "event_id"     varchar(255) COLLATE "C" NOT NULL,
  "processed_at" timestamptz  NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY ("consumer", "event_id")
);
CREATE INDEX "processed_events_processed_at" ON "processed_events" ("processed_at");

CREATE TABLE "processed_events_schema" (
  "version"    integer     NOT NULL PRIMARY KEY,
  "applied_at" timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO "processed_events_schema" ("version") VALUES (1);
