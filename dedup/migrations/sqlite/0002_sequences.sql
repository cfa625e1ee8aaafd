-- How far each consumer has come in each stream of numbered messages, for Config.Sequence.
CREATE TABLE "processed_events_sequences" (
  "consumer"   TEXT    NOT NULL,
  "stream"     TEXT    NOT NULL,
  "number"     INTEGER NOT NULL,
  "updated_at" TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  PRIMARY KEY ("consumer", "stream")
) WITHOUT ROWID;
INSERT INTO "processed_events_schema" ("version") VALUES (2);
