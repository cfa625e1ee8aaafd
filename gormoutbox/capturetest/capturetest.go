package capturetest

import (
	"testing"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// Target is what the suite runs against.
type Target struct {
	// Open returns a pool on a fresh, empty database, another one at each call, and closes it at the end of
	// the test. It has no outbox plugin yet. Required.
	Open func(t *testing.T) *gorm.DB
	// Config is that of the plugin. The suite adds its models. Marshal must be nil, as payloads are compared with rows.
	Config gormoutbox.Config
	// Before and After register further plugins, before and after the outbox plugin,
	// on databases with and without it. Defaults to none.
	Before, After func(db *gorm.DB) error
}

// Run runs every case as a subtest and logs how many there are. It opens two
// databases for all cases but a few, which have some of their own.
func Run(t *testing.T, target Target) {
	t.Helper()
	if target.Open == nil || target.Config.Marshal != nil {
		t.Fatal("capturetest: Target needs Open, and a Config without Marshal")
	}
	common := open(t, target, commonWorld())
	cases := Cases()
	for _, c := range cases {
		p := common
		if c.world != nil {
			p = nil
		}
		t.Run(c.ID+" "+c.Name, func(t *testing.T) {
			if p == nil {
				p = open(t, target, *c.world)
			}
			for _, m := range append([]mode{direct, inTransaction}, c.modes...) {
				t.Run(m.name, func(t *testing.T) { p.check(t, c, m) })
			}
		})
	}
	t.Logf("capturetest: %d cases on %v", len(cases), common.variants)
}

// pair are two databases that differ by the plugin alone.
type pair struct {
	features
	captured *side
	plain    *side
}

func open(t *testing.T, target Target, w world) *pair {
	t.Helper()
	config := target.Config
	config.Models = append(append([]any{}, config.Models...), w.models()...)
	plugin := gormoutbox.New(config)
	p := &pair{
		captured: openSide(t, target, w, plugin),
		plain:    openSide(t, target, w, nil),
	}
	var err error
	if p.features, err = detect(p.plain.db, w.probe); err != nil {
		t.Fatalf("capturetest: %v", err)
	}
	return p
}

// moveOn lets generated keys begin anew; on MySQL above those that there were, which is cheaper than below.
func (p *pair) moveOn() {
	if p.captured.db.Name() == "mysql" {
		p.first += 20 * p.step
	}
	p.captured.first, p.plain.first = p.first, p.first
}

// mode is a kind of session that a case runs in.
type mode struct {
	name string
	// inTx is a transaction of the user, nested one in another.
	inTx, nested bool
	session      gorm.Session
}

// skips says that GORM opens no transaction.
func (m mode) skips(db *gorm.DB) bool {
	return !m.inTx && (m.session.SkipDefaultTransaction || db.SkipDefaultTransaction)
}

var (
	direct        = mode{name: "direct"}
	inTransaction = mode{name: "in a transaction", inTx: true}
	inSavepoint   = mode{name: "in a nested transaction", inTx: true, nested: true}
	// Without GORM's transactions the plugin opens its own.
	skipTransaction = mode{name: "SkipDefaultTransaction", session: gorm.Session{SkipDefaultTransaction: true}}
	prepared        = mode{name: "PrepareStmt", session: gorm.Session{PrepareStmt: true}}
)
