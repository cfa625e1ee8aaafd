package relaytest_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

var errTooLarge = errors.New("the message is too large")

// limited is a publisher of somebody's own that is to work under a relay.
type limited struct{ message.Publisher }

func (l limited) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		if len(m.Payload) > 1<<20 {
			return errTooLarge
		}
		if err := l.Publisher.Publish(topic, m); err != nil {
			return err
		}
	}
	return nil
}

// mySpec is in front of Watermill's gochannel, which keeps an order only if Publish waits for the subscribers.
func mySpec() relaytest.PublisherSpec {
	return relaytest.PublisherSpec{
		New: func(testing.TB) (message.Publisher, message.Subscriber) {
			broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
			return limited{broker}, broker
		},
		Refuse: func(msg *message.Message) { msg.Payload = bytes.Repeat([]byte("x"), 1<<20+1) },
	}
}

// ExampleTestPublisher is a test of a publisher of one's own.
func ExampleTestPublisher() {
	TestMyPublisher := func(t *testing.T) {
		relaytest.TestPublisher(t, mySpec())
	}
	_ = TestMyPublisher // for "go test" it is a function of a _test.go file
}
