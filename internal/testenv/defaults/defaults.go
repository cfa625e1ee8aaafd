// Package defaults holds what the services command and the test environment
// must agree on: the variables that name the servers, and the values they
// have when nobody set them.
package defaults

// The variables that name the servers. A variable that the user sets wins:
// that server is neither started nor stopped here.
const (
	PostgresVariable   = "OUTBOX_TEST_POSTGRES"   // connection URL
	Postgres18Variable = "OUTBOX_TEST_POSTGRES18" // connection URL of a PostgreSQL 18
	MySQLVariable      = "OUTBOX_TEST_MYSQL"      // DSN of go-sql-driver/mysql, without a database
	KafkaVariable      = "OUTBOX_TEST_KAFKA"      // comma-separated bootstrap addresses
)

// The servers of the services command, and of compose.yaml, listen here.
const (
	Host                = "127.0.0.1"
	PostgresPort        = "25432"
	Postgres18Port      = "25433"
	MariaDBPort         = "23306"
	KafkaPort           = "29092"
	KafkaControllerPort = "29093"
)

// Names inside the servers.
const (
	PostgresUser     = "postgres"
	PostgresDatabase = "outbox_test"
	MariaDBUser      = "outbox" // all privileges, no password
)

// The values of the variables when nobody set them.
const (
	Postgres   = "postgres://" + PostgresUser + "@" + Host + ":" + PostgresPort + "/" + PostgresDatabase + "?sslmode=disable"
	Postgres18 = "postgres://" + PostgresUser + "@" + Host + ":" + Postgres18Port + "/" + PostgresDatabase + "?sslmode=disable"
	MySQL      = MariaDBUser + "@tcp(" + Host + ":" + MariaDBPort + ")/"
	Kafka      = Host + ":" + KafkaPort
)
