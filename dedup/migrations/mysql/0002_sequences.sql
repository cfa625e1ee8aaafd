-- How far each consumer has come in each stream of numbered messages, for Config.Sequence.
CREATE TABLE IF NOT EXISTS `processed_events_sequences` (
  `consumer`   VARBINARY(255) NOT NULL,
  `stream`     VARBINARY(255) NOT NULL,
  `number`     BIGINT         NOT NULL,
  `updated_at` DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (`consumer`, `stream`)
) ENGINE = InnoDB;
INSERT IGNORE INTO `processed_events_schema` (`version`) VALUES (2);
