package gormoutbox_test

import (
	"errors"

	"github.com/gormoutbox/outbox/gormoutbox"
)

func isCapture(err error) (*gormoutbox.CaptureError, bool) {
	return errors.AsType[*gormoutbox.CaptureError](err)
}
