package dedup

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/ThreeDotsLabs/watermill/message"
)

// OrderError is a middleware of Watermill at a place where it loses messages or effects.
type OrderError struct {
	// Handler is the name of the router's handler, empty if it is not known yet.
	Handler string
	// Middleware is Watermill's name of it.
	Middleware string
	Cause      string
	Cure       string
}

// Error implements error.
func (e *OrderError) Error() string {
	where := ""
	if e.Handler != "" {
		where = fmt.Sprintf(" of handler %q", e.Handler)
	}
	return fmt.Sprintf("dedup: order of middlewares%s: %s: %s; %s", where, e.Middleware, e.Cause, e.Cure)
}

// harm is what a middleware does inside of dedup, and outside, empty if it does none there.
type harm struct{ prefix, file, name, inside, outside, cure string }

const (
	watermillMiddleware = "github.com/ThreeDotsLabs/watermill/message/router/middleware."
	ours                = "github.com/gormoutbox/outbox/dedup.(*Deduplicator).Middleware"
	addBefore           = "add it before dedup, which package chain does"
)

var harms = []harm{
	{"poisonQueue.Middleware", "poison.go", "PoisonQueue", "it turns an error into success, so that dedup commits the work that failed", "", addBefore},
	{"IgnoreErrors.Middleware", "ignore_errors.go", "IgnoreErrors", "it turns an error into success, so that dedup commits the work that failed", "", addBefore},
	{
		"Retry.Middleware", "retry.go", "Retry", "all attempts share one transaction, which has what those before have written, and which PostgreSQL has aborted after the first error", "",
		addBefore + ", or set Config.AnyOrder if the handler does all its work in a savepoint, by dedup.Tx(ctx).Transaction",
	},
	{"Duplicator", "duplicator.go", "Duplicator", "it runs the handler twice in one transaction", "", addBefore},
	{
		"(*Deduplicator).Middleware", "deduplicator.go", "Deduplicator", "it takes a message for handled whose handler has failed, so that dedup records it as such", "it takes a message for handled whose handler has failed, which is lost then",
		"remove it: dedup is there instead",
	},
	{"InstantAck", "instant_ack.go", "InstantAck", "it acks the message before the commit, and it is lost if that fails", "it acks the message before it is handled, and it is lost if that fails", "remove it"},
}

// harmOf recognises one of Watermill's middlewares by the name of its function, or of the one that it has returned. Where the compiler has put the
// middleware into its caller, that function is named after the caller, and only its source file tells.
func harmOf(fn reflect.Value) (harm, bool) {
	name, direct := strings.CutPrefix(funcName(fn), watermillMiddleware)
	path, file := "", ""
	if f := runtime.FuncForPC(fn.Pointer()); f != nil {
		path, _ = f.FileLine(fn.Pointer())
		path, file = filepath.Split(filepath.ToSlash(path))
	}
	inlined := strings.Contains(path, "/watermill") && strings.HasSuffix(path, "/message/router/middleware/")
	i := slices.IndexFunc(harms, func(h harm) bool {
		return direct && strings.HasPrefix(name, h.prefix) || !direct && inlined && file == h.file
	})
	if i < 0 {
		return harm{}, false
	}
	return harms[i], true
}

func funcName(fn reflect.Value) string {
	if f := runtime.FuncForPC(fn.Pointer()); f != nil {
		return f.Name()
	}
	return ""
}

// wrongInside says whether the handler that dedup gets is a middleware that must not be there. Of those further inside nothing can be told.
func wrongInside(h message.HandlerFunc) *OrderError {
	if found, ok := harmOf(reflect.ValueOf(h)); ok && found.inside != "" {
		return &OrderError{Middleware: found.name, Cause: "it is inside of dedup: " + found.inside, Cure: found.cure}
	}
	return nil
}

// CheckOrder looks at the middlewares of a router and returns an *OrderError for each that stands where it loses messages or effects of
// handlers under dedup, joined. RouterPlugin does it when the router starts.
//
// It knows Watermill's own middlewares, if they are added as they are. Watermill has no way to ask for them: if it keeps them otherwise than version
// 1.5 does, nothing is found.
func CheckOrder(router *message.Router) error {
	if router == nil {
		return nil
	}
	var errs []error
	for _, handler := range handlersOf(router) {
		chain := chainOf(router, handler)
		at := slices.IndexFunc(chain, func(fn reflect.Value) bool { return strings.HasPrefix(funcName(fn), ours) })
		if at < 0 {
			continue
		}
		if slices.ContainsFunc(chain[at+1:], func(fn reflect.Value) bool { return strings.HasPrefix(funcName(fn), ours) }) {
			// The others may stand well for one of the two.
			errs = append(errs, &OrderError{Handler: handler, Middleware: "dedup", Cause: "it is there twice", Cure: "add it, or install the chain, once, to the router or to the handler"})
			continue
		}
		for i, fn := range chain {
			found, ok := harmOf(fn)
			if !ok {
				continue
			}
			where, cause := "inside", found.inside
			if i < at {
				where, cause = "outside", found.outside
			}
			if cause != "" {
				errs = append(errs, &OrderError{Handler: handler, Middleware: found.name, Cause: "it is " + where + " of dedup: " + cause, Cure: found.cure})
			}
		}
	}
	return errors.Join(errs...)
}

// handlersOf are the names of a router's handlers, sorted.
func handlersOf(router *message.Router) (names []string) {
	for name := range router.Handlers() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// chainOf are the middlewares of a handler, the outermost first: fields of the router that it shows to nobody.
func chainOf(router *message.Router, handler string) (chain []reflect.Value) {
	all := reflect.ValueOf(router).Elem().FieldByName("middlewares")
	if all.Kind() != reflect.Slice {
		return nil
	}
	for i := range all.Len() {
		m := reflect.Indirect(all.Index(i))
		if m.Kind() != reflect.Struct {
			return nil
		}
		fn, name, level := m.FieldByName("Handler"), m.FieldByName("HandlerName"), m.FieldByName("IsRouterLevel")
		if fn.Kind() != reflect.Func || name.Kind() != reflect.String || level.Kind() != reflect.Bool {
			return nil
		}
		if level.Bool() || name.String() == handler {
			chain = append(chain, fn)
		}
	}
	return chain
}

// reasonPoisoned is the metadata by which Watermill's PoisonQueue says why.
const reasonPoisoned = "reason_poisoned"

// watchPoison returns a function that tells whether the message has been poisoned since. The reason may be the one that it has already, from
// an earlier attempt or from the poison queue that it comes from, so what is compared is where the text lies and not what it says.
func watchPoison(msg *message.Message) func() bool {
	before, had := msg.Metadata[reasonPoisoned]
	if had {
		before = strings.Clone(before)
		msg.Metadata[reasonPoisoned] = before
	}
	return func() bool {
		after, has := msg.Metadata[reasonPoisoned]
		return has && (!had || unsafe.StringData(after) != unsafe.StringData(before))
	}
}

// errPoisonedInside is returned for a message that was sent to a poison queue inside of dedup.
func errPoisonedInside(handler string) error {
	return &OrderError{
		Handler: handler, Middleware: "PoisonQueue", Cause: "it is inside of dedup and has turned an error into success; the work that failed was rolled back", Cure: addBefore,
	}
}

// acked says whether somebody has acked the message already.
func acked(msg *message.Message) bool {
	select {
	case <-msg.Acked():
		return true
	default:
		return false
	}
}
