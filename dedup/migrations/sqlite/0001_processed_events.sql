-- Which consumer has handled which message. Text is compared byte by byte
-- (BINARY is SQLite's default). Times are text in UTC with milliseconds.
CREATE TABLE "processed_events" (
  "consumer"     TEXT NOT NULL,
  "event_id"     TEXT NOT NULL,
  "processed_at" TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  PRIMARY KEY ("consumer", "event_id")
) WITHOUT ROWID;
CREATE INDEX "processed_events_processed_at" ON "processed_events" ("processed_at");

CREATE TABLE "processed_events_schema" (
  "version"    INTEGER NOT NULL PRIMARY KEY,
  "applied_at" TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
INSERT INTO "processed_events_schema" ("version") VALUES (1);
