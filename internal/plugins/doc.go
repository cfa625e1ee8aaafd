// Package plugins holds tests of the outbox beside other plugins of GORM, in
// one process and on one *gorm.DB.
//
// It is a module of its own, so that what those plugins require stays out of
// the go.mod of this project. "make plugins" runs it.
package plugins
