package testenv_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestRoundTripsOfCreate(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"postgres":            3, // BEGIN, INSERT, COMMIT
		"postgres18":          3,
		"mariadb-interpolate": 3,
		"mysql-interpolate":   3,
		"mariadb":             4, // the INSERT is prepared and executed
		"mysql":               4,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := constructors[name](t)
			kind, trips := direct.Via(t)
			assert.Equal(t, name, kind.Name)
			db := kind.Open(t)
			require.NoError(t, db.AutoMigrate(&note{}))
			require.NoError(t, db.Create(&note{Text: "prepares the statement"}).Error)

			trips.Reset()
			require.NoError(t, db.Create(&note{Text: "counted"}).Error)
			assert.Equal(t, want, trips.Count())
			require.NoError(t, db.Create(&note{Text: "once more"}).Error)
			assert.Equal(t, 2*want, trips.Count(), "adds up")

			require.NoError(t, db.Create(&note{Text: "grows: " + strings.Repeat("x", 60000)}).Error)
			assert.Equal(t, 3*want, trips.Count(), "a message of many segments")

			// Another pool on the proxy counts, one past it does not.
			trips.Reset()
			require.NoError(t, direct.Open(t).Exec("SELECT 1").Error)
			assert.Zero(t, trips.Count())
			require.NoError(t, kind.Open(t).Exec("SELECT 1").Error)
			assert.Positive(t, trips.Count())
		})
	}
}

func TestNoPingIsCounted(t *testing.T) {
	t.Parallel()
	kind, trips := testenv.Postgres(t).Via(t)
	db := kind.Open(t)
	for range 2 { // the first time prepares
		trips.Reset()
		require.NoError(t, db.Exec("SELECT pg_sleep(1.1)").Error)
		require.NoError(t, db.Exec("SELECT 1").Error)
	}
	assert.Equal(t, 2, trips.Count())
}

// scripted is a server that greets its clients and answers each line with as
// many lines as it says, one write for each.
func scripted(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprintln(conn, "hello")
				var lines int
				for {
					if _, err := fmt.Fscanln(conn, &lines); err != nil {
						fmt.Fprintln(conn, "bye")
						return
					}
					for range lines {
						fmt.Fprintln(conn, "line")
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// client talks to scripted.
type client struct {
	*net.TCPConn
	answers *bufio.Reader
}

func dial(t *testing.T, address string) client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	c := client{conn.(*net.TCPConn), bufio.NewReader(conn)}
	c.expect(t, "hello")
	return c
}

func (c client) say(t *testing.T, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
}

func (c client) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, line := range want {
		got, err := c.answers.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, line+"\n", got)
	}
}

func TestWhatARoundTripIs(t *testing.T) {
	t.Parallel()
	trips := testenv.CountRoundTrips(t, "tcp", scripted(t))

	first := dial(t, trips.Addr())
	assert.Zero(t, trips.Count(), "a greeting")
	first.say(t, "1\n")
	first.expect(t, "line")
	assert.Equal(t, 1, trips.Count())
	first.say(t, "3\n")
	first.expect(t, "line", "line", "line")
	assert.Equal(t, 2, trips.Count(), "an answer in several writes")
	first.say(t, "0\n")
	first.say(t, "0\n")
	first.say(t, "1\n")
	first.expect(t, "line")
	assert.Equal(t, 3, trips.Count(), "what has no answer, and a request")

	trips.Reset()
	assert.Zero(t, trips.Count())
	second := dial(t, trips.Addr())
	second.say(t, "1\n")
	first.say(t, "1\n")
	second.expect(t, "line")
	first.expect(t, "line")
	assert.Equal(t, 2, trips.Count(), "of two connections")

	// A half-closed connection still gets its answer; a goodbye gets none.
	trips.Reset()
	require.NoError(t, first.CloseWrite())
	first.expect(t, "bye")
	_, err := first.answers.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	assert.Zero(t, trips.Count())
}

func TestProxyWithoutServerHangsUp(t *testing.T) {
	t.Parallel()
	trips := testenv.CountRoundTrips(t, "tcp", "127.0.0.1:1") // nothing listens there
	conn, err := net.Dial("tcp", trips.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	assert.Zero(t, trips.Count())
}
