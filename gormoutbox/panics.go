package gormoutbox

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// recovered turns a panic of fn into an error: a panic in a callback would leak
// the connection and its locks. The panic's value is not in the error, as it
// may hold data of the row; its type and place are.
func recovered(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("gormoutbox: panic of type %T%s; mend the function that panicked, such as a marshaller or one of Config", p, panicSite())
		}
	}()
	return fn()
}

// panicSite is " in FUNCTION (FILE:LINE)" of the panic that is being recovered.
func panicSite() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	panicking := false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if panicking && !inRuntime {
			return fmt.Sprintf(" in %s (%s:%d)", frame.Function, path.Base(frame.File), frame.Line)
		}
		panicking = panicking || frame.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}
