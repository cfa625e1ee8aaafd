package dedup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"
)

// guard is the transaction as handlers have it. It refuses statements that would end it, since what follows would be committed one by one; and
// after a deadlock, in which InnoDB rolls all of it back, it refuses everything, for the same reason.
type guard struct {
	gorm.Tx // with GORM's cache of prepared statements, if there is one

	*guarded
}

// guarded is what a guard and the one behind its cache have in common.
type guarded struct {
	plain gorm.Tx // without the cache
	bare  *guard  // of plain
	mysql bool
	// lost is why the transaction is there no more, and refused why the last statement that the guard refused did not run.
	lost, refused error
	// pending says that a statement ran whose errors come with its rows, which GORM reads, and doubtful that somebody else has read some.
	pending, doubtful bool
}

var _ gorm.Tx = (*guard)(nil)

// newGuard puts a guard before the transaction of db, if there can be one, and returns what it knows.
func newGuard(db *gorm.DB, mysql bool) *guarded {
	tx, ok := db.Statement.ConnPool.(gorm.Tx)
	if !ok {
		return &guarded{}
	}
	g := &guarded{plain: tx, mysql: mysql}
	if prepared, ok := tx.(*gorm.PreparedStmtTX); ok {
		g.plain = prepared.Tx
	}
	db.Statement.ConnPool = &guard{tx, g}
	if mysql { // Session has copied the config
		db.Logger = &witness{Interface: db.Logger, guarded: g}
	}
	g.bare = &guard{g.plain, g}
	return g
}

// Unprepared is the transaction without the cache of prepared statements, the same each time. The outbox plugin asks for it.
func (g *guard) Unprepared() gorm.ConnPool { return g.bare }

// ExecContext implements gorm.ConnPool.
func (g *guard) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tx, err := g.before(query)
	if err != nil {
		return nil, err
	}
	result, err := tx.ExecContext(ctx, query, args...)
	g.after(ctx, err)
	return result, err
}

// QueryContext implements gorm.ConnPool.
func (g *guard) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	tx, err := g.before(query)
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	g.after(ctx, err)
	g.pending = g.pending || g.mysql && locks(query)
	return rows, err
}

// QueryRowContext implements gorm.ConnPool.
func (g *guard) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	tx, err := g.before(query)
	if err != nil { // there is no *sql.Row of an error but that of a context
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return g.plain.QueryRowContext(ended, "SELECT 1")
	}
	row := tx.QueryRowContext(ctx, query, args...)
	g.after(ctx, row.Err())
	g.doubtful = g.doubtful || g.mysql && locks(query)
	return row
}

// PrepareContext implements gorm.ConnPool.
func (g *guard) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	tx, err := g.before(query)
	if err != nil {
		return nil, err
	}
	g.pending = g.mysql
	return tx.PrepareContext(ctx, query)
}

// StmtContext implements gorm.Tx. Sessions of a handler with PrepareStmt call it.
func (g *guard) StmtContext(ctx context.Context, stmt *sql.Stmt) *sql.Stmt {
	g.pending = g.mysql
	return g.Tx.StmtContext(ctx, stmt)
}

// explain adds to an error of the handler that a statement was refused, where that reads as the end of a context, and that the transaction was lost.
func (g *guarded) explain(ctx context.Context, err error) error {
	switch {
	case g.lost != nil && !errors.Is(err, g.lost):
		return fmt.Errorf("%w: %w", g.lost, err)
	case g.refused != nil && errors.Is(err, context.Canceled) && ctx.Err() == nil && !errors.Is(err, g.refused):
		return fmt.Errorf("%w: %w", g.refused, err)
	}
	return err
}

// before returns where the statement is to run, or why it must not.
func (g *guard) before(query string) (gorm.Tx, error) {
	if g.lost != nil {
		g.refused = g.lost
		return nil, g.lost
	}
	first, rest := words(query)
	switch first {
	case "SAVEPOINT", "RELEASE":
		return g.plain, nil // no database prepares it
	case "ROLLBACK":
		if slices.Contains(rest, "TO") {
			return g.plain, nil
		}
	}
	if ends(g.mysql, first, rest) {
		g.refused = fmt.Errorf("%w: %s", ErrEndsTransaction, strings.Join(append([]string{first}, rest[:min(1, len(rest))]...), " "))
		return nil, g.refused
	}
	return g.Tx, nil
}

// after finds out whether an error has taken the transaction away.
func (g *guarded) after(ctx context.Context, err error) {
	if err == nil || !g.mysql {
		return
	}
	const deadlock, waited = "Error 1213", "Error 1205" // the texts of go-sql-driver/mysql, which is not linked
	switch text := err.Error(); {
	case strings.Contains(text, deadlock):
	case strings.Contains(text, waited):
		var all bool
		if g.plain.QueryRowContext(ctx, "SELECT @@innodb_rollback_on_timeout").Scan(&all) == nil && !all {
			return
		}
	default:
		return
	}
	g.lost = &databaseError{fmt.Errorf("dedup: the database has rolled the transaction back, so that it can't go on: %w", err)}
}

// locks says whether a query may take locks as it goes, and so fail behind the first row.
func locks(query string) bool {
	query = strings.ToUpper(query)
	return slices.ContainsFunc([]string{"FOR", "LOCK", "CALL", "INSERT", "DELETE", "REPLACE"}, func(word string) bool { return strings.Contains(query, word) })
}

// implicit are the first words of statements before which MySQL and MariaDB commit.
var implicit = []string{
	"ALTER", "CREATE", "DROP", "TRUNCATE", "RENAME", "GRANT", "REVOKE", "LOCK", "UNLOCK", "ANALYZE", "OPTIMIZE", "REPAIR", "FLUSH", "INSTALL", "UNINSTALL", "XA",
}

// ends says whether a statement ends the transaction that it runs in.
func ends(mysql bool, first string, rest []string) bool {
	second := ""
	if len(rest) > 0 {
		second = rest[0]
	}
	switch first {
	case "COMMIT", "ROLLBACK", "ABORT", "END", "BEGIN", "START":
		return true
	case "PREPARE":
		return second == "TRANSACTION"
	case "SET":
		return mysql && slices.ContainsFunc(rest, func(word string) bool { return strings.Contains(word, "AUTOCOMMIT") })
	}
	return mysql && second != "TEMPORARY" && slices.Contains(implicit, first)
}

// words are the first one of a statement and the few behind it, in upper case, without comments before them.
func words(query string) (first string, rest []string) {
	for {
		query = strings.TrimLeft(query, " \t\r\n;(")
		switch {
		case strings.HasPrefix(query, "--"), strings.HasPrefix(query, "#"):
			_, query, _ = strings.Cut(query, "\n")
			continue
		case strings.HasPrefix(query, "/*") && !strings.HasPrefix(query, "/*!"):
			_, query, _ = strings.Cut(query, "*/")
			continue
		}
		break
	}
	const enough = 64
	all := strings.FieldsFunc(strings.ToUpper(query[:min(len(query), enough)]), func(r rune) bool { return strings.ContainsRune(" \t\r\n;=", r) })
	if len(all) == 0 {
		return "", nil
	}
	return all[0], all[1:]
}
