package outboxtest

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/dialect"
	"github.com/gormoutbox/outbox/relay"
)

// Drain publishes what is pending, as a relay with default settings does, and returns when that is done: with the first attempts of a
// failing event also the later ones, up to the one at which it is parked. What is delayed waits; see Advance. The test fails at once if the relay
// does, or if the test's context ends before.
func Drain(t testing.TB, db *gorm.DB, publisher message.Publisher) {
	t.Helper()
	DrainWith(t, db, publisher, relay.Config{MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
}

// DrainWith is Drain with settings of the relay. Without a Logger it logs nothing; Table is that of the plugin.
func DrainWith(t testing.TB, db *gorm.DB, publisher message.Publisher, config relay.Config) {
	t.Helper()
	config.Table = tablesOf(t, db).Events
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	r, err := relay.New(fresh(db), publisher, config)
	if err != nil {
		t.Fatalf("outboxtest: %v", err)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatalf("outboxtest: draining: %v", err)
	}
}

// Advance makes all times in the outbox older by d, as if so much time had passed: delayed events and retries become due, published events
// become old enough to be removed, relays that have crashed lose their leases. d must not be negative.
func Advance(t testing.TB, db *gorm.DB, d time.Duration) {
	t.Helper()
	if d < 0 {
		t.Fatalf("outboxtest: time can't go back by %s", -d)
	}
	tables := tablesOf(t, db)
	times := map[string][]string{
		tables.Events:     {"created_at", "available_at", "processed_at", "parked_at"},
		tables.Held:       {"until", "created_at"},
		tables.Partitions: {"expires_at"},
		tables.Relays:     {"started_at", "expires_at"},
	}
	err := fresh(db).Transaction(func(tx *gorm.DB) error {
		for table, columns := range times {
			set := ""
			for _, c := range columns {
				if set != "" {
					set += ", "
				}
				set += quote(db, c) + " = " + earlier(db, quote(db, c), d)
			}
			if err := tx.Exec("UPDATE " + quoted(t, db, table) + " SET " + set).Error; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("outboxtest: advancing: %v", err)
	}
}

// earlier is a timestamp less d, NULL if it is.
func earlier(db *gorm.DB, column string, d time.Duration) string {
	micros := strconv.FormatInt(d.Microseconds(), 10)
	switch db.Name() {
	case "postgres":
		return column + " - interval '1 microsecond' * " + micros
	case "sqlite":
		return "strftime('%Y-%m-%d %H:%M:%f', " + column + ", '-" + strconv.FormatFloat(d.Seconds(), 'f', 3, 64) + " seconds')"
	default:
		return column + " - INTERVAL " + micros + " MICROSECOND"
	}
}

func quote(db *gorm.DB, name string) string { return db.Statement.Quote(name) }

// quoted is the name of a table.
func quoted(t testing.TB, db *gorm.DB, table string) string {
	t.Helper()
	d, err := dialect.For(db)
	if err != nil {
		t.Fatalf("outboxtest: %v", err)
	}
	return d.Quote(table)
}

// fresh is db without conditions and context of the caller, and neither captured nor refused.
func fresh(db *gorm.DB) *gorm.DB {
	return db.Session(&gorm.Session{NewDB: true, Context: gormoutbox.Ignore(db.Statement.Context)})
}

func tablesOf(t testing.TB, db *gorm.DB) gormoutbox.Tables {
	t.Helper()
	plugin, err := gormoutbox.On(db)
	if err != nil {
		t.Fatalf("outboxtest: %v", err)
	}
	return plugin.Tables()
}
