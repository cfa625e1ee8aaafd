package bench_test

import (
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv"
)

var quiet = slog.New(slog.DiscardHandler)

const rounds = 5

// variant is one way to do the work. run returns how many units it did; the first variant is what the
// others are compared with.
type variant struct {
	name string
	run  func(b *testing.B) int
	// prepare, if set, comes before each run and is not counted.
	prepare func(b *testing.B)
}

// interleave runs the variants in turn and reports units a second and the ratios to the first.
func interleave(b *testing.B, variants ...variant) {
	b.Helper()
	rates := make([][]float64, len(variants))
	for round := range rounds + 1 {
		for i, v := range variants {
			if v.prepare != nil {
				v.prepare(b)
			}
			begin := time.Now()
			n := v.run(b)
			if round > 0 { // the first one warms up
				rates[i] = append(rates[i], float64(n)/time.Since(begin).Seconds())
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, v := range variants {
		b.ReportMetric(median(rates[i]), v.name+"/s")
		if i == 0 {
			continue
		}
		ratios := make([]float64, rounds)
		for r := range rounds {
			ratios[r] = rates[i][r] / rates[0][r]
		}
		b.ReportMetric(median(ratios), v.name+":"+variants[0].name)
	}
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

// parallel calls fn n times from c goroutines.
func parallel(b *testing.B, c, n int, fn func(i int) error) int {
	b.Helper()
	var wg sync.WaitGroup
	errs := make(chan error, c)
	for w := range c {
		wg.Go(func() {
			for i := w; i < n; i += c {
				if err := fn(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	require.NoError(b, <-errs)
	return n
}

func eachDatabase(b *testing.B, fn func(b *testing.B, db testenv.Database)) {
	b.Helper()
	for _, d := range []struct {
		name string
		make func(testing.TB) testenv.Database
	}{{"postgres", testenv.Postgres}, {"mariadb", testenv.MariaDB}, {"sqlite", testenv.SQLite}} {
		b.Run(d.name, func(b *testing.B) { fn(b, d.make(b)) })
	}
}

func connections(b *testing.B, g *gorm.DB, n int) *gorm.DB {
	b.Helper()
	pool, err := g.DB()
	require.NoError(b, err)
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	return g
}
