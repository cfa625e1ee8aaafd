package kafka

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/IBM/sarama"
	"github.com/eapache/go-resiliency/breaker"
)

// permanent are errors that an attempt with the same message and the same broker will repeat. A timestamp that is refused is
// not among them: this process gives it for all messages, and its clock may be wrong (message.timestamp.after.max.ms is an hour since Kafka 4.0).
var permanent = []error{
	sarama.ErrMessageSizeTooLarge, sarama.ErrMessageSetSizeTooLarge, sarama.ErrInvalidMessageSize,
	sarama.ErrInvalidRecord, sarama.ErrInvalidTopic, sarama.ErrInvalidPartition,
	sarama.ErrTopicAuthorizationFailed, sarama.ErrClusterAuthorizationFailed, sarama.ErrTransactionalIDAuthorizationFailed,
	sarama.ErrUnsupportedForMessageFormat, sarama.ErrUnsupportedCompressionType, sarama.ErrPolicyViolation,
	sarama.ErrInvalidRequiredAcks,
}

// suspicious are errors that concern a whole record batch, though
// one message of it may be the cause.
var suspicious = []error{
	sarama.ErrMessageSizeTooLarge, sarama.ErrMessageSetSizeTooLarge, sarama.ErrInvalidMessageSize,
	sarama.ErrInvalidRecord, sarama.ErrInvalidTimestamp, sarama.ErrPolicyViolation,
}

// local are errors that concern a topic, while others may be well.
var local = []error{
	sarama.ErrUnknownTopicOrPartition, sarama.ErrLeaderNotAvailable, sarama.ErrNotLeaderForPartition,
	sarama.ErrReplicaNotAvailable, sarama.ErrNotEnoughReplicas, sarama.ErrNotEnoughReplicasAfterAppend,
	sarama.ErrInvalidTopic, sarama.ErrInvalidPartition, sarama.ErrTopicAuthorizationFailed,
}

var outage = []error{
	sarama.ErrOutOfBrokers, sarama.ErrBrokerNotFound, sarama.ErrClosedClient, sarama.ErrNotConnected, sarama.ErrShuttingDown,
	sarama.ErrLeaderNotAvailable, sarama.ErrNotLeaderForPartition, sarama.ErrRequestTimedOut,
	sarama.ErrBrokerNotAvailable, sarama.ErrReplicaNotAvailable, sarama.ErrNetworkException,
	sarama.ErrNotEnoughReplicas, sarama.ErrNotEnoughReplicasAfterAppend, sarama.ErrKafkaStorageError,
	sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrNotCoordinatorForConsumer, sarama.ErrOffsetsLoadInProgress,
	context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, errFenced, errNotSent, errUnknown,
	breaker.ErrBreakerOpen, // of sarama, for a topic or partition that has failed before
}

// IsPermanent says that the broker, or the publisher, has refused the message and will do so
// again: it is too large, or its topic is invalid or forbidden. It looks through
// wrapped errors. Of sarama.ProducerErrors all must be permanent.
func IsPermanent(err error) bool {
	return each(err, func(err error) bool {
		var encoding sarama.PacketEncodingError
		return isAny(err, permanent) || errors.As(err, &encoding)
	})
}

// IsOutage says that the error is about the broker or the way to it and not about the
// message: no broker answers, a partition has no leader or too few replicas,
// or the time was up. It looks through wrapped errors. Of sarama.ProducerErrors all must be outages.
func IsOutage(err error) bool {
	return each(err, func(err error) bool {
		var network net.Error
		return isAny(err, outage) || errors.As(err, &network)
	})
}

// each says whether the error, or each of sarama.ProducerErrors in it, is so.
func each(err error, is func(error) bool) bool {
	if err == nil {
		return false
	}
	var all sarama.ProducerErrors
	if !errors.As(err, &all) {
		return is(err)
	}
	for _, e := range all {
		if !is(e) {
			return false
		}
	}
	return len(all) > 0
}

func isAny(err error, list []error) bool {
	for _, target := range list {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
