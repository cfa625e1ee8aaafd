package gormoutbox

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv"
)

type unannotated struct {
	ID   int
	Name string
}

// passing are the callbacks of the plugin for a create of a model that is not annotated, beside one that is.
func passing(tb testing.TB) (in *instance, run func()) {
	tb.Helper()
	g := testenv.SQLite(tb).Open(tb)
	p := New(Config{Models: []any{&anchored{}}})
	require.NoError(tb, g.Use(p))
	in, err := p.on(g)
	require.NoError(tb, err)
	db := g.Session(&gorm.Session{NewDB: true, DryRun: true}).Create(&unannotated{ID: 1}) // has its statement still
	require.NoError(tb, db.Error)
	clear(db.Statement.Clauses) // of which a create has none when it begins
	begin, check := in.begin("create"), in.check(in.checkCreate)
	return in, func() {
		begin(db)
		check(db)
		in.emit(db)
		in.end(db)
	}
}

// Models that are not annotated pay nothing.
func TestUnannotatedModelAllocatesNothing(t *testing.T) {
	in, run := passing(t)
	assert.Zero(t, testing.AllocsPerRun(100, run))
	in.live.Add(1)
	assert.Zero(t, testing.AllocsPerRun(100, run))
}

// BenchmarkUnannotated is what the plugin adds to a save of a model that is not annotated, alone and while another statement is captured.
func BenchmarkUnannotated(b *testing.B) {
	in, run := passing(b)
	for _, name := range []string{"alone", "beside"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
		in.live.Add(1)
	}
}
