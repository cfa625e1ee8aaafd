package dedup

import (
	"context"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"
)

type sessionKey struct{}

// session is what the message's context carries while the handler runs.
type session struct {
	db    *gorm.DB
	msg   *message.Message // nil in Do
	key   key
	outer *session // the one within which this one runs, as Do in a handler
	ended atomic.Bool
}

func sessionOf(ctx context.Context) *session {
	if ctx == nil {
		return nil
	}
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}

// handling tells whether the message is inside of a handler of dedup already. Its
// context alone does not say so: Pub/Subs in memory may pass on the context of
// a handler that published the message.
func handling(ctx context.Context, msg *message.Message, k key) bool {
	for s := sessionOf(ctx); s != nil; s = s.outer {
		if !s.ended.Load() && (msg != nil && s.msg == msg || s.key == k) {
			return true
		}
	}
	return false
}

// Tx returns the transaction of the message whose handler (or function under Do) runs with ctx, or with a
// context that ctx was made from. Its statements run under ctx. Everything that is
// written through it is committed with the record of the message, when the
// handler has returned nil.
//
// Use it in the handler only, and in one goroutine at a time: after the handler has returned every call fails with
// sql.ErrTxDone. Don't call Commit or Rollback on it; Transaction makes a savepoint.
//
// Without a transaction in ctx the result is not nil, but every call on it fails
// with a *NoMiddlewareError.
func Tx(ctx context.Context) *gorm.DB {
	s := sessionOf(ctx)
	if s == nil {
		e := &NoMiddlewareError{}
		if ctx != nil {
			e.Handler = message.HandlerNameFromCtx(ctx)
		}
		return refuse(ctx, e)
	}
	return s.db.Session(&gorm.Session{NewDB: true, Context: ctx})
}
