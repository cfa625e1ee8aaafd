//nolint:revive // The methods are those of GORM's and database/sql's interfaces.
package dedup

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"
)

// refuse returns a *gorm.DB on which everything fails with err. It is built anew for
// each call, so that nothing is shared between those who get one.
func refuse(ctx context.Context, err error) *gorm.DB {
	r := refusal{err: err}
	db, _ := gorm.Open(r, &gorm.Config{ // fails if Initialize does, which does not
		ConnPool:             r,
		Logger:               logger.Discard,
		TranslateError:       true, // calls Translate
		DisableAutomaticPing: true,
	})
	db = db.Session(&gorm.Session{Context: ctx}) // which may be nil
	db.Error = err                               // every instance made from db has it from the start
	return db
}

// refusal is both dialector and connection pool. Neither runs anything.
type refusal struct{ err error }

var (
	_ gorm.Dialector                     = refusal{}
	_ gorm.ErrorTranslator               = refusal{}
	_ gorm.SavePointerDialectorInterface = refusal{}
	_ gorm.ConnPool                      = refusal{}
	_ gorm.ConnPoolBeginner              = refusal{}
	_ gorm.GetDBConnector                = refusal{}
	_ driver.Connector                   = refusal{}
	_ driver.Driver                      = refusal{}
)

// Initialize registers one callback instead of GORM's own.
func (r refusal) Initialize(db *gorm.DB) error {
	fail := func(db *gorm.DB) {
		if db.Error == nil {
			db.Error = r.err
		}
	}
	row := func(db *gorm.DB) {
		fail(db)
		// Row returns a *sql.Row and no error, so the row must have it.
		if rows, ok := db.Get("rows"); ok && rows == false {
			db.Statement.Dest = r.row(db.Statement.Context)
		}
	}
	query := func(db *gorm.DB) {
		fail(db)
		// As a subquery of another *gorm.DB only the text matters; none would be an empty list on SQLite.
		if db.DryRun && db.Statement.SQL.Len() == 0 {
			db.Statement.SQL.WriteString("SELECT dedup_middleware_did_not_run")
		}
	}
	const name = "dedup:refuse"
	cb := db.Callback()
	return errors.Join(
		cb.Create().Register(name, fail), cb.Query().Register(name, query), cb.Update().Register(name, fail),
		cb.Delete().Register(name, fail), cb.Raw().Register(name, fail), cb.Row().Register(name, row),
	)
}

// row returns a row that fails. Only database/sql can make one.
func (r refusal) row(ctx context.Context) *sql.Row {
	db := sql.OpenDB(r)
	defer db.Close()
	return db.QueryRowContext(context.WithoutCancel(ctx), "") // or the row had the context's error
}

// Translate sees every error that GORM adds to those that are there. It keeps
// only the last one in the chain, so each of them has to be ours.
func (r refusal) Translate(error) error { return again(r) }

// again is the error once more, without its text, which stands before.
type again struct{ err error }

func (again) Error() string   { return "dedup: as before" }
func (a again) Unwrap() error { return a.err }

// The rest of gorm.Dialector.

func (r refusal) Name() string { return "dedup" }

func (r refusal) Migrator(db *gorm.DB) gorm.Migrator             { return newRefusedMigrator(db, r) }
func (r refusal) DataTypeOf(*schema.Field) string                { return "" }
func (r refusal) DefaultValueOf(*schema.Field) clause.Expression { return clause.Expr{SQL: "DEFAULT"} }

func (r refusal) BindVarTo(writer clause.Writer, _ *gorm.Statement, _ any) { _ = writer.WriteByte('?') }

func (r refusal) QuoteTo(writer clause.Writer, name string)                      { _, _ = writer.WriteString(name) }
func (r refusal) Explain(sql string, _ ...any) string                            { return sql }
func (r refusal) SavePoint(*gorm.DB, string) error                               { return r.err }
func (r refusal) RollbackTo(*gorm.DB, string) error                              { return r.err }
func (r refusal) BeginTx(context.Context, *sql.TxOptions) (gorm.ConnPool, error) { return r, r.err }
func (r refusal) GetDBConn() (*sql.DB, error)                                    { return nil, r.err }

// gorm.ConnPool.

func (r refusal) PrepareContext(context.Context, string) (*sql.Stmt, error) { return nil, r.err }

func (r refusal) ExecContext(context.Context, string, ...any) (sql.Result, error) { return nil, r.err }

func (r refusal) QueryContext(context.Context, string, ...any) (*sql.Rows, error) { return nil, r.err }

func (r refusal) QueryRowContext(ctx context.Context, _ string, _ ...any) *sql.Row { return r.row(ctx) }

// The driver behind row.

func (r refusal) Connect(context.Context) (driver.Conn, error) { return nil, r.err }
func (r refusal) Driver() driver.Driver                        { return r }
func (r refusal) Open(string) (driver.Conn, error)             { return nil, r.err }
