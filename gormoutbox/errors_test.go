package gormoutbox_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
)

func isCapture(err error) (*gormoutbox.CaptureError, bool) {
	return errors.AsType[*gormoutbox.CaptureError](err)
}

func requireSchemaError(t *testing.T, err error) *gormoutbox.SchemaError {
	t.Helper()
	e, ok := errors.AsType[*gormoutbox.SchemaError](err)
	require.True(t, ok, "want a SchemaError, got: %v", err)
	assert.ErrorContains(t, err, "gormoutbox.Migrate")
	return e
}

func isEvent(err error) (*gormoutbox.EventError, bool) {
	return errors.AsType[*gormoutbox.EventError](err)
}
