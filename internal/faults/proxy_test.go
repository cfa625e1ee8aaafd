//go:build linux

package main

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echo is a server that says everything twice.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

type wire struct {
	net.Conn

	in *bufio.Reader
}

func dial(t *testing.T, p *proxy) wire {
	t.Helper()
	c, err := net.Dial("tcp", p.address())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return wire{c, bufio.NewReader(c)}
}

// ask sends a line and returns what comes back within a time.
func (l wire) ask(limit time.Duration) (string, error) {
	if err := l.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	if _, err := l.Write([]byte("hello\n")); err != nil {
		return "", err
	}
	return l.in.ReadString('\n')
}

func TestProxy(t *testing.T) {
	t.Parallel()
	p, err := newProxy(echo(t))
	require.NoError(t, err)
	defer p.close()

	c := dial(t, p)
	got, err := c.ask(10 * time.Second)
	require.NoError(t, err)
	assert.Equal(t, "hello\n", got)

	p.set(trouble{delay: 30 * time.Millisecond})
	begin := time.Now()
	_, err = c.ask(10 * time.Second)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(begin), 60*time.Millisecond, "both ways")

	p.set(trouble{hole: true})
	_, err = c.ask(50 * time.Millisecond)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout())
	p.set(trouble{})
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	got, err = c.in.ReadString('\n')
	require.NoError(t, err, "what was held back comes")
	assert.Equal(t, "hello\n", got)

	p.set(trouble{cut: true})
	_, err = c.ask(10 * time.Second)
	require.Error(t, err)
	_, err = dial(t, p).ask(10 * time.Second)
	require.Error(t, err)
	p.set(trouble{})
	_, err = dial(t, p).ask(10 * time.Second)
	require.NoError(t, err)
}
