package gormoutbox_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// No kind and some kind exclude each other.
func TestNoneStandsAlone(t *testing.T) {
	t.Parallel()
	for tag, ok := range map[string]bool{
		"aggregate=a,on=none": true, "aggregate=a,on=none|created": false, "aggregate=a,on=updated|none": false, "aggregate=a,on=created|updated": true,
	} {
		g := testenv.SQLite(t).Open(t)
		err := g.Use(gormoutbox.New(gormoutbox.Config{Models: []any{tagged(tag)}}))
		if ok {
			require.NoError(t, err, tag)
			continue
		}
		require.Len(t, configErrors(err), 1, tag)
		assert.Contains(t, configErrors(err)[0].Cause, "none stands beside other kinds", tag)
	}
}

type (
	// Origin is annotated, and what embeds it is not.
	Origin struct {
		_  gormoutbox.Emit `outbox:"aggregate=base"`
		ID int             `gorm:"autoIncrement:false"`
	}
	onOrigin struct {
		Origin
		Name string
	}
	onPointer struct {
		*Origin
		Name string
	}
)

// An annotation is not inherited, and whoever may expect that finds a warning.
func TestEmbeddedAnnotation(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]any{"onOrigin": &onOrigin{Origin{ID: 1}, "n"}, "onPointer": &onPointer{&Origin{ID: 1}, "n"}} {
		var log bytes.Buffer
		g := setup(t, testenv.SQLite(t), gormoutbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, model)
		require.NoError(t, g.Create(model).Error)
		assert.Empty(t, events(t, g))
		assert.Contains(t, log.String(), "is not annotated itself", name)
		assert.Contains(t, log.String(), "embedded=gormoutbox_test.Origin", name)
	}
}
