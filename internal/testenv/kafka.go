package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

var kafkaServer = server{
	name:     "Kafka",
	variable: defaults.KafkaVariable,
	fallback: defaults.Kafka,
	probe: func(_ context.Context, addresses string) error {
		// NewClient fetches the metadata; its own limits end it.
		client, err := sarama.NewClient(splitAddresses(addresses), kafkaConfig())
		if err != nil {
			return err
		}
		defer client.Close()
		if len(client.Brokers()) == 0 {
			return errors.New("no broker in the cluster's metadata")
		}
		return nil
	},
}

// Broker is a Kafka cluster. Tests share it: everything that they create in
// it needs a name of its own.
type Broker struct {
	// Addrs are the bootstrap addresses.
	Addrs []string
}

// Kafka returns the Kafka cluster.
func Kafka(t testing.TB) Broker {
	t.Helper()
	return Broker{Addrs: splitAddresses(kafkaServer.require(t))}
}

// Topic creates a topic with a unique name that begins with prefix, and
// returns the name when all partitions have leaders. The topic is deleted at
// the end of the test.
func (b Broker) Topic(t testing.TB, prefix string, partitions int) string {
	t.Helper()

	admin, err := sarama.NewClusterAdmin(b.Addrs, kafkaConfig())
	if err != nil {
		t.Fatalf("connecting to Kafka: %v", err)
	}
	t.Cleanup(func() {
		if err := admin.Close(); err != nil {
			t.Errorf("closing the connection to Kafka: %v", err)
		}
	})

	topic := topicName(prefix)
	detail := &sarama.TopicDetail{
		NumPartitions:     int32(partitions), //nolint:gosec // Kafka allows fewer than fit.
		ReplicationFactor: 1,
	}
	if err := admin.CreateTopic(topic, detail, false); err != nil {
		t.Fatalf("creating topic %s: %v", topic, err)
	}
	t.Cleanup(func() {
		if err := admin.DeleteTopic(topic); err != nil && !errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
			t.Errorf("deleting topic %s: %v", topic, err)
		}
	})

	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		err := leaders(admin, topic, partitions)
		if err == nil {
			return topic
		}
		select {
		case <-ctx.Done():
			t.Fatalf("topic %s is not ready: %v", topic, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// leaders returns nil when all the partitions of a topic have leaders.
func leaders(admin sarama.ClusterAdmin, topic string, partitions int) error {
	described, err := admin.DescribeTopics([]string{topic})
	if err != nil {
		return err
	}
	if len(described) != 1 {
		return fmt.Errorf("%d topics described", len(described))
	}
	metadata := described[0]
	if metadata.Err != sarama.ErrNoError {
		return metadata.Err
	}
	if len(metadata.Partitions) != partitions {
		return fmt.Errorf("%d of %d partitions", len(metadata.Partitions), partitions)
	}
	for _, partition := range metadata.Partitions {
		if partition.Err != sarama.ErrNoError {
			return fmt.Errorf("partition %d: %w", partition.ID, partition.Err)
		}
		if partition.Leader < 0 {
			return fmt.Errorf("partition %d has no leader", partition.ID)
		}
	}
	return nil
}

func kafkaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = "outbox-testenv"
	config.Version = sarama.V2_8_0_0
	config.Net.DialTimeout = 5 * time.Second
	config.Net.ReadTimeout = timeout
	config.Metadata.Retry.Max = 1
	return config
}

func splitAddresses(addresses string) []string {
	var list []string
	for address := range strings.SplitSeq(addresses, ",") {
		if address = strings.TrimSpace(address); address != "" {
			list = append(list, address)
		}
	}
	return list
}

// topicName makes a legal topic name out of any prefix, such as a test's name.
func topicName(prefix string) string {
	legal := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		default:
			return '-'
		}
	}, prefix)
	const longest = 249 // Kafka's limit
	suffix := "-" + uniqueName()
	return legal[:min(len(legal), longest-len(suffix))] + suffix
}
