-- How far each consumer has come in each stream of numbered messages, for Config.Sequence.
CREATE TABLE "processed_events_sequences" (
  "consumer"   varchar(255) COLLATE "C" NOT NULL,
  "stream"     varchar(255) COLLATE "C" NOT NULL,
  "number"     bigint       NOT NULL,
  "updated_at" timestamptz  NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY ("consumer", "stream")
);
INSERT INTO "processed_events_schema" ("version") VALUES (2);
