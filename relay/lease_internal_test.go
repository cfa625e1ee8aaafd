package relay

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// migrated is a fresh database with a relay on it that does not run.
func migrated(t testing.TB, db testenv.Database, config Config) (*gorm.DB, *Relay) {
	t.Helper()
	g := db.Open(t)
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{})))
	require.NoError(t, gormoutbox.Migrate(t.Context(), g))
	config.Logger = slog.New(slog.DiscardHandler)
	r, err := New(g, publishFunc(nil), config)
	require.NoError(t, err)
	return g, r
}

func write(t testing.TB, g *gorm.DB, aggregate string, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{AggregateType: "a", AggregateID: aggregate, Type: "e", Payload: p}))
	}
}

func number(t testing.TB, g *gorm.DB, query string) (n int64) {
	t.Helper()
	require.NoError(t, g.Raw(query).Scan(&n).Error)
	return n
}

func TestClaimsAtOnceNeverOverlap(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		_, r := migrated(t, db, Config{})
		var mu sync.Mutex
		owner := map[int]int{}
		var wg sync.WaitGroup
		for w := range 6 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), 1))
				ctx := context.WithoutCancel(t.Context())
				for range 15 {
					got, err := r.store.claim(ctx, fmt.Sprint(w), 1+random.IntN(30), time.Minute)
					if !assert.NoError(t, err) {
						return
					}
					mu.Lock()
					for _, l := range got {
						if other, taken := owner[l.part]; taken {
							t.Errorf("partition %d has the owners %d and %d", l.part, other, w)
						}
						owner[l.part] = w
					}
					for _, l := range got {
						delete(owner, l.part)
					}
					if err := r.store.release(ctx, got); err != nil {
						t.Errorf("releasing: %v", err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		all, err := r.store.claim(t.Context(), "last", 1000, time.Minute)
		require.NoError(t, err)
		assert.Len(t, all, gormoutbox.DefaultPartitions)
		none, err := r.store.claim(t.Context(), "none", 1000, time.Minute)
		require.NoError(t, err)
		assert.Empty(t, none)
	})
}

// TestClaimsThatRace keep what they got, so that overlaps show in the table.
func TestClaimsThatRace(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		_, r := migrated(t, db, Config{})
		start := make(chan struct{})
		got := make([][]lease, 8)
		var wg sync.WaitGroup
		for w := range got {
			wg.Go(func() {
				<-start
				var err error
				got[w], err = r.store.claim(context.WithoutCancel(t.Context()), fmt.Sprint(w), 8, time.Minute)
				assert.NoError(t, err)
			})
		}
		close(start)
		wg.Wait()
		seen := map[int]bool{}
		for _, ls := range got {
			assert.LessOrEqual(t, len(ls), 8)
			for _, l := range ls {
				assert.False(t, seen[l.part], l.part)
				seen[l.part] = true
			}
		}
	})
}

// TestTheTokenGuardsEverySettlement: a relay whose lease was taken records nothing.
func TestTheTokenGuardsEverySettlement(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g, r := migrated(t, db, Config{})
		for i, v := range []verdict{published, retryLater, park, setAside, release} {
			mine, err := r.store.claim(t.Context(), "me", 1000, time.Minute)
			require.NoError(t, err)
			require.Len(t, mine, gormoutbox.DefaultPartitions)
			write(t, g, fmt.Sprint("k", i), "x")
			p, err := r.reader.read(t.Context(), mine, 10)
			require.NoError(t, err)
			it := &p.items[len(p.items)-1]
			it.head = v == release
			exec := func(query string) { require.NoError(t, g.Exec(query).Error) }
			exec("UPDATE outbox_partitions SET token = 'other', owner = 'other'")
			s, err := r.settler.settle(t.Context(), mine, []decision{{item: it, verdict: v, err: "no"}})
			require.NoError(t, err)
			assert.Equal(t, []int{it.Part}, s.lost, v)
			assert.Empty(t, s.done, v)
			assert.Empty(t, s.held, v)
			assert.Empty(t, s.released, v)
			assert.Zero(t, number(t, g, "SELECT COUNT(*) FROM outbox_held"), v)
			assert.Zero(t, number(t, g, "SELECT COUNT(*) FROM outbox_events WHERE attempts > 0 OR processed_at IS NOT NULL OR parked_at IS NOT NULL"), v)
			exec("UPDATE outbox_partitions SET token = '', owner = '', expires_at = NULL")
		}
	})
}

