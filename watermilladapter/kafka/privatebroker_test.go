package kafka_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// privateBroker is a Kafka of one test, which may kill it. It uses the
// program of the shared one, so the test is skipped where that is elsewhere.
type privateBroker struct {
	address    string
	java       string
	classPath  string
	properties string
	cmd        *exec.Cmd
	log        bytes.Buffer
}

func startPrivateBroker(t *testing.T) *privateBroker {
	t.Helper()
	testenv.Kafka(t)
	home := cmp.Or(os.Getenv("OUTBOX_SERVICES_DIR"), filepath.Join(os.TempDir(), "gormoutbox-services"))
	libs, _ := filepath.Glob(filepath.Join(home, "kafka", "libs-*")) // the pattern is correct
	java, err := exec.LookPath("java")
	if len(libs) == 0 || err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no Kafka of internal/testenv/services, which CI installs")
		}
		t.Skip("no Kafka of internal/testenv/services on this machine")
	}
	listener, controller := closedPort(t), closedPort(t)
	folder := t.TempDir()
	b := &privateBroker{
		address: listener, java: java,
		classPath: filepath.Join(libs[0], "*"), properties: filepath.Join(folder, "server.properties"),
	}
	require.NoError(t, os.WriteFile(b.properties, []byte(strings.Join([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.bootstrap.servers=" + controller,
		fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", listener, controller),
		"advertised.listeners=PLAINTEXT://" + listener,
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + filepath.Join(folder, "data"),
		"offsets.topic.replication.factor=1",
	}, "\n")), 0o600))
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	output, err := exec.CommandContext(t.Context(), java, "-cp", b.classPath, "kafka.tools.StorageTool",
		"format", "--standalone", "-t="+base64.RawURLEncoding.EncodeToString(id), "-c", b.properties).CombinedOutput()
	require.NoError(t, err, "%s", output)
	t.Cleanup(func() { b.kill() })
	b.start(t)
	return b
}

// start returns when the broker answers.
func (b *privateBroker) start(t *testing.T) {
	t.Helper()
	b.cmd = exec.Command(b.java, "-Xms128m", "-Xmx256m", "-cp", b.classPath, "kafka.Kafka", b.properties)
	b.cmd.Stderr = &b.log
	require.NoError(t, b.cmd.Start())
	for deadline := time.Now().Add(2 * patience); ; <-time.After(100 * time.Millisecond) {
		if conn, err := net.Dial("tcp", b.address); err == nil {
			conn.Close()
			client, err := sarama.NewClient([]string{b.address}, kafka.SubscriberConfig())
			if err == nil {
				n := len(client.Brokers())
				client.Close()
				if n > 0 {
					return
				}
			}
		}
		if time.Now().After(deadline) {
			b.kill()
			require.Fail(t, "the broker does not start", "%s", b.log.String())
		}
	}
}

// kill ends the broker at once, by SIGKILL.
func (b *privateBroker) kill() {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		b.cmd = nil
	}
}
