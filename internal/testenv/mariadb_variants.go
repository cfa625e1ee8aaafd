package testenv

import (
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
)

// MySQLFoundRows is MySQLPath with clientFoundRows, which many DSNs set: an
// UPDATE counts the rows that it found, also those that were already as it
// makes them, and an upsert counts 1 for a row that it left as it was.
// Its name is "mysql-foundrows".
func MySQLFoundRows(t testing.TB) Database {
	t.Helper()
	return newMariaDB(t, "mysql-foundrows", withoutReturning, func(config *mysqldriver.Config) {
		config.ClientFoundRows = true
	})
}

// MySQLIncrement is MySQLPath with auto_increment_increment=2, as in a ring
// of two writable servers: the keys of one INSERT are 1, 3, 5, …, where GORM
// counts on from the first of them by 1. Its name is "mysql-increment2".
func MySQLIncrement(t testing.TB) Database {
	t.Helper()
	return newMariaDB(t, "mysql-increment2", withoutReturning, func(config *mysqldriver.Config) {
		if config.Params == nil {
			config.Params = make(map[string]string)
		}
		config.Params["auto_increment_increment"] = "2"
	})
}

// MariaDBInterpolate is MariaDB with interpolateParams: the driver puts the
// arguments into the statement, which then takes one round trip, instead of
// preparing and executing it. Its name is "mariadb-interpolate".
func MariaDBInterpolate(t testing.TB) Database {
	t.Helper()
	return newMariaDB(t, "mariadb-interpolate", mysql.Open, interpolate)
}

// MySQLInterpolate is MySQLPath with interpolateParams. Its name is
// "mysql-interpolate".
func MySQLInterpolate(t testing.TB) Database {
	t.Helper()
	return newMariaDB(t, "mysql-interpolate", withoutReturning, interpolate)
}

func interpolate(config *mysqldriver.Config) {
	config.InterpolateParams = true
}
