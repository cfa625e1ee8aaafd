package testenv

import (
	"testing"

	"gorm.io/driver/sqlserver"
	"gorm.io/gorm"
)

// SQLServer opens GORM with its driver for SQL Server on a Recorder, which
// notes what GORM sends and answers as told (nil: one row affected, none
// returned). The arguments are as GORM gives them to database/sql. At most
// one config may be given, as for Database.Open.
func SQLServer(t testing.TB, answer AnswerFunc, cfg ...*gorm.Config) (*gorm.DB, *Recorder) {
	t.Helper()
	recorder := NewRecorder(answer)
	dialector := sqlserver.New(sqlserver.Config{Conn: recorder.Pool()})
	return openPool(t, "sqlserver", dialector, cfg), recorder
}
