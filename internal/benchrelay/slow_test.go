package main

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDelayIsAddedOnceAndTheRateStays(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() //nolint:errcheck // it is not needed any more
	go func() {            // echo
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()

	const delay, trips = time.Millisecond, 50
	slow := &slowDialer{delay: delay}
	defer slow.close()
	c, err := slow.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()

	took := make([]float64, trips)
	for i := range took {
		begin := time.Now()
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		took[i] = inMilliseconds(time.Since(begin))
		require.GreaterOrEqual(t, took[i], inMilliseconds(2*delay))
	}
	t.Logf("a round trip takes %.2f ms", median(took))

	const size = 64 << 20 // a second each way if every 64 KiB waited for its own delay
	begin := time.Now()
	go func() { _, _ = c.Write(make([]byte, size)) }()
	_, err = io.ReadFull(c, make([]byte, size))
	require.NoError(t, err)
	took64 := time.Since(begin)
	t.Logf("64 MiB there and back take %s", took64)
	assert.Less(t, took64, 2*time.Second)
}
