package gormoutbox

import (
	"maps"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// plainModels are the models that are not annotated. Every statement of the
// process passes by here several times, so looking up costs a few nanoseconds: the map is replaced, never
// changed. The value is how many annotated models were known when its table was found to be none of theirs.
type plainModels struct {
	mu    sync.Mutex
	known atomic.Pointer[map[*schema.Schema]int64]
	// last is the one that was seen last, since the callbacks of one statement ask for the same.
	last atomic.Pointer[schema.Schema]
}

// has says whether the model of the statement is not annotated.
func (p *plainModels) has(stmt *gorm.Statement) bool {
	m := p.known.Load()
	if m == nil || stmt.Schema == nil {
		return false
	}
	if stmt.Schema == p.last.Load() {
		return true
	}
	_, ok := (*m)[stmt.Schema]
	if ok {
		p.last.Store(stmt.Schema)
	}
	return ok
}

// free says whether the statement writes to the model's own table, which belonged to none of n annotated models.
func (p *plainModels) free(stmt *gorm.Statement, n int64) bool {
	m := p.known.Load()
	if m == nil || stmt.Schema == nil || stmt.TableExpr != nil || stmt.Table != stmt.Schema.Table {
		return false
	}
	seen, ok := (*m)[stmt.Schema]
	return ok && seen == n
}

func (p *plainModels) add(s *schema.Schema, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[*schema.Schema]int64{}
	if old := p.known.Load(); old != nil {
		next = maps.Clone(*old)
	}
	next[s] = n
	p.known.Store(&next)
}
