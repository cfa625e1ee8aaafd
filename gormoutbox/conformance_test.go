package gormoutbox_test

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/gormoutbox/capturetest"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// TestConformance runs every way to write on every database.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{
		"postgres":         testenv.Postgres,
		"postgres18":       testenv.Postgres18,
		"mariadb":          testenv.MariaDB,
		"mysql":            testenv.MySQLPath,
		"mysql-foundrows":  testenv.MySQLFoundRows,
		"mysql-increment2": testenv.MySQLIncrement,
		"sqlite":           testenv.SQLite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			capturetest.Run(t, capturetest.Target{Open: func(t *testing.T) *gorm.DB { return fresh(t).Open(t) }})
		})
	}
	// GORM as others configure it, with other plugins, and with names of our own.
	t.Run("sqlite-configured", func(t *testing.T) {
		t.Parallel()
		capturetest.Run(t, capturetest.Target{
			Open: func(t *testing.T) *gorm.DB {
				return testenv.SQLite(t).Open(t, &gorm.Config{SkipDefaultTransaction: true, PrepareStmt: true, TranslateError: true})
			},
			Config: gormoutbox.Config{Name: "capture", Table: "my_events"},
			Before: neighbour{"before"}.register,
			After:  neighbour{"after"}.register,
		})
	})
}

// neighbour is a plugin as there are many: it looks at every statement from the places where GORM's
// guide puts callbacks, and asks the database.
type neighbour struct{ name string }

func (n neighbour) register(db *gorm.DB) error {
	look := func(db *gorm.DB) {
		if db.Error != nil || db.DryRun {
			return
		}
		var one int
		if err := db.Session(&gorm.Session{NewDB: true, Context: db.Statement.Context}).Raw("SELECT 1").Scan(&one).Error; err != nil {
			_ = db.AddError(fmt.Errorf("neighbour: %w", err))
		}
	}
	cb := db.Callback()
	return errors.Join(
		cb.Create().Before("gorm:create").Register(n.name+":before_create", look), cb.Create().After("gorm:create").Register(n.name+":after_create", look),
		cb.Update().Before("gorm:update").Register(n.name+":before_update", look), cb.Update().After("gorm:update").Register(n.name+":after_update", look),
		cb.Delete().Before("gorm:delete").Register(n.name+":before_delete", look), cb.Delete().After("gorm:delete").Register(n.name+":after_delete", look),
	)
}

// TestConformanceCases checks what documentation is made of.
func TestConformanceCases(t *testing.T) {
	t.Parallel()
	names, ids, memory := map[string]bool{}, map[string]bool{}, 0
	for _, c := range capturetest.Cases() {
		name := c.ID + " " + c.Name
		assert.False(t, names[name], "%s is there twice", name)
		names[name], ids[c.ID] = true, true
		_, err := parser.ParseFile(token.NewFileSet(), "", "package p; func _() { "+c.Code+"\n}", 0)
		assert.NoError(t, err, "%s: %s", name, c.Code)
		if assert.NotEmpty(t, c.Expect, name) {
			assert.Empty(t, c.Expect[len(c.Expect)-1].On, "%s: the last expectation is for all other databases", name)
		}
		for _, e := range c.Expect {
			if e.Result != capturetest.Captured {
				assert.NotEmpty(t, e.Why, name)
			}
		}
		if strings.HasPrefix(c.Name, "memory:") {
			memory++
		}
	}
	assert.Equal(t, 11, memory, "ways in which memory is not the row")
	// Every way to write that GORM has.
	for topic, n := range map[string]int{"C": 35, "U": 12, "S": 5, "F": 4, "M": 22, "A": 12, "D": 14, "R": 1} {
		for i := range n {
			id := fmt.Sprintf("%s%02d", topic, i+1)
			assert.True(t, ids[id], "no case of %s", id)
		}
	}
}
