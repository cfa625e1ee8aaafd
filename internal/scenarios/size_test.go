package scenarios_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// full says whether the tests run in the size that they are meant for.
func full() bool { return os.Getenv("OUTBOX_TEST_SCENARIOS") == "full" }

// pick chooses by the size.
func pick[T any](small, large T) T {
	if full() {
		return large
	}
	return small
}

// parallel runs small tests beside each other. Large ones are alone, for the sake of what they measure.
func parallel(t *testing.T) {
	t.Helper()
	if !full() {
		t.Parallel()
	}
}

const seedVariable = "OUTBOX_TEST_SCENARIOS_SEED"

// seeded returns a seed and says which one it is.
func seeded(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64N(1_000_000)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, seedVariable)
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// randomOf returns random numbers of one part of a test.
func randomOf(seed uint64, part int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(part))) }
