-- The outbox and what the relay needs beside it. Times are text in UTC with
-- milliseconds, as SQLite's own functions write them.
-- AUTOINCREMENT: a plain rowid is used again after deletes, and a new row
-- would come to stand below the mark from which the relay reads.
CREATE TABLE "outbox_events" (
  "seq"            INTEGER PRIMARY KEY AUTOINCREMENT,
  "part"           INTEGER NOT NULL,
  "id"             TEXT    NOT NULL,
  "aggregate_type" TEXT    NOT NULL,
  "aggregate_id"   TEXT    NOT NULL,
  "event_type"     TEXT    NOT NULL,
  "topic"          TEXT    NOT NULL DEFAULT '',
  "payload"        BLOB    NOT NULL,
  "headers"        TEXT    NOT NULL DEFAULT '{}',
  "created_at"     TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  "available_at"   TEXT,
  "processed_at"   TEXT,
  "attempts"       INTEGER NOT NULL DEFAULT 0,
  "last_error"     TEXT,
  "parked_at"      TEXT
);
CREATE UNIQUE INDEX "outbox_events_id" ON "outbox_events" ("id");
CREATE INDEX "outbox_events_available" ON "outbox_events" ("available_at") WHERE "available_at" IS NOT NULL;

CREATE TABLE "outbox_partitions" (
  "part"       INTEGER NOT NULL PRIMARY KEY,
  "owner"      TEXT    NOT NULL DEFAULT '',
  "token"      TEXT    NOT NULL DEFAULT '',
  "expires_at" TEXT,
  "low"        INTEGER NOT NULL DEFAULT 0
);
WITH RECURSIVE p (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM p WHERE n < 64 - 1)
INSERT INTO "outbox_partitions" ("part") SELECT n FROM p;

CREATE TABLE "outbox_held" (
  "aggregate_type" TEXT    NOT NULL,
  "aggregate_id"   TEXT    NOT NULL,
  "part"           INTEGER NOT NULL,
  "seq"            INTEGER NOT NULL,
  "until"          TEXT,
  "reason"         TEXT    NOT NULL,
  "request"        TEXT    NOT NULL DEFAULT '',
  "created_at"     TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  PRIMARY KEY ("aggregate_type", "aggregate_id")
);
CREATE INDEX "outbox_held_part" ON "outbox_held" ("part");

CREATE TABLE "outbox_relays" (
  "id"         TEXT NOT NULL PRIMARY KEY,
  "started_at" TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  "expires_at" TEXT NOT NULL
);

CREATE TABLE "outbox_schema" (
  "version"    INTEGER NOT NULL PRIMARY KEY,
  "applied_at" TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
INSERT INTO "outbox_schema" ("version") VALUES (1);
