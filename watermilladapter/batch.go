package watermilladapter

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Outgoing is a message with the topic that it goes to.
type Outgoing struct {
	Topic   string
	Message *message.Message
}

// BatchPublisher is implemented by publishers that can have many messages on their way at the same
// time and tell of each what became of it. A relay whose publisher implements it gives it whole batches, instead of
// calling Publish for one message at a time in many goroutines.
type BatchPublisher interface {
	message.Publisher

	// PublishBatch publishes the messages and returns one error for each, at the same index: nil if the broker has
	// it. It returns when all outcomes are known or ctx has ended; what is not known by then has an error,
	// and may arrive all the same.
	//
	// Messages of one aggregate (HeaderAggregateType and HeaderAggregateID) stand in their order and must
	// arrive in it: once one of them could not be sent, those behind it must not be sent. It is safe for concurrent use, but only one call at a time has messages of an aggregate.
	PublishBatch(ctx context.Context, batch []Outgoing) []error
}

// ErrorClassifier is implemented by publishers that know what their errors say about an event. A relay without a
// Config.Classify asks them.
type ErrorClassifier interface {
	// IsPermanent says that the broker will never take this message, as it is too large for example.
	IsPermanent(err error) bool
	// IsOutage says that the error is about the broker and not about the message.
	IsOutage(err error) bool
}
