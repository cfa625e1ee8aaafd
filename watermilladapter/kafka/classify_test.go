package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"

	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

func TestClassification(t *testing.T) {
	t.Parallel()
	const neither, permanent, outage = "neither", "permanent", "outage"
	failures := func(errs ...error) error {
		var all sarama.ProducerErrors
		for _, err := range errs {
			all = append(all, &sarama.ProducerError{Msg: &sarama.ProducerMessage{}, Err: err})
		}
		return all
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"nil":                     {nil, neither},
		"own":                     {errOwn, neither},
		"behind":                  {&kafka.BehindError{}, neither},
		"closed publisher":        {kafka.ErrClosed, neither},
		"sequence":                {sarama.ErrOutOfOrderSequenceNumber, neither},
		"unknown topic":           {sarama.ErrUnknownTopicOrPartition, neither},
		"too large":               {sarama.ErrMessageSizeTooLarge, permanent},
		"list too large":          {sarama.ErrMessageSetSizeTooLarge, permanent},
		"invalid topic":           {sarama.ErrInvalidTopic, permanent},
		"topic authorization":     {sarama.ErrTopicAuthorizationFailed, permanent},
		"cluster authorization":   {sarama.ErrClusterAuthorizationFailed, permanent},
		"timestamp":               {sarama.ErrInvalidTimestamp, neither},
		"invalid record":          {sarama.ErrInvalidRecord, permanent},
		"encoding":                {sarama.PacketEncodingError{Info: "x"}, permanent},
		"no broker":               {sarama.ErrOutOfBrokers, outage},
		"no broker, with reasons": {sarama.Wrap(sarama.ErrOutOfBrokers, errOwn), outage},
		"closed client":           {sarama.ErrClosedClient, outage},
		"shutting down":           {sarama.ErrShuttingDown, outage},
		"refused":                 {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, outage},
		"end of file":             {io.EOF, outage},
		"replicas":                {sarama.ErrNotEnoughReplicas, outage},
		"replicas after append":   {sarama.ErrNotEnoughReplicasAfterAppend, outage},
		"leader":                  {sarama.ErrLeaderNotAvailable, outage},
		"not leader":              {sarama.ErrNotLeaderForPartition, outage},
		"broker's time out":       {sarama.ErrRequestTimedOut, outage},
		"deadline":                {context.DeadlineExceeded, outage},
		"cancelled":               {context.Canceled, outage},
		"all permanent":           {failures(sarama.ErrInvalidTopic, sarama.ErrInvalidRecord), permanent},
		"all outages":             {failures(io.EOF, sarama.ErrOutOfBrokers), outage},
		"mixed":                   {failures(io.EOF, sarama.ErrInvalidRecord), neither},
		"none":                    {sarama.ProducerErrors{}, neither},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range []error{test.err, fmt.Errorf("wrapped: %w", test.err), errors.Join(errOwn, test.err)} {
				assert.Equal(t, test.want == permanent, kafka.IsPermanent(err), "%v", err)
				assert.Equal(t, test.want == outage, kafka.IsOutage(err), "%v", err)
			}
		})
	}
}
