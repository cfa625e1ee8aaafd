package brokers_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis tells everybody of a server that is away, and here it is meant to be
	goleak.VerifyTestMain(m,
		// GORM's cache of prepared statements has a goroutine that nothing ends.
		goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"),
	)
}
