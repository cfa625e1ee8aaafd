package main

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheProcessOfAServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // closed already
	p, err := findProcesses(map[string]string{"server": l.Addr().String()})
	require.NoError(t, err)
	assert.Equal(t, processes{thisProcess: os.Getpid(), "server": os.Getpid()}, p)

	s, err := p.costs(1, func() (sample, error) {
		before, err := p.used()
		require.NoError(t, err)
		for { // until the kernel has counted some of it
			after, err := p.used()
			require.NoError(t, err)
			if after[thisProcess]-before[thisProcess] >= 50*time.Millisecond {
				return sample{}, nil
			}
		}
	})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, s[cpuMeasure(thisProcess)], 50_000.0)
	assert.InDelta(t, s[cpuMeasure(thisProcess)], s[cpuMeasure("server")], 1)
	assert.InDelta(t, 2*s[cpuMeasure("server")], s[cpuMeasure(together)], 1)

	require.NoError(t, l.Close())
	_, err = findProcesses(map[string]string{"server": l.Addr().String()})
	assert.Error(t, err)
}
