package scenarios_test

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// process is a Kafka of one test, of the program that internal/testenv/services installs.
type process struct {
	address, java, classes, properties, log string
	// running is nil while it is away.
	running *exec.Cmd
}

const ownTopic = "accounts"

// newProcess starts a broker, which lives as long as the test, and makes its topic.
func newProcess(t *testing.T) *broker {
	t.Helper()
	testenv.Kafka(t) // skips the test where there is none
	services := cmp.Or(os.Getenv("OUTBOX_SERVICES_DIR"), filepath.Join(os.TempDir(), "gormoutbox-services"))
	libraries, err := filepath.Glob(filepath.Join(services, "kafka", "libs-*"))
	require.NoError(t, err)
	java, err := exec.LookPath("java")
	if len(libraries) == 0 || err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no Kafka of internal/testenv/services, which CI installs")
		}
		t.Skip("no Kafka of internal/testenv/services on this machine")
	}
	folder, controller := t.TempDir(), freeAddress(t)
	p := &process{
		address: freeAddress(t), java: java, classes: filepath.Join(libraries[len(libraries)-1], "*"),
		properties: filepath.Join(folder, "server.properties"), log: filepath.Join(folder, "log"),
	}
	listeners := "PLAINTEXT://" + p.address + ",CONTROLLER://" + controller
	require.NoError(t, os.WriteFile(p.properties, []byte(strings.Join([]string{
		"process.roles=broker,controller", "node.id=1", "controller.quorum.bootstrap.servers=" + controller,
		"listeners=" + listeners, "advertised.listeners=" + listeners,
		"controller.listener.names=CONTROLLER", "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + filepath.Join(folder, "data"), "auto.create.topics.enable=false", "offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
	}, "\n")+"\n"), 0o600))
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	output, err := exec.CommandContext(t.Context(), java, "-cp", p.classes, "kafka.tools.StorageTool",
		"format", "--standalone", "-t="+base64.RawURLEncoding.EncodeToString(id), "-c", p.properties).CombinedOutput()
	require.NoError(t, err, "%s", output)

	t.Cleanup(p.kill)
	p.start(t)
	require.NoError(t, p.admin(func(admin sarama.ClusterAdmin) error {
		return admin.CreateTopic(ownTopic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false)
	}))
	return &broker{
		address: p.address, topic: ownTopic, wire: &wire{},
		away: func(*testing.T) { p.kill() }, back: p.start,
	}
}

// start returns when the broker answers.
func (p *process) start(t *testing.T) {
	t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer out.Close()
	// Not of the test's context, which ends before the cleanups.
	p.running = exec.Command(p.java, "-Xms128m", "-Xmx320m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", p.classes, "kafka.Kafka", p.properties)
	p.running.Stdout, p.running.Stderr = out, out
	require.NoError(t, p.running.Start())
	if !assert.Eventually(t, func() bool {
		return p.admin(func(sarama.ClusterAdmin) error { return nil }) == nil
	}, 90*time.Second, 50*time.Millisecond, "the broker does not start") {
		text, _ := os.ReadFile(p.log) // it is empty if it can't be read
		t.Fatalf("%s", text)
	}
}

// kill ends the broker at once, by SIGKILL.
func (p *process) kill() {
	if p.running != nil {
		_ = p.running.Process.Kill()
		_ = p.running.Wait() // its error is the signal
		p.running = nil
	}
}

func (p *process) admin(fn func(sarama.ClusterAdmin) error) error {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Net.DialTimeout, config.Net.ReadTimeout = 2*time.Second, 10*time.Second
	config.Metadata.Retry.Max = 1
	admin, err := sarama.NewClusterAdmin([]string{p.address}, config)
	if err != nil {
		return err
	}
	return errors.Join(fn(admin), admin.Close())
}

// freeAddress finds a port on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}
