-- The outbox and what the relay needs beside it.
-- xid stands before seq: defaults are computed in column order, so a
-- transaction has its id before it draws a number, and no number is ever held
-- by a session that no snapshot knows of.
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
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 1);
CREATE UNIQUE INDEX "outbox_events_id" ON "outbox_events" ("id");
-- processed_at is in no index, so settling a row rewrites none of them.
CREATE INDEX "outbox_events_available" ON "outbox_events" ("available_at") WHERE "available_at" IS NOT NULL;

CREATE TABLE "outbox_partitions" (
  "part"       integer      NOT NULL PRIMARY KEY,
  "owner"      varchar(255) NOT NULL DEFAULT '',
  "token"      varchar(36)  NOT NULL DEFAULT '',
  "expires_at" timestamptz,
  "low"        bigint       NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO "outbox_partitions" ("part") SELECT generate_series(0, 64 - 1);

CREATE TABLE "outbox_held" (
  "aggregate_type" varchar(255) NOT NULL,
  "aggregate_id"   varchar(255) NOT NULL,
  "part"           integer      NOT NULL,
  "seq"            bigint       NOT NULL,
  "until"          timestamptz,
  "reason"         text         NOT NULL,
  "request"        varchar(16)  NOT NULL DEFAULT '',
  "created_at"     timestamptz  NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY ("aggregate_type", "aggregate_id")
);
CREATE INDEX "outbox_held_part" ON "outbox_held" ("part");

CREATE TABLE "outbox_relays" (
  "id"         varchar(255) NOT NULL PRIMARY KEY,
  "started_at" timestamptz  NOT NULL DEFAULT clock_timestamp(),
  "expires_at" timestamptz  NOT NULL
);

CREATE TABLE "outbox_schema" (
  "version"    integer     NOT NULL PRIMARY KEY,
  "applied_at" timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO "outbox_schema" ("version") VALUES (1);
