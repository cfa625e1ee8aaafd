package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/IBM/sarama"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// maxRounds bounds how often PublishBatch begins again after messages were refused.
const maxRounds = 16

// PublishBatch implements watermilladapter.BatchPublisher.
//
//   - It sends no message of an aggregate behind one that has failed; such a
//     message has a *BehindError.
//   - For one key in one topic no message arrives for the first time after a later
//     one, also while brokers fail and come back, if the caller sends again from the first message that has
//     an error. Kafka has no order between topics, and so neither has PublishBatch.
//   - When ctx ends it returns at once. The connection is given up then, for all calls,
//     and the next call makes a new one. Other calls send again what they do not know to have arrived.
//   - An outage is reported within RefusedTimeout or SilentTimeout, if ctx does not end before.
//   - A record batch that the broker refuses, because it is too large for the topic
//     for example, is sent again message by message, so that only the one to blame
//     fails. As that is slow, keep Producer.MaxMessageBytes at or below the topic's max.message.bytes.
//   - What a topic that is missing, forbidden or without a leader has to do
//     with fails; the others are sent.
func (p *Publisher) PublishBatch(ctx context.Context, batch []watermilladapter.Outgoing) []error {
	s := &sending{Publisher: p, errs: make([]error, len(batch)), failed: map[string]string{}}
	pending := s.marshal(batch)
	for round := 0; len(pending) > 0; round++ {
		if round == maxRounds {
			s.failAll(pending, errUnknown)
			break
		}
		pending = s.round(ctx, pending)
	}
	return s.errs
}

// item is a message on its way.
type item struct {
	index     int
	uuid      string
	aggregate string // empty: none
	record    *sarama.ProducerMessage
}

// sending is one call of PublishBatch.
type sending struct {
	*Publisher
	errs   []error
	failed map[string]string // aggregate to the UUID of its message that failed
}

func (s *sending) marshal(batch []watermilladapter.Outgoing) []item {
	items := make([]item, 0, len(batch))
	for i, out := range batch {
		it := item{index: i}
		if out.Message != nil {
			it.uuid = out.Message.UUID
			if id := out.Message.Metadata.Get(gormoutbox.HeaderAggregateID); id != "" {
				it.aggregate = out.Message.Metadata.Get(gormoutbox.HeaderAggregateType) + "\x00" + id
			}
		}
		if s.behind(it) {
			continue
		}
		var err error
		if it.record, err = s.marshaler.Marshal(out.Topic, out.Message); err != nil {
			s.fail(it, fmt.Errorf("marshalling: %w", err))
			continue
		}
		const version = 2 // of the record format, as sarama counts
		if size := it.record.ByteSize(version); size > s.limit {
			s.fail(it, fmt.Errorf("%d bytes are more than Producer.MaxMessageBytes, %d: %w", size, s.limit, sarama.ErrMessageSizeTooLarge))
			continue
		}
		items = append(items, it)
	}
	return items
}

// behind settles a message whose aggregate has a failed one.
func (s *sending) behind(it item) bool {
	uuid, is := s.failed[it.aggregate]
	if is {
		s.errs[it.index] = &BehindError{UUID: uuid}
	}
	return is
}

func (s *sending) fail(it item, err error) {
	s.errs[it.index] = fmt.Errorf("watermilladapter/kafka: publishing message %s: %w", it.uuid, err)
	if it.aggregate != "" {
		if _, is := s.failed[it.aggregate]; !is {
			s.failed[it.aggregate] = it.uuid
		}
	}
}

func (s *sending) failAll(items []item, err error) {
	for _, it := range items {
		s.fail(it, err)
	}
}

// send sends the items through the present generation.
func (s *sending) send(ctx context.Context, items []item) ([]outcome, error) {
	g, err := s.batches.get(ctx)
	if err != nil {
		return nil, err
	}
	records := make([]*sarama.ProducerMessage, len(items))
	for i, it := range items {
		// A new one each time: an earlier generation may still have the last.
		records[i] = &sarama.ProducerMessage{Topic: it.record.Topic, Key: it.record.Key, Value: it.record.Value, Headers: it.record.Headers}
	}
	return g.send(ctx, records), nil
}

// round sends the items once and returns those that are to be sent again.
func (s *sending) round(ctx context.Context, items []item) []item {
	outcomes, err := s.send(ctx, items)
	if err != nil {
		s.failAll(items, err)
		return nil
	}
	var (
		suspects = map[int]bool{}    // by index in the batch
		accused  = map[string]bool{} // their aggregates
		topics   = map[string]error{}
		fatal    error
	)
	for i, it := range items {
		switch o := outcomes[i]; {
		case o.err == nil || o.fenced:
		case isAny(o.err, suspicious) && len(items) > 1:
			suspects[it.index], accused[it.aggregate] = true, it.aggregate != ""
		case isAny(o.err, local):
			topics[it.record.Topic] = o.err
		case !IsPermanent(o.err):
			fatal = o.err
		}
		if err := outcomes[i].err; err != nil && !outcomes[i].fenced {
			s.log.WarnContext(ctx, "kafka refused a message", slog.String("topic", it.record.Topic), slog.Any("error", err))
		}
	}

	var alone, again []item
	for i, it := range items {
		o := outcomes[i]
		_, lost := topics[it.record.Topic]
		switch {
		case o.err == nil:
		case ctx.Err() != nil && o.fenced:
			s.fail(it, unsettled(ctx, o.err))
		case suspects[it.index] || accused[it.aggregate] && o.fenced:
			alone = append(alone, it)
		case !o.fenced:
			s.fail(it, o.err)
		case fatal != nil:
			s.fail(it, fmt.Errorf("%w: %w", whether(o.err), fatal))
		case lost:
			s.fail(it, topics[it.record.Topic])
		case !s.behind(it):
			again = append(again, it)
		}
	}
	s.oneByOne(ctx, alone)
	return again
}

// unsettled is the error of a record whose time was up.
func unsettled(ctx context.Context, err error) error {
	return fmt.Errorf("%w: %w", whether(err), ended(ctx))
}

// whether tells whether a record that failed because of another may have arrived.
func whether(err error) error {
	if errors.Is(err, errNotSent) {
		return errNotSent
	}
	return errUnknown
}

// oneByOne sends items of which the broker would not take some together.
func (s *sending) oneByOne(ctx context.Context, items []item) {
	for _, it := range items {
		if s.behind(it) {
			continue
		}
		err := errUnknown
		for round := 0; round < maxRounds && err != nil; round++ {
			outcomes, failure := s.send(ctx, []item{it})
			if failure != nil {
				err = failure
				break
			}
			err = outcomes[0].err
			if !outcomes[0].fenced {
				break
			}
			if ctx.Err() != nil {
				err = unsettled(ctx, err)
				break
			}
		}
		if err != nil {
			s.fail(it, err)
		}
	}
}
