package main

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// header says what was measured on, and begins the table. Each row follows as soon as it is known.
func (b *bench) header(ctx context.Context) error {
	var version, fsync, commit string
	err := b.postgres.with(ctx, func(pool *sql.DB) error {
		return pool.QueryRowContext(ctx, "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')").Scan(&version, &fsync, &commit)
	})
	if err != nil {
		return fmt.Errorf("asking PostgreSQL for its settings: %w", err)
	}
	fmt.Printf("PostgreSQL %s with fsync=%s and synchronous_commit=%s", version, fsync, commit)
	err = b.mariadb.with(func(pool *sql.DB) error {
		return pool.QueryRowContext(ctx, "SELECT @@version, @@innodb_flush_log_at_trx_commit").Scan(&version, &commit)
	})
	if err == nil { // else the figures that need it will say so
		fmt.Printf(", MariaDB %s with innodb_flush_log_at_trx_commit=%s", version, commit)
	}
	fmt.Printf(", %s, %d cores, %d rounds", runtime.Version(), runtime.NumCPU(), b.rounds)
	if b.small {
		fmt.Print(", SMALL: these figures mean nothing")
	}
	fmt.Print("\n\n| figure | case | measure | median | rounds |\n| --- | --- | --- | --- | --- |\n")
	return nil
}

// row is a line of the table, with the median of the values and all of them.
func (b *bench) row(what, measure string, values []float64) {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = number(v)
	}
	fmt.Printf("| %s | %s | %s | %s | %s |\n", b.figure, what, measure, number(median(values)), strings.Join(all, " "))
}

// compare prints the rate of the base and the ratios of the others to it.
func (b *bench) compare(what string, m measured, base string, others ...string) {
	b.row(what, base+perSecond, m.of(base, perSecond))
	for _, other := range others {
		b.row(what, other+" : "+base, m.ratios(other, base, perSecond))
	}
}

// number has as many digits as can be believed.
func number(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
