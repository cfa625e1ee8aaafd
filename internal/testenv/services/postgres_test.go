//go:build linux

package main

import (
	"archive/zip"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// servePostgres is a server of the given version for one client, which may
// send one query. It returns its address as a URL.
func servePostgres(t *testing.T, version string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		assert.NoError(t, listener.Close())
		<-done
	})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		server := pgproto3.NewBackend(conn, conn)
		if _, err := server.ReceiveStartupMessage(); err != nil {
			return
		}
		server.Send(&pgproto3.AuthenticationOk{})
		server.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: version})
		server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if server.Flush() != nil {
			return
		}
		if message, err := server.Receive(); err == nil {
			if _, ok := message.(*pgproto3.Query); ok {
				server.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
				server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				_ = server.Flush() // the client reports it
			}
		}
	}()
	return "postgres://postgres@" + listener.Addr().String() + "/x?sslmode=disable"
}

func TestPingWantsTheRightRelease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server  *postgres
		version string
		want    string // part of the error
	}{
		"18 for 18":         {server: newPostgres18(t.TempDir()), version: "18.1"},
		"packaged 18":       {server: newPostgres18(t.TempDir()), version: "18.1 (Debian 18.1-1)"},
		"15 for 18":         {server: newPostgres18(t.TempDir()), version: "15.14", want: "15.14 answers instead of 18"},
		"180 for 18":        {server: newPostgres18(t.TempDir()), version: "180.0", want: "instead of 18"},
		"any for the other": {server: newPostgres15(t.TempDir()), version: "17.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.server.url = servePostgres(t, test.version)
			err := test.server.ping(t.Context())
			if test.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.want)
			}
		})
	}
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("xz"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no xz, which the start of the servers installs")
		}
		t.Skip("no xz")
	}
	folder := t.TempDir()
	makeFile := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o755))
	}
	makeFile("initdb", "program")
	output, err := exec.Command("tar", "-cJf", filepath.Join(folder, "a.txz"), "-C", folder, "initdb").CombinedOutput()
	require.NoError(t, err, string(output))
	archive, err := os.ReadFile(filepath.Join(folder, "a.txz"))
	require.NoError(t, err)
	makeJar := func(name, entry string, content []byte) string {
		file, err := os.Create(filepath.Join(folder, name))
		require.NoError(t, err)
		defer file.Close()
		jar := zip.NewWriter(file)
		w, err := jar.Create(entry)
		require.NoError(t, err)
		_, err = w.Write(content)
		require.NoError(t, err)
		require.NoError(t, jar.Close())
		return file.Name()
	}

	to := t.TempDir()
	require.NoError(t, account{}.unpack(t.Context(), makeJar("good.jar", "linux.txz", archive), to))
	content, err := os.ReadFile(filepath.Join(to, "initdb"))
	require.NoError(t, err)
	assert.Equal(t, "program", string(content))

	for name, jar := range map[string]string{
		"cut off":    makeJar("cut.jar", "linux.txz", archive[:len(archive)/2]),
		"no archive": makeJar("none.jar", "README", archive),
	} {
		assert.Error(t, account{}.unpack(t.Context(), jar, t.TempDir()), name)
	}
}
