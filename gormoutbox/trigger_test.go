package gormoutbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Rekeyed has a trigger that gives some rows another key.
type Rekeyed struct {
	_    gormoutbox.Emit `outbox:"aggregate=rekeyed"`
	ID   string          `gorm:"primaryKey;size:8"`
	Name string
}

var rekeying = map[string][]string{
	"mysql": {"CREATE TRIGGER rekey BEFORE INSERT ON rekeyeds FOR EACH ROW BEGIN IF NEW.name = 'key' THEN SET NEW.id = 'K'; END IF; END"},
	"postgres": {
		`CREATE FUNCTION rekey() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.name = 'key' THEN NEW.id := 'K'; END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER rekey BEFORE INSERT ON rekeyeds FOR EACH ROW EXECUTE FUNCTION rekey()`,
	},
}

// A row whose key is changed by a trigger has an event with that key, or is not written.
func TestTriggerThatChangesTheKey(t *testing.T) {
	t.Parallel()
	for _, make := range []func(testing.TB) testenv.Database{testenv.Postgres, testenv.MariaDB, testenv.MySQLPath} {
		db := make(t)
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, db, gormoutbox.Config{}, &Rekeyed{})
			for _, stmt := range rekeying[g.Name()] {
				require.NoError(t, g.Exec(stmt).Error)
			}
			for _, write := range []func() error{
				func() error { return g.Create(&Rekeyed{ID: "a", Name: "key"}).Error },
				func() error { return g.Save(&Rekeyed{ID: "b", Name: "key"}).Error },
				func() error { return g.Save(&[]Rekeyed{{ID: "c", Name: "key"}, {ID: "d", Name: "n"}}).Error },
			} {
				err := write()
				if db.Name == "postgres" {
					require.NoError(t, err)
				} else if err != nil {
					_, ok := isCapture(err)
					assert.True(t, ok, err)
				}
				var rows []Rekeyed
				require.NoError(t, g.Find(&rows).Error)
				told := map[string]bool{}
				for _, e := range events(t, g) {
					told[e.AggregateID] = true
				}
				for _, row := range rows {
					assert.True(t, told[row.ID], row.ID)
				}
				require.NoError(t, ignoring(g).Where("1 = 1").Delete(&Rekeyed{}).Error)
				require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
				idle(t, g)
			}
		})
	}
}
