package capturetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// clock is fixed, so that rows of both databases are equal, and finer than
// most databases store.
func clock() time.Time { return time.Date(2021, 3, 4, 5, 6, 7, 123456789, time.UTC) }

// side is one of the two databases.
type side struct {
	db     *gorm.DB
	tables []sideTable
	// events is the outbox table, empty without the plugin.
	events string
	// first is where generated keys begin.
	first int
	// schema is the name of MySQL's database, which its errors tell.
	schema string
}

type sideTable struct {
	table
	quoted string
	// auto is the column with a generated key, and counter PostgreSQL's sequence of it.
	auto, counter string
}

// short is the name without that of the schema.
func (t sideTable) short() string { return t.name[strings.LastIndex(t.name, ".")+1:] }

func openSide(t *testing.T, target Target, w world, plugin *gormoutbox.Plugin) *side {
	t.Helper()
	db := target.Open(t)
	s := &side{db: db}
	steps := []func(*gorm.DB) error{w.configure, target.Before}
	if plugin != nil {
		s.events = plugin.Tables().Events
		steps = append(steps, func(db *gorm.DB) error { return db.Use(plugin) },
			func(db *gorm.DB) error { return gormoutbox.Migrate(t.Context(), db) })
	}
	create := w.create
	if create == nil {
		create = func(db *gorm.DB) error {
			for _, table := range w.tables {
				if err := db.AutoMigrate(table.model); err != nil {
					return err
				}
			}
			return nil
		}
	}
	steps = append(steps, target.After, create, func(db *gorm.DB) error { return s.lookUp(w.tables) })
	for _, step := range steps {
		if step == nil {
			continue
		}
		if err := step(db); err != nil {
			t.Fatalf("capturetest: preparing a database: %v", err)
		}
	}
	return s
}

// lookUp finds the names of the database, of tables and of sequences.
func (s *side) lookUp(tables []table) error {
	if s.db.Name() == "mysql" {
		if err := s.db.Raw("SELECT database()").Scan(&s.schema).Error; err != nil {
			return err
		}
	}
	for _, t := range tables {
		stmt := &gorm.Statement{DB: s.db}
		found := sideTable{table: t}
		if t.model != nil {
			if err := stmt.Parse(t.model); err != nil {
				return err
			}
			found.name = cmp.Or(t.name, stmt.Schema.Table)
			if f := stmt.Schema.PrioritizedPrimaryField; f != nil && f.AutoIncrement {
				found.auto = f.DBName
			}
		}
		found.quoted = stmt.Quote(found.name)
		if found.auto != "" && s.db.Name() == "postgres" {
			if err := s.db.Raw("SELECT pg_get_serial_sequence(?, ?)", found.quoted, found.auto).Scan(&found.counter).Error; err != nil {
				return err
			}
		}
		s.tables = append(s.tables, found)
	}
	return nil
}

// quiet is for what the suite does itself.
func (s *side) quiet() *gorm.DB {
	return s.db.Session(&gorm.Session{NewDB: true, Context: gormoutbox.Ignore(context.Background()), NowFunc: clock})
}

// full returns the names of tables that have rows.
func (s *side) full() (map[string]bool, error) {
	queries := make([]string, len(s.tables))
	for i, t := range s.tables {
		queries[i] = fmt.Sprintf("SELECT '%s' AS name WHERE EXISTS (SELECT 1 FROM %s)", t.name, t.quoted)
	}
	var names []string
	if err := s.quiet().Raw(strings.Join(queries, " UNION ALL ")).Scan(&names).Error; err != nil {
		return nil, err
	}
	full := map[string]bool{}
	for _, name := range names {
		full[name] = true
	}
	return full, nil
}

// reset empties all tables, lets generated keys begin at s.first, and prepares a case.
func (s *side) reset(prepare func(tx *gorm.DB) error) error {
	full, err := s.full()
	if err != nil {
		return err
	}
	statements := s.countersBack()
	if s.events != "" {
		statements = append(statements, "DELETE FROM "+s.db.Statement.Quote(s.events))
	}
	for _, t := range slices.Backward(s.tables) {
		if full[t.name] || t.auto != "" && s.db.Name() == "mysql" {
			statements = append(statements, "DELETE FROM "+t.quoted)
		}
	}
	return s.quiet().Transaction(func(tx *gorm.DB) error {
		for _, statement := range statements {
			if err := tx.Exec(statement).Error; err != nil {
				return err
			}
		}
		return prepare(tx)
	})
}

