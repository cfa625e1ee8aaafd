//go:build linux

package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

func TestExports(t *testing.T) {
	odd := `postgres://o'brien:$x"@db/test`
	t.Setenv("OUTBOX_SERVICES_DIR", t.TempDir())
	t.Setenv(defaults.PostgresVariable, odd)
	t.Setenv(defaults.Postgres18Variable, "")
	t.Setenv(defaults.MySQLVariable, defaults.MySQL) // left by an earlier eval
	t.Setenv(defaults.KafkaVariable, "")

	env, err := newEnvironment()
	require.NoError(t, err)
	var ours []string
	for _, s := range env.ours() {
		ours = append(ours, name(s))
	}
	assert.Equal(t, []string{"postgres18", "mariadb", "kafka"}, ours)

	var script strings.Builder
	require.NoError(t, env.printExports(&script))
	script.WriteString(`printf '%s\n' "$OUTBOX_TEST_POSTGRES" "$OUTBOX_TEST_POSTGRES18" "$OUTBOX_TEST_MYSQL" "$OUTBOX_TEST_KAFKA"`)
	output, err := exec.Command("sh", "-c", script.String()).Output()
	require.NoError(t, err)
	assert.Equal(t, odd+"\n"+defaults.Postgres18+"\n"+defaults.MySQL+"\n"+defaults.Kafka+"\n", string(output))
}

func TestLockKeepsOthersOut(t *testing.T) {
	t.Parallel()
	env := &environment{dir: t.TempDir()}
	unlock, err := env.lock(t.Context())
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = env.lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	unlock()
	unlock, err = env.lock(t.Context())
	require.NoError(t, err)
	unlock()
}

func TestCheckMetadata(t *testing.T) {
	t.Parallel()
	assert.NoError(t, checkMetadata([]byte("outo\x00\x00\x00\x01...")))
	assert.Error(t, checkMetadata([]byte("outo\x00\x00\x00\x00")), "no broker")
	assert.Error(t, checkMetadata([]byte("HTTP/1.1 400")), "another protocol")
	assert.Error(t, checkMetadata([]byte("outo")), "cut off")
}
