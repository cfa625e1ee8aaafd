package relaytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/watermilladapter"
)

// PublisherSpec tells TestPublisher of a publisher and of what its broker can be made to do.
type PublisherSpec struct {
	// New returns a publisher, and a subscriber that receives everything that is published to a topic, each aggregate in
	// its order. It may be one value. Both are new for each case and closed by the suite. The suite subscribes to a topic before it
	// publishes to it. Required.
	New func(t testing.TB) (message.Publisher, message.Subscriber)
	// Topic returns the name of a topic that is empty, ready and used by nobody else. Defaults to a name that
	// was never used, for brokers that make topics when they are used.
	Topic func(t testing.TB) string
	// Refuse, if set, changes a message so that the broker refuses it for good, for example by making it too large. Without it the
	// cases about refused messages are skipped.
	Refuse func(msg *message.Message)
	// Fail, if set, breaks the broker, or the publisher's way to it, and returns how to mend it. It is called while messages are
	// on their way, and so is mend. Subscribers must get everything when it is mended. Without it the case Outage is skipped.
	Fail func(t testing.TB) (mend func())
	// Patience is how long the suite waits for what must happen. It is never waited out by a publisher that passes. Defaults to 1 minute.
	Patience time.Duration
}

// TestPublisher proves that a publisher works under a relay. It gives it messages as a relay does: whole batches if it is a
// watermilladapter.BatchPublisher, else one message at a time of each of many aggregates. Cases that are about
// what the publisher or the spec does not have are skipped. Each case is a subtest; they run one after the other.
//
//   - Order: the messages of an aggregate arrive in their order, also those of one batch. That is what an outbox promises.
//   - OrderOverBatches: also those of batches that follow each other. What was reported as published must not be overtaken afterwards.
//   - Topics: each message of a batch arrives in its own topic, and in the order of its aggregate there.
//   - Content: id, payload and metadata arrive as they were, binary and empty payloads too. Consumers deduplicate by the id and
//     decode the payload. What is added to the metadata does not matter. The payload is not changed in place: it is the row's.
//   - Errors: there is one error for each message. The relay matches them by their index and records nothing of an answer that does not fit.
//   - Empty: an empty batch is no mistake, and changes nothing.
//   - Refused: of an aggregate with a message that the broker refuses, what stands before it is published, it has an error,
//     and nothing behind it is sent. When the message has been mended, all arrive in their order.
//   - Others: other aggregates of the batch are published all the same. One bad message must not be an outage.
//   - Classes: what was refused is permanent and no outage; a context that ended, and an error that the publisher does not know,
//     are not permanent. A permanent error parks the aggregate at once, until somebody looks.
//   - Cancelled: when the context ends the call returns soon, also while messages are on their way, and the next call works. The relay
//     gives nothing more to a publisher that does not return.
//   - Concurrent: calls at the same time, of other aggregates, do not disturb each other.
//   - Large: so does a batch of 10,000 messages. A full queue must not be an error, nor lose anything.
//   - Outage: while the broker fails, nothing is reported as published that is lost, nothing is permanent, and when it is back all
//     arrive in their order, though each is sent again from the first one that has an error.
//
// Duplicates are allowed: delivery is at least once, and order is that of first arrivals.
func TestPublisher(t *testing.T, spec PublisherSpec) {
	t.Helper()
	if err := spec.check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range publisherCases() {
		t.Run(c.name, func(t *testing.T) {
			err := spec.run(t, c)
			var missing *missingError
			switch {
			case errors.As(err, &missing):
				t.Skip(missing.Error())
			case err != nil:
				t.Errorf("%s: %v", c.why, err)
			}
		})
	}
}

// publisherCase is a case of TestPublisher.
type publisherCase struct {
	name string
	// why says what must hold, to be printed when it does not.
	why string
	run func(ctx context.Context, tr *trial) error
}

func (s PublisherSpec) check() error {
	if s.New == nil {
		return errors.New("relaytest: PublisherSpec.New: it is nil; return a publisher and a subscriber")
	}
	if s.Patience < 0 {
		return fmt.Errorf("relaytest: PublisherSpec.Patience: %s is negative; use 0 for the default", s.Patience)
	}
	return nil
}

func (s PublisherSpec) withDefaults() PublisherSpec {
	s.Patience = cmp.Or(s.Patience, time.Minute)
	if s.Topic == nil {
		s.Topic = func(testing.TB) string { return "relaytest-" + uuid.NewString() }
	}
	return s
}

// run runs one case. The error is a *missingError if it can't be run.
func (s PublisherSpec) run(t testing.TB, c publisherCase) (err error) {
	s = s.withDefaults()
	publisher, subscriber := s.New(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	tr := &trial{
		spec: s, t: t, publisher: publisher, inbox: newInbox(subscriber), checker: NewChecker(Config{}),
		letters: map[string]*letter{}, positions: map[source]int64{},
	}
	tr.batch, _ = publisher.(watermilladapter.BatchPublisher)
	tr.classifier, _ = publisher.(watermilladapter.ErrorClassifier)
	defer func() {
		cancel()
		if e := publisher.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("closing the publisher: %w", e))
		}
		if !same(publisher, subscriber) {
			if e := subscriber.Close(); e != nil {
				err = errors.Join(err, fmt.Errorf("closing the subscriber: %w", e))
			}
		}
		tr.inbox.wg.Wait()
	}()
	return c.run(ctx, tr)
}

// same says whether both are one value.
func same(p message.Publisher, s message.Subscriber) bool {
	return reflect.TypeOf(p) == reflect.TypeOf(s) && reflect.TypeOf(p).Comparable() && any(p) == any(s)
}

// missingError says that a case can't be run, as the publisher or the spec lacks something.
type missingError struct{ what string }

func (e *missingError) Error() string { return "there is no " + e.what }
