package gormoutbox_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/gormoutbox/capturetest"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// plantedVariable makes TestPlantedFault run, which fails.
const plantedVariable = "GORMOUTBOX_PLANTED_FAULT"

// TestPlantedFault is the suite on a plugin whose events say what memory says. It is run by the test below.
func TestPlantedFault(t *testing.T) {
	database := map[string]func(testing.TB) testenv.Database{
		"postgres": testenv.Postgres, "mysql": testenv.MySQLPath, "sqlite": testenv.SQLite, "mariadb": testenv.MariaDB,
	}[os.Getenv(plantedVariable)]
	if database == nil {
		return
	}
	capturetest.Run(t, capturetest.Target{
		Open:  func(t *testing.T) *gorm.DB { return database(t).Open(t) },
		After: gormoutbox.TakeRowsFromMemory,
	})
}

// Each case in which memory is not the row fails if the events come from memory, so the suite would notice.
func TestSuiteNoticesEventsFromMemory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestPlantedFault$/memory:")
		cmd.Env = append(os.Environ(), plantedVariable+"="+db.Name)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "the suite fails")
		cases := 0
		for _, c := range capturetest.Cases() {
			if !strings.HasPrefix(c.Name, "memory:") {
				continue
			}
			name := strings.ReplaceAll(c.ID+" "+c.Name, " ", "_")
			if !strings.Contains(string(out), "--- FAIL: TestPlantedFault/"+name+" ") {
				assert.Contains(t, notInMemory[db.Name], c.ID, "%s passes with events from memory", name)
			}
			cases++
		}
		assert.GreaterOrEqual(t, cases, 11)
	})
}

// notInMemory are cases in which memory happens to be the row: SQLite keeps times as they are, and GORM has the columns
// that it makes returned.
var notInMemory = map[string][]string{"sqlite": {"C01", "C27"}}
