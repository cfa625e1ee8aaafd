// Package capturetest is the conformance suite of package gormoutbox: every way
// to write with GORM, and what must come of it.
//
// Run it against your driver, your mix of plugins or your fork:
//
//	func TestCapture(t *testing.T) {
//		capturetest.Run(t, capturetest.Target{Open: open})
//	}
//
// Every case runs on two databases, one with the plugin and one without, once
// directly and once inside of a transaction of the user. What is checked:
//
//  1. The events: types, aggregate ids, order, and what a case says about
//     their headers. The payload of the last event of an aggregate is its row as the database
//     holds it, read by a separate query; that of a delete is the row before.
//     Every row that changed has an event.
//  2. The values that the user passed, the number of rows and the error are those of the database
//     without the plugin, and so are the rows of all tables afterwards.
//  3. What is refused is a *gormoutbox.CaptureError with a cause and a cure, and changes nothing.
//  4. No connection is left in use and nothing panics that does not panic in GORM itself.
//
// No case is ever skipped: one that does not apply to a database says what comes of it there.
package capturetest