// countersBack are statements that set the counters of keys.
func (s *side) countersBack() []string {
	var calls, names, inserts []string
	for _, t := range s.tables {
		if t.auto == "" {
			continue
		}
		calls = append(calls, fmt.Sprintf("setval('%s', %d, false)", t.counter, s.first))
		names = append(names, fmt.Sprintf("('%s', %d)", t.name, s.first-1))
		inserts = append(inserts, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%d)", t.quoted, t.auto, s.first-1))
	}
	switch {
	case len(calls) == 0:
		return nil
	case s.db.Name() == "postgres":
		return []string{"SELECT " + strings.Join(calls, ", ")}
	case s.db.Name() == "sqlite":
		return []string{"DELETE FROM sqlite_sequence", "INSERT INTO sqlite_sequence (name, seq) VALUES " + strings.Join(names, ", ")}
	default:
		// Putting a counter back takes an ALTER TABLE; moving it on takes a row.
		return inserts
	}
}

// contents are all rows of all tables.
type contents struct {
	// raw are the rows by table as the driver returns them.
	raw map[string][]map[string]any
	// rows are those of annotated models by aggregate type and id.
	rows map[string]map[string]savedRow
}

func (s *side) contents() (contents, error) {
	c := contents{raw: map[string][]map[string]any{}, rows: map[string]map[string]savedRow{}}
	full, err := s.full()
	if err != nil {
		return c, err
	}
	for _, t := range s.tables {
		if !full[t.name] {
			continue
		}
		var raw []map[string]any
		if err := s.quiet().Table(t.name).Find(&raw).Error; err != nil {
			return c, err
		}
		slices.SortFunc(raw, func(a, b map[string]any) int { return strings.Compare(asText(a), asText(b)) })
		c.raw[t.short()] = raw
		if t.rows == nil {
			continue
		}
		rows, err := t.rows(s.quiet().Unscoped().Table(t.name))
		if err != nil {
			return c, err
		}
		if c.rows[t.aggregate] == nil {
			c.rows[t.aggregate] = map[string]savedRow{}
		}
		maps.Copy(c.rows[t.aggregate], rows)
	}
	return c, nil
}

func asText(row map[string]any) string {
	text, err := json.Marshal(row)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// storedEvent is an outbox row as the suite looks at it.
type storedEvent struct {
	AggregateType string
	AggregateID   string
	EventType     string
	Payload       []byte
	Headers       string
}

func (s *side) storedEvents() (all []storedEvent, err error) {
	return all, s.quiet().Table(s.events).Order("seq").Find(&all).Error
}

// ran is what a case did on one side.
type ran struct {
	outcome
	txErr    error
	panicked any
}

func (s *side) run(c Case, m mode) (r ran) {
	// What a panic of GORM leaves open ends with the context.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	session := m.session
	session.Context, session.NowFunc = ctx, clock
	db := s.db.Session(&session)
	defer func() { r.panicked = recover() }()
	if !m.inTx {
		r.outcome = c.write(db)
		return r
	}
	write := func(tx *gorm.DB) error {
		r.outcome = c.write(tx)
		return nil // the user ignores the error
	}
	if m.nested {
		write = func(tx *gorm.DB) error {
			return tx.Transaction(func(tx *gorm.DB) error { r.outcome = c.write(tx); return nil })
		}
	}
	r.txErr = db.Transaction(write)
	return r
}

// idle waits until no connection is in use, which should be at once.
func (s *side) idle(wait time.Duration) error {
	pool, err := s.db.DB()
	if err != nil {
		return err
	}
	for end := time.Now().Add(wait); ; time.Sleep(time.Millisecond) {
		inUse := pool.Stats().InUse
		if inUse == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d connections are in use", inUse)
		}
	}
}
