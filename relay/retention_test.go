package relay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

func TestDeleteOnPublishLeavesNothing(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("bad0"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.DeleteOnPublish = true
		stop := start(t, g, pub, c)
		add(t, g, series("bad", "bad", 3)...)
		eventually(t, "the aggregate waits", func() bool { return countRows(t, g, "SELECT COUNT(*) FROM outbox_held") == 1 })
		add(t, g, series("good", "good", 20)...)
		pub.waitFor(t, "good19")
		eventually(t, "what is published is gone", func() bool { return countRows(t, g, "SELECT COUNT(*) FROM outbox_events") == 3 })
		bad.cure()
		pub.waitFor(t, "bad2")
		stop()
		assert.Equal(t, []string{"bad0", "bad1", "bad2"}, pub.of("bad"))
		assert.Len(t, pub.of("good"), 20, "each once")
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events"))
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_held"))
	})
}

func TestRetentionIsChecked(t *testing.T) {
	t.Parallel()
	g := open(t, testenv.SQLite(t))
	_, err := relay.New(g, newRecorder(), relay.Config{Retention: -time.Hour})
	var invalid *relay.ConfigError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "Retention", invalid.Field)
	_, err = relay.New(g, newRecorder(), relay.Config{Retention: relay.KeepForever})
	require.NoError(t, err)
}
