// Package gormoutbox is a transactional outbox as a GORM plugin: saves of
// annotated models become rows of an outbox table within the same transaction,
// so that a row and its event are committed together or not at all.
//
//	type Order struct {
//		_      gormoutbox.Emit `outbox:"aggregate=order"`
//		ID     uuid.UUID
//		Status string
//		Card   string `outbox:"-"` // never leaves the database
//	}
//
//	err := db.Use(gormoutbox.New(gormoutbox.Config{}))
//	err = gormoutbox.Migrate(ctx, db)
//	err = db.Create(&Order{ID: uuid.New(), Status: "placed"}).Error
//
// An event says what the database holds after the write: the row is read back
// within the transaction. A write that can't be captured truly is refused with a
// *CaptureError before it is made. Domain events are written with Append.
//
// Not seen are Exec and Raw, what the database itself does (ON DELETE CASCADE,
// triggers), and writes to a model's table that bypass the model before the model
// was used or given in Config.Models; later ones are refused. MySQL and MariaDB do not count
// rows that already had the values, so a save that changes nothing is no update there.
//
// The rows are published by package relay.
package gormoutbox
