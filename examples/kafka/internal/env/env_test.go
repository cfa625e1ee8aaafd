package env_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/examples/kafka/internal/env"
	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

func TestFallbacksAreTheTestServices(t *testing.T) {
	t.Parallel()
	assert.Equal(t, defaults.Postgres, env.Postgres)
	assert.Equal(t, defaults.Kafka, env.Kafka)
}

func TestVars(t *testing.T) {
	t.Setenv("EXAMPLE_LIST", "a:1, b:2,")
	t.Setenv("EXAMPLE_DURATION", "3s")
	t.Setenv("EXAMPLE_EMPTY", "")
	var v env.Vars
	assert.Equal(t, []string{"a:1", "b:2"}, v.List("EXAMPLE_LIST", "c:3"))
	assert.Equal(t, []string{"c:3"}, v.List("EXAMPLE_EMPTY", "c:3"))
	assert.Equal(t, 3*time.Second, v.Duration("EXAMPLE_DURATION", time.Minute))
	assert.Equal(t, time.Minute, v.Duration("EXAMPLE_EMPTY", time.Minute))
	assert.Equal(t, "x", v.String("EXAMPLE_EMPTY", "x"))
	require.NoError(t, v.Err())
}

func TestMistakesAreReportedTogether(t *testing.T) {
	t.Setenv("EXAMPLE_LIST", " , ")
	t.Setenv("EXAMPLE_DURATION", "soon")
	var v env.Vars
	v.List("EXAMPLE_LIST", "")
	v.Duration("EXAMPLE_DURATION", time.Second)
	err := v.Err()
	require.ErrorContains(t, err, `EXAMPLE_LIST=" , "`)
	require.ErrorContains(t, err, `EXAMPLE_DURATION="soon": want a positive duration`)
	var e *env.Error
	require.ErrorAs(t, err, &e)
}
