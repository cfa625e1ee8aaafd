-- The outbox and what the relay needs beside it. Every statement may be run
-- again, since CREATE TABLE commits by itself.
-- Names and keys are VARBINARY: under the usual collations "aBc", "AbC" and
-- "aBc " would be one key. Times are UTC.
CREATE TABLE IF NOT EXISTS `outbox_events` (
  `seq`            BIGINT         NOT NULL AUTO_INCREMENT,
  `part`           INT            NOT NULL,
  `id`             CHAR(36)       CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `aggregate_type` VARBINARY(255) NOT NULL,
  `aggregate_id`   VARBINARY(255) NOT NULL,
  `event_type`     VARBINARY(255) NOT NULL,
  `topic`          VARBINARY(255) NOT NULL DEFAULT '',
  `payload`        LONGBLOB       NOT NULL,
  `headers`        LONGTEXT       CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `created_at`     DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  `available_at`   DATETIME(6)    NULL,
  `processed_at`   DATETIME(6)    NULL,
  `attempts`       INT            NOT NULL DEFAULT 0,
  `last_error`     TEXT           CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `parked_at`      DATETIME(6)    NULL,
  PRIMARY KEY (`part`, `seq`),
  UNIQUE KEY `outbox_events_seq` (`seq`),
  UNIQUE KEY `outbox_events_id` (`id`),
  KEY `outbox_events_available` (`available_at`)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `outbox_partitions` (
  `part`       INT          NOT NULL PRIMARY KEY,
  `owner`      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  `token`      VARCHAR(36)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  `expires_at` DATETIME(6)  NULL,
  `low`        BIGINT       NOT NULL DEFAULT 0
) ENGINE = InnoDB;
INSERT IGNORE INTO `outbox_partitions` (`part`)
WITH RECURSIVE p (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM p WHERE n < 64 - 1) SELECT n FROM p;

CREATE TABLE IF NOT EXISTS `outbox_held` (
  `aggregate_type` VARBINARY(255) NOT NULL,
  `aggregate_id`   VARBINARY(255) NOT NULL,
  `part`           INT            NOT NULL,
  `seq`            BIGINT         NOT NULL,
  `until`          DATETIME(6)    NULL,
  `reason`         TEXT           CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `request`        VARCHAR(16)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  `created_at`     DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  PRIMARY KEY (`aggregate_type`, `aggregate_id`),
  KEY `outbox_held_part` (`part`)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `outbox_relays` (
  `id`         VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  `started_at` DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  `expires_at` DATETIME(6)  NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `outbox_schema` (
  `version`    INT         NOT NULL PRIMARY KEY,
  `applied_at` DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB;
INSERT IGNORE INTO `outbox_schema` (`version`) VALUES (1);
