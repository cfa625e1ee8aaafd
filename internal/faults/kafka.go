//go:build linux

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

const (
	topic      = "accounts"
	partitions = 6
)

// prepareKafka formats the data of a broker and returns the server, not yet started.
func prepareKafka(ctx context.Context, folder string) (*server, error) {
	services := cmp.Or(os.Getenv("OUTBOX_SERVICES_DIR"), filepath.Join(os.TempDir(), "gormoutbox-services"))
	libraries, err := filepath.Glob(filepath.Join(services, "kafka", "libs-*"))
	if err != nil || len(libraries) == 0 {
		return nil, errors.Join(&missingError{"Kafka"}, err)
	}
	java, err := program("java", "/usr/lib/jvm/*/bin")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	controller, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "kafka")
	properties := data + ".properties"
	listeners := fmt.Sprintf("PLAINTEXT://%s:%d,CONTROLLER://%s:%d", host, port, host, controller)
	lines := []string{
		"process.roles=broker,controller", "node.id=1",
		fmt.Sprintf("controller.quorum.bootstrap.servers=%s:%d", host, controller),
		"listeners=" + listeners, "advertised.listeners=" + listeners,
		"controller.listener.names=CONTROLLER", "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + data, "auto.create.topics.enable=false",
		// Duplicates are told from each other by when the broker got them.
		"log.message.timestamp.type=LogAppendTime",
		// Consumers that are killed lose their partitions soon.
		"group.min.session.timeout.ms=1000", "group.initial.rebalance.delay.ms=0",
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
	}
	if err := os.WriteFile(properties, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	classes := filepath.Join(libraries[len(libraries)-1], "*")
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	format := exec.CommandContext(ctx, java, "-cp", classes, "kafka.tools.StorageTool", "format", "--standalone",
		"-t="+base64.RawURLEncoding.EncodeToString(id), "-c", properties)
	if err := quietly(format); err != nil {
		return nil, err
	}
	s := &server{name: "kafka", folder: data, port: port, crash: syscall.SIGKILL}
	s.command = func() *exec.Cmd {
		return exec.Command(java, "-Xms128m", "-Xmx320m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
			"-cp", classes, "kafka.Kafka", properties)
	}
	s.ping = func(context.Context) error {
		return withAdmin(s.address(), func(sarama.ClusterAdmin) error { return nil })
	}
	return s, nil
}

func withAdmin(address string, fn func(sarama.ClusterAdmin) error) error {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Net.DialTimeout, config.Net.ReadTimeout = 2*time.Second, 10*time.Second
	config.Metadata.Retry.Max = 1
	admin, err := sarama.NewClusterAdmin([]string{address}, config)
	if err != nil {
		return err
	}
	return errors.Join(fn(admin), admin.Close())
}

func createTopics(address string, topics ...string) error {
	return withAdmin(address, func(admin sarama.ClusterAdmin) error {
		for _, topic := range topics {
			if err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false); err != nil {
				return err
			}
		}
		return nil
	})
}
