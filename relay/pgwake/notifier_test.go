package pgwake_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

var quietPlugin = gormoutbox.Config{}

func TestManyCommitsAreFewNotifications(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	c := config(db.DSN)
	c.Interval = 50 * time.Millisecond
	g := outbox(t, db, quietPlugin)
	listening := ear(t, db.DSN, c.Channel)
	counter := raw(t, db.DSN)
	begin := time.Now()
	_, stop := startNotifier(t, g, c)

	const commits = 1000
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range commits / 4 {
				assert.NoError(t, gormoutbox.Append(g, event("x")))
			}
		})
	}
	// The last of them is told: whoever looks when a notification comes sees all in the end.
	got, seen := 0, 0
	for seen < commits {
		next(t, listening)
		got++
		require.NoError(t, counter.QueryRow(t.Context(), "SELECT count(*) FROM outbox_events").Scan(&seen))
	}
	wg.Wait()
	stop()
	got += len(until(t, db.DSN, listening, c.Channel))
	assert.LessOrEqual(t, got, int(time.Since(begin)/c.Interval)+3)
	assert.Less(t, got, commits)
}

// TestTheEndOfTheNotifier sends what waits for the end of the interval.
func TestTheEndOfTheNotifier(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	c := config(db.DSN)
	c.Interval = time.Hour
	g := outbox(t, db, quietPlugin)
	listening := ear(t, db.DSN, c.Channel)
	_, stop := startNotifier(t, g, c)
	for range 100 {
		write(t, g, "x")
	}
	stop()
	all := until(t, db.DSN, listening, c.Channel)
	require.Len(t, all, 2, "one for the start and one for all commits")
	for _, n := range all {
		assert.Empty(t, n.Payload)
	}
}

// statements keeps what a pool of pgx sends.
type statements struct {
	mu  sync.Mutex
	sql []string
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sql = append(s.sql, data.SQL)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestTheWritersConnectionDoesNotNotify(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	parsed, err := pgx.ParseConfig(db.DSN)
	require.NoError(t, err)
	sent := &statements{}
	parsed.Tracer = sent
	pool := stdlib.OpenDB(*parsed)
	t.Cleanup(func() { assert.NoError(t, pool.Close()) })
	pool.SetMaxOpenConns(1)
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: pool}), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	use(t, g, quietPlugin)
	var writer uint32
	require.NoError(t, g.Raw("SELECT pg_backend_pid()").Scan(&writer).Error)

	c := config(db.DSN)
	listening := ear(t, db.DSN, c.Channel)
	startNotifier(t, g, c)
	next(t, listening) // the first
	write(t, g, "own transaction")
	assert.NotEqual(t, writer, next(t, listening).PID)
	require.NoError(t, g.Transaction(func(tx *gorm.DB) error { return gormoutbox.Append(tx, event("a user's")) }))
	assert.NotEqual(t, writer, next(t, listening).PID)

	sent.mu.Lock()
	defer sent.mu.Unlock()
	assert.NotEmpty(t, sent.sql)
	inserts := 0
	for _, sql := range sent.sql {
		assert.NotContains(t, strings.ToLower(sql), "notify")
		if strings.Contains(sql, "INSERT INTO \"outbox_events\"") {
			inserts++
		}
	}
	assert.Equal(t, 2, inserts, sent.sql)
}

func TestTwoOutboxesDoNotMix(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	g := db.Open(t)
	var schema string
	require.NoError(t, g.Raw("SELECT current_schema()").Scan(&schema).Error)
	tables := [2]string{schema + ".one_events", schema + ".two_events"}
	var channels []string
	var stops []func()
	for _, table := range tables {
		h := outbox(t, db, gormoutbox.Config{Table: table})
		c := config(db.DSN)
		c.Channel = ""
		l := c
		l.Table = table
		listener, _ := startListener(t, l)
		n, stop := startNotifier(t, h, c)
		assert.Equal(t, listener.Channel(), n.Channel(), "both derive it from the table")
		channels = append(channels, n.Channel())
		stops = append(stops, stop)
		g = h // the second
	}
	require.NotEqual(t, channels[0], channels[1])
	listening := ear(t, db.DSN, channels...)
	write(t, g, "x")
	for _, stop := range stops {
		stop()
	}
	all := until(t, db.DSN, listening, channels[0])
	require.NotEmpty(t, all)
	for _, n := range all {
		assert.Equal(t, channels[1], n.Channel)
	}
}

func TestTheNotifierComesBack(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*proxy){
		"cut":    (*proxy).cut,
		"silent": (*proxy).mute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Postgres(t)
			g := outbox(t, db, quietPlugin)
			p := newProxy(t, db.DSN)
			c := impatient(p.dsn)
			errs := make(chan error, 10_000)
			c.OnError = func(err error) { errs <- err }
			n, stop := startNotifier(t, g, c)
			listening := ear(t, db.DSN, c.Channel)
			p.refuse.Store(true)
			trouble(p)
			for range 20 {
				write(t, g, "nobody waits")
			}
			for range 3 {
				require.ErrorContains(t, <-errs, "pgwake: ")
			}
			assert.False(t, n.Status().Healthy)
			require.Error(t, n.Status().Err)
			p.refuse.Store(false)
			next(t, listening)
			healthy(t, n)
			stop()
			// One for all of them, and another for each answer that did not come in time.
			assert.Less(t, len(until(t, db.DSN, listening, c.Channel)), 10, "not one for each")
		})
	}
}

// TestASilentConnectionIsReplaced before there is something to tell.
func TestASilentConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	g := outbox(t, db, quietPlugin)
	p := newProxy(t, db.DSN)
	n, _ := startNotifier(t, g, impatient(p.dsn))
	before := p.count()
	p.mute()
	eventually(t, "another connection", func() bool { return p.count() > before })
	healthy(t, n)
}
