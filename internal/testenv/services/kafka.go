//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

type kafka struct{ home string }

func (k *kafka) folder() string             { return k.home }
func (k *kafka) variable() string           { return defaults.KafkaVariable }
func (k *kafka) address() string            { return defaults.Kafka }
func (k *kafka) stopSignal() syscall.Signal { return syscall.SIGTERM }

func (k *kafka) data() string       { return filepath.Join(k.home, "data") }
func (k *kafka) libs() string       { return filepath.Join(k.home, "libs-"+kafkaVersion) }
func (k *kafka) properties() string { return filepath.Join(k.home, "server.properties") }

func (k *kafka) missing() []string {
	if !exists(k.libs()) {
		return mavenMissing()
	}
	return javaMissing()
}

func (k *kafka) prepare(ctx context.Context) error {
	if err := k.download(ctx); err != nil {
		return err
	}
	if err := k.writeProperties(k.properties(), k.data()); err != nil {
		return err
	}
	if exists(k.data()) {
		return nil
	}

	fresh, err := account{}.makeScratch(k.home)
	if err != nil {
		return err
	}
	properties := filepath.Join(k.home, "format.properties")
	if err := k.writeProperties(properties, fresh); err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	cmd := exec.CommandContext(ctx, findJava(), "-cp", k.classPath(), "kafka.tools.StorageTool",
		"format", "--standalone", "-t="+base64.RawURLEncoding.EncodeToString(id), "-c", properties)
	if err := runQuiet(cmd); err != nil {
		return err
	}
	return os.Rename(fresh, k.data())
}

func (k *kafka) writeProperties(path, data string) error {
	const host = defaults.Host
	lines := []string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.bootstrap.servers=" + host + ":" + defaults.KafkaControllerPort,
		fmt.Sprintf("listeners=PLAINTEXT://%s:%s,CONTROLLER://%s:%s",
			host, defaults.KafkaPort, host, defaults.KafkaControllerPort),
		fmt.Sprintf("advertised.listeners=PLAINTEXT://%s:%s,CONTROLLER://%s:%s",
			host, defaults.KafkaPort, host, defaults.KafkaControllerPort),
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + data,
		"num.partitions=8",
		"auto.create.topics.enable=true",
		"offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

func (k *kafka) classPath() string { return filepath.Join(k.libs(), "*") }

func (k *kafka) command() *exec.Cmd {
	return exec.Command(findJava(),
		"-Xms256m", "-Xmx768m",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-cp", k.classPath(), "kafka.Kafka", k.properties())
}
