package deduptest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup/deduptest"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// trial is a test that is looked at.
type trial struct {
	testing.TB

	errors   []string
	cleanups []func()
}

func (t *trial) Helper()           {}
func (t *trial) Cleanup(fn func()) { t.cleanups = append(t.cleanups, fn) }
func (t *trial) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

// TestFailuresThatNeverCame: a test whose commits were to fail and did not has tested nothing.
func TestFailuresThatNeverCame(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"seen": 0, "made before": 1} {
		db := testenv.SQLite(t).Open(t)
		earlier := db.WithContext(t.Context())
		one := &trial{TB: t}
		commits := deduptest.WatchCommits(one, db)
		commits.FailNext(deduptest.CommitRefused)
		if name == "made before" {
			db = earlier
		}
		err := db.Transaction(func(*gorm.DB) error { return nil })
		assert.Equal(t, want == 0, err != nil, "%s: %v", name, err)
		require.Len(t, one.cleanups, 1)
		one.cleanups[0]()
		require.Len(t, one.errors, want, name)
		assert.Equal(t, want == 1, strings.Contains(strings.Join(one.errors, ""), "1 commits were to fail"), name)
	}
}
