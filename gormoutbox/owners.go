package gormoutbox

import (
	"strings"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// owners are the annotated models by the name of their table, to notice writes
// that bypass them.
type owners struct {
	foldCase bool // table names are compared without regard to case
	mu       sync.RWMutex
	byTable  map[string][]*model // by the name without its schema
	count    atomic.Int64
}

func (o *owners) fold(name string) string {
	if o.foldCase {
		return strings.ToLower(name)
	}
	return name
}

func (o *owners) add(m *model) {
	_, table := dialect.SplitName(o.fold(m.schema.Table))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byTable == nil {
		o.byTable = map[string][]*model{}
	}
	o.byTable[table] = append(o.byTable[table], m)
	o.count.Add(1)
}

// of returns a model whose table the statement writes to, or nil.
func (o *owners) of(stmt *gorm.Statement) *model { return o.named(writtenTable(stmt)) }

// named returns a model with that table, or nil. Without a schema's name on
// either side any schema may be meant.
func (o *owners) named(name string) *model {
	schemaName, table := dialect.SplitName(o.fold(name))
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, m := range o.byTable[table] {
		own, _ := dialect.SplitName(o.fold(m.schema.Table))
		if own == "" || schemaName == "" || own == schemaName {
			return m
		}
	}
	return nil
}

// writtenTable is the table behind the statement's: stmt.Table has no schema,
// and of "orders AS o" only the alias.
func writtenTable(stmt *gorm.Statement) string {
	if stmt.TableExpr == nil {
		return stmt.Table
	}
	for i, word := range strings.Fields(stmt.TableExpr.SQL) {
		switch {
		case i == 0 && strings.EqualFold(word, "only"): // UPDATE ONLY orders
			continue
		case word == "?" && len(stmt.TableExpr.Vars) > 0:
			if t, ok := stmt.TableExpr.Vars[0].(clause.Table); ok {
				return t.Name
			}
			return stmt.Table
		}
		return strings.NewReplacer(`"`, "", "`", "", "[", "", "]", "", ",", "").Replace(word)
	}
	return stmt.Table
}
