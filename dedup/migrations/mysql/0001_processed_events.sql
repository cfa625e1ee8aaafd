-- Which consumer has handled which message. Every statement may be run again,
-- since CREATE TABLE commits by itself.
-- VARBINARY: under the usual collations "aBc", "AbC" and "aBc " would be one id,
-- and two of three messages would count as duplicates. Times are UTC.
CREATE TABLE IF NOT EXISTS `processed_events` (
  `consumer`     VARBINARY(255) NOT NULL,
  `event_id`     VARBINARY(255) NOT NULL,
  `processed_at` DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (`consumer`, `event_id`),
  KEY `processed_events_processed_at` (`processed_at`)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `processed_events_schema` (
  `version`    INT         NOT NULL PRIMARY KEY,
  `applied_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB;
INSERT IGNORE INTO `processed_events_schema` (`version`) VALUES (1);
