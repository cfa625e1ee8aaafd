package gormoutbox

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// Plugin is the GORM plugin. One value may be registered on several *gorm.DB;
// it is safe for concurrent use.
type Plugin struct {
	config    Config
	hub       hub
	instances sync.Map // of *instance by the callbacks of a *gorm.DB
}

var _ gorm.Plugin = (*Plugin)(nil)

// New returns the plugin for db.Use, which reports mistakes in the config.
func New(config Config) *Plugin { return &Plugin{config: config.withDefaults()} }

// Name implements gorm.Plugin.
func (p *Plugin) Name() string { return p.config.Name }

// Tables returns the configured table names.
func (p *Plugin) Tables() Tables { return TablesFor(p.config.Table) }

// instance is the plugin on one *gorm.DB.
type instance struct {
	plugin  *Plugin
	config  Config
	dialect dialect.Dialect
	traits  dialect.Traits
	tables  Tables
	insert  *dialect.EventInsert
	// partitions are those in the database, nil before they were read.
	partitions atomic.Pointer[layout]
	// models has a *model, or nil for types that are not annotated, by *schema.Schema.
	models sync.Map
	owners owners
	plain  plainModels
	// live is how many statements are being captured; too many if one panicked, which costs some nanoseconds.
	live atomic.Int64
	// unique has the unique indexes by table, []dialect.UniqueIndex.
	unique sync.Map
	// given are the annotations by value.
	given map[reflect.Type]Annotated
}

// Initialize implements gorm.Plugin. It needs no connection. Other plugins may
// call it again on the same *gorm.DB, which does nothing.
func (p *Plugin) Initialize(db *gorm.DB) error {
	if db != nil && db.Config != nil {
		if _, done := p.instances.Load(db.Callback()); done {
			return nil
		}
	}
	in, err := p.instance(db)
	if err != nil {
		return err
	}
	if err := in.registerCallbacks(db, emitAnchors); err != nil {
		return err
	}
	if p.config.WatchCommits {
		in.watchCommits(db)
	}
	p.instances.Store(db.Callback(), in)
	return nil
}

// instance checks the config, and all of it, against db.
func (p *Plugin) instance(db *gorm.DB) (*instance, error) {
	d, err := dialect.ForCapture(db)
	if err != nil {
		return nil, errors.Join(&ConfigError{Field: "db", Cause: err.Error(), Cure: "pass an open *gorm.DB of a supported database"}, p.config.validate())
	}
	errs := []error{p.config.validate()}
	if schemaName, _ := dialect.SplitName(p.config.Table); schemaName != "" && d.Name() == "sqlite" {
		errs = append(errs, &ConfigError{Field: "Table", Cause: "SQLite can't have the tables in an attached database", Cure: "remove the schema's name"})
	}
	in := &instance{plugin: p, config: p.config, dialect: d, traits: d.Traits(), tables: p.Tables(), given: map[reflect.Type]Annotated{}}
	in.owners.foldCase = in.traits.FoldsNames
	for _, other := range pluginsOf(db) {
		// Names that differ in the suffix alone share the further tables.
		if other != p && in.owners.fold(other.Tables().Held) == in.owners.fold(p.Tables().Held) {
			errs = append(errs, &ConfigError{
				Field: "Table", Cause: fmt.Sprintf("the plugin %q uses the tables of %s already", other.Name(), other.config.Table),
				Cure: "give this one another Table, or register the plugin once",
			})
		}
	}
	in.insert = dialect.NewEventInsert(d, in.tables.Events)
	errs = append(errs, in.registerModels(db))
	return in, errors.Join(errs...)
}

// pluginsOf lists the plugins of this package on db, by name.
func pluginsOf(db *gorm.DB) []*Plugin {
	var found []*Plugin
	for _, plugin := range db.Plugins {
		if p, ok := plugin.(*Plugin); ok {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *Plugin) int { return strings.Compare(a.Name(), b.Name()) })
	return found
}

// On returns the plugin registered on db: the one of the default name, else the only one.
func On(db *gorm.DB) (*Plugin, error) {
	if db == nil || db.Config == nil {
		return nil, &ConfigError{Field: "db", Cause: "it is nil", Cure: "pass an open *gorm.DB"}
	}
	all := pluginsOf(db)
	for _, p := range all {
		if p.Name() == "gormoutbox" || len(all) == 1 {
			return p, nil
		}
	}
	if len(all) > 1 {
		return nil, &ConfigError{Field: "db", Cause: "it has several outbox plugins and none is called gormoutbox", Cure: "use the methods of the one you mean"}
	}
	return nil, ErrNotRegistered
}

func (p *Plugin) on(db *gorm.DB) (*instance, error) {
	if in, ok := p.instances.Load(db.Callback()); ok {
		return in.(*instance), nil
	}
	return nil, ErrNotRegistered
}

// registerModels checks Config.Models and returns all mistakes together.
func (in *instance) registerModels(db *gorm.DB) error {
	var errs []error
	for i, m := range in.config.Models {
		fail := func(cause, cure string) {
			errs = append(errs, &ConfigError{Field: fmt.Sprintf("Models[%d]", i), Cause: cause, Cure: cure})
		}
		a, byValue := m.(Annotated)
		if byValue {
			m = a.model
		}
		t := typeOfModel(m)
		if t == nil || t.Kind() != reflect.Struct {
			fail(fmt.Sprintf("%T is no model", m), "pass a struct or a pointer to one")
			continue
		}
		_, tagged, _ := findTag(t)
		switch {
		case byValue && tagged && a.tag != "":
			fail(t.String()+" is annotated by its tag and by value", "leave one, or pass an empty tag to Annotate")
			continue
		case byValue && (tagged || a.tag != ""):
			in.given[t] = a
		case byValue:
			fail(t.String()+" is not annotated and the tag is empty", `pass a tag such as "aggregate=order"`)
			continue
		case !tagged:
			fail(t.String()+" is not annotated", "give it a field of type gormoutbox.Emit, or use Annotate")
			continue
		}
		stmt := &gorm.Statement{DB: db}
		if err := stmt.Parse(reflect.New(t).Interface()); err != nil {
			fail(err.Error(), "mend the model, which GORM can't use either; a field of type gormoutbox.Emit must be named _")
			continue
		}
		if _, err := in.model(stmt.Schema); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// model returns the annotated model of a schema, nil if it is not annotated.
func (in *instance) model(s *schema.Schema) (*model, error) {
	if found, ok := in.models.Load(s); ok {
		m, ok := found.(*model)
		if !ok {
			return nil, found.(error) // nothing else is stored
		}
		return m, nil
	}
	given := in.given[s.ModelType]
	tag, annotated := given.tag, given.tag != ""
	var err error
	if !annotated {
		tag, annotated, err = findTag(s.ModelType)
	}
	if !annotated {
		if base := annotatedBase(s.ModelType); base != nil {
			in.config.Logger.Warn("model embeds an annotated one and is not annotated itself, so its saves are no events",
				slog.String("model", s.ModelType.String()), slog.String("embedded", base.String()))
		}
		in.models.Store(s, (*model)(nil))
		return nil, nil
	}
	var m *model
	if err == nil {
		marshal := in.config.Marshal
		if given.marshal != nil {
			marshal = given.marshal
		}
		m, err = compile(s, tag, marshal)
	}
	if err != nil {
		in.models.Store(s, err)
		return nil, err
	}
	in.models.Store(s, m)
	in.owners.add(m)
	return m, nil
}
