package testenv

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/libtnb/sqlite"
)

// sqliteSettings are those that a service should have: readers beside the
// writer, a wait instead of "database is locked", and the lock at BEGIN,
// since a transaction that reads first cannot wait for it later.
var sqliteSettings = url.Values{
	"_journal_mode": {"WAL"},
	"_busy_timeout": {"10000"},
	"_txlock":       {"immediate"},
	"_foreign_keys": {"on"},
}

// SQLite returns a fresh database file.
func SQLite(t testing.TB) Database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	return Database{Name: "sqlite", DSN: path + "?" + sqliteSettings.Encode(), dialector: sqlite.Open}
}
