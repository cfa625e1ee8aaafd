package gormoutbox_test

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"gorm.io/gorm"

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
}

// TestConformanceCases checks what documentation is made of.
func TestConformanceCases(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	memory := 0
	for _, c := range capturetest.Cases() {
		name := c.ID + " " + c.Name
		assert.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
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
}