// TestASettlementTwice: the first commit's answer did not arrive.
func TestASettlementTwice(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g, r := migrated(t, db, Config{})
		mine, err := r.store.claim(t.Context(), "me", 1000, time.Minute)
		require.NoError(t, err)
		write(t, g, "done", "done")
		write(t, g, "parked", "parked")
		write(t, g, "retried", "retried")
		p, err := r.reader.read(t.Context(), mine, 10)
		require.NoError(t, err)
		require.Len(t, p.items, 3)
		var ds []decision
		for i := range p.items {
			v := map[string]verdict{"done": published, "parked": park, "retried": retryLater}[p.items[i].AggregateID]
			ds = append(ds, decision{item: &p.items[i], verdict: v, err: "no", after: time.Hour})
		}
		for range 3 {
			s, err := r.settler.settle(t.Context(), mine, ds)
			require.NoError(t, err)
			assert.Len(t, s.done, 3)
			assert.Empty(t, s.lost)
		}
		assert.EqualValues(t, 2, number(t, g, "SELECT COUNT(*) FROM outbox_events WHERE attempts = 1"), "charged once")
		assert.EqualValues(t, 2, number(t, g, "SELECT COUNT(*) FROM outbox_held"))
		assert.EqualValues(t, 1, number(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NOT NULL"))

		// Released twice, too.
		var heads []decision
		for i := range ds {
			if ds[i].verdict != published {
				ds[i].item.head = true
				heads = append(heads, decision{item: ds[i].item, verdict: published})
			}
		}
		for range 2 {
			s, err := r.settler.settle(t.Context(), mine, heads)
			require.NoError(t, err)
			assert.Len(t, s.released, 2)
		}
		assert.Zero(t, number(t, g, "SELECT COUNT(*) FROM outbox_held"))
		assert.Zero(t, number(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL OR parked_at IS NOT NULL"))
	})
}

// TestReleasingLowersTheSavedMark in the same transaction, for the next owner after a crash.
func TestReleasingLowersTheSavedMark(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g, r := migrated(t, db, Config{})
		write(t, g, "k", "0")
		mine, err := r.store.claim(t.Context(), "me", 1000, time.Minute)
		require.NoError(t, err)
		p, err := r.reader.read(t.Context(), mine, 10)
		require.NoError(t, err)
		it := &p.items[0]
		it.head = true
		require.NoError(t, r.store.saveLow(t.Context(), mine, func(lease) int64 { return 1000 }))
		_, err = r.settler.settle(t.Context(), mine, []decision{{item: it, verdict: published}})
		require.NoError(t, err)
		assert.Equal(t, it.Seq-1, number(t, g, fmt.Sprint("SELECT low FROM outbox_partitions WHERE part = ", it.Part)))
		assert.EqualValues(t, 63, number(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE low = 1000"))
		require.NoError(t, r.store.saveLow(t.Context(), []lease{{part: it.Part, token: "not mine"}}, func(lease) int64 { return 5 }))
		assert.Equal(t, it.Seq-1, number(t, g, fmt.Sprint("SELECT low FROM outbox_partitions WHERE part = ", it.Part)), "only its owner moves a mark")
	})
}

// TestLanesStopWhenTheLeaseIsTaken in the table: the heartbeat notices.
func TestLanesStopWhenTheLeaseIsTaken(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		entered, leave := make(chan struct{}, 1), make(chan struct{})
		g, r := migrated(t, db, Config{Lease: 900 * time.Millisecond, Classify: func(error) Class { return Retryable }})
		published := make(chan string, 10)
		r.sender.(*lanes).publisher = publishFunc(func(msg *message.Message) error {
			published <- string(msg.Payload)
			entered <- struct{}{}
			<-leave
			return errFake
		})
		write(t, g, "k", "0", "1")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		<-entered
		part := gormoutbox.Partition("a", "k", gormoutbox.DefaultPartitions)
		in := r.store.dialect.NowPlus(time.Hour)
		require.NoError(t, g.Exec("UPDATE outbox_partitions SET token = 'other', owner = 'other', expires_at = "+in).Error)
		require.Eventually(t, func() bool { return !r.leases.valid(part) }, time.Minute, time.Millisecond)
		close(leave)
		cancel()
		require.NoError(t, <-done)
		assert.Len(t, published, 1)
		assert.Zero(t, number(t, g, "SELECT COUNT(*) FROM outbox_held"), "what failed is not recorded")
		assert.Zero(t, number(t, g, "SELECT COUNT(*) FROM outbox_events WHERE attempts > 0 OR processed_at IS NOT NULL"))
		assert.EqualValues(t, 64, number(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE owner = 'other'"), "nor given back")
	})
}
