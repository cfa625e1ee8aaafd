package relaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/pause"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// lanes is how many aggregates a publisher that takes no batches gets at the same time, as from a relay.
const lanes = 64

// soon is how long a call may take to return when its context has ended. A relay waits for one second; this is for slow machines.
const soon = 10 * time.Second

var (
	errNotTried = errors.New("not tried, as an earlier one of its aggregate has failed")
	errTimeout  = errors.New("it has not returned")
)

// trial is one case under way.
type trial struct {
	spec       PublisherSpec
	t          testing.TB
	publisher  message.Publisher
	batch      watermilladapter.BatchPublisher  // nil: it takes none
	classifier watermilladapter.ErrorClassifier // nil: it knows nothing about its errors
	inbox      *inbox
	checker    *Checker
	letters    map[string]*letter // by UUID

	mu        sync.Mutex
	positions map[source]int64
	settled   []*letter
}

// source is what has an order: an aggregate in a topic.
type source struct{ topic, aggregate string }

// letter is a message to be published, perhaps more than once.
type letter struct {
	source

	record gormoutbox.Record
	// original is a copy of the payload, as the record's goes to the publisher.
	original []byte
	refused  bool
	at       int64 // position in the aggregate
}

func (l *letter) String() string {
	if l.aggregate == "" {
		return "a message without an aggregate"
	}
	return fmt.Sprintf("message %d of aggregate %s", l.at, l.aggregate)
}

// topic makes a topic and subscribes to it.
func (tr *trial) topic(ctx context.Context) (string, error) {
	topic := tr.spec.Topic(tr.t)
	return topic, tr.inbox.subscribe(ctx, topic)
}

// write makes the next message of an aggregate. Without the name of one it has no aggregate.
func (tr *trial) write(topic, aggregate string, change ...func(*gormoutbox.Record)) *letter {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	l := &letter{source: source{topic, aggregate}}
	tr.positions[l.source]++
	l.at = tr.positions[l.source]
	l.record = gormoutbox.Record{
		ID: uuid.Must(uuid.NewV7()), EventType: "relaytest.happened", Topic: topic,
		Payload: fmt.Appendf(nil, `{"aggregate":%q,"number":%d}`, aggregate, l.at), CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	if aggregate != "" {
		l.record.AggregateType, l.record.AggregateID = "relaytest", aggregate
	}
	for _, f := range change {
		f(&l.record)
	}
	l.original = bytes.Clone(l.record.Payload)
	id := l.record.ID.String()
	tr.letters[id] = l
	e := Event{ID: id}
	if aggregate != "" {
		e.AggregateType, e.AggregateID, e.Position = topic, aggregate, l.at
	}
	tr.checker.Intended(e)
	return l
}

// interleaved makes n messages of each aggregate, in turns.
func (tr *trial) interleaved(topic string, n int, aggregates ...string) []*letter {
	var letters []*letter
	for range n {
		for _, a := range aggregates {
			letters = append(letters, tr.write(topic, a))
		}
	}
	return letters
}

// names are n aggregates. Some bytes of theirs are not plain ASCII.
func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("order %d|ü", i)
	}
	return list
}

func (tr *trial) outgoing(ctx context.Context, l *letter) (watermilladapter.Outgoing, error) {
	msg, err := watermilladapter.ToMessage(l.record)
	if err != nil {
		return watermilladapter.Outgoing{}, err
	}
	if l.refused {
		msg.Payload = bytes.Clone(msg.Payload) // Refuse may write into it
		tr.spec.Refuse(msg)
	}
	msg.SetContext(ctx)
	return watermilladapter.Outgoing{Topic: watermilladapter.Topic(l.record), Message: msg}, nil
}

// publish gives the messages to the publisher once and returns an error for each. What may follow from it is settled:
// of each aggregate what stands before its first failure.
func (tr *trial) publish(ctx context.Context, letters []*letter) ([]error, error) {
	batch := make([]watermilladapter.Outgoing, len(letters))
	for i, l := range letters {
		var err error
		if batch[i], err = tr.outgoing(ctx, l); err != nil {
			return nil, err
		}
	}
	errs, err := tr.call(ctx, letters, batch)
	if err != nil {
		return nil, err
	}
	if len(errs) != len(letters) {
		return nil, fmt.Errorf("PublishBatch has returned %d errors for %d messages", len(errs), len(letters))
	}
	rest, _ := unsettled(letters, errs)
	for _, l := range letters {
		if len(rest) > 0 && l == rest[0] {
			rest = rest[1:]
			continue
		}
		tr.settle(l)
	}
	return errs, nil
}

func (tr *trial) settle(l *letter) {
	tr.checker.Committed(l.record.ID.String())
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.settled = append(tr.settled, l)
}

// call waits for the publisher, for soon when ctx has ended and else for the patience.
func (tr *trial) call(ctx context.Context, letters []*letter, batch []watermilladapter.Outgoing) ([]error, error) {
	type answer struct {
		errs  []error
		wrong error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if v := recover(); v != nil {
				a.wrong = fmt.Errorf("the publisher has panicked: %v", v)
			}
			answers <- a
		}()
		if tr.batch != nil {
			a.errs = tr.batch.PublishBatch(ctx, batch)
		} else {
			a.errs = tr.oneByOne(letters, batch)
		}
	}()
	timer := time.NewTimer(tr.spec.Patience)
	defer timer.Stop()
	end := ctx.Done()
	if tr.batch == nil {
		end = nil // Publish does not know of it
	}
	for {
		select {
		case a := <-answers:
			return a.errs, a.wrong
		case <-end:
			end = nil
			timer.Reset(min(soon, tr.spec.Patience))
		case <-timer.C:
			if ctx.Err() != nil && tr.batch != nil {
				return nil, fmt.Errorf("%w, although its context has ended some time ago", errTimeout)
			}
			return nil, fmt.Errorf("%w within %s", errTimeout, tr.spec.Patience)
		}
	}
}

// oneByOne gives the messages of each aggregate to a publisher that takes no batches, up to the first failure.
func (tr *trial) oneByOne(letters []*letter, batch []watermilladapter.Outgoing) []error {
	errs := make([]error, len(letters))
	queues := map[string][]int{}
	for i, l := range letters {
		key := l.aggregate
		if key == "" {
			key = "\x00" + l.record.ID.String()
		}
		queues[key] = append(queues[key], i)
	}
	free := make(chan struct{}, lanes)
	var wg sync.WaitGroup
	for _, queue := range queues {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			var failed error
			for _, i := range queue {
				if failed != nil {
					errs[i] = errNotTried
					continue
				}
				failed = tr.publishOne(batch[i])
				errs[i] = failed
			}
		})
	}
	wg.Wait()
	return errs
}

func (tr *trial) publishOne(o watermilladapter.Outgoing) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the publisher has panicked: %v", v)
		}
	}()
	return tr.publisher.Publish(o.Topic, o.Message)
}

// must publishes messages of which none may fail.
func (tr *trial) must(ctx context.Context, letters []*letter) error {
	errs, err := tr.publish(ctx, letters)
	if err != nil {
		return err
	}
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("%s failed: %w", letters[i], err)
		}
	}
	return nil
}

// until publishes as a relay does until everything is settled: again from the first message of each aggregate that has an error.
func (tr *trial) until(ctx context.Context, letters []*letter) error {
	limited, cancel := context.WithTimeout(ctx, tr.spec.Patience)
	defer cancel()
	for n := 1; ; n++ {
		errs, err := tr.publish(limited, letters)
		if err != nil {
			return err
		}
		if letters, err = unsettled(letters, errs); len(letters) == 0 {
			return nil
		}
		if !pause.Sleep(limited, pause.Backoff(10*time.Millisecond, time.Second, n)) {
			return fmt.Errorf("%d messages still fail after %s: %w", len(letters), tr.spec.Patience, err)
		}
	}
}

// unsettled returns what is to be sent again, and the first error.
func unsettled(letters []*letter, errs []error) (rest []*letter, first error) {
	failed := map[string]bool{} // aggregates
	for i, l := range letters {
		if errs[i] == nil && !failed[l.aggregate] {
			continue
		}
		failed[l.aggregate] = l.aggregate != ""
		rest = append(rest, l)
		if first == nil {
			first = errs[i]
		}
	}
	return rest, first
}

// arrived publishes one more message of each aggregate and waits for it, since nothing that is missing behind it will
// come. Then it checks what came, and in which order.
func (tr *trial) arrived(ctx context.Context) error {
	var last []*letter
	for s := range maps.Clone(tr.positions) { // write changes it
		if s.aggregate != "" {
			last = append(last, tr.write(s.topic, s.aggregate))
		}
	}
	if len(last) > 0 {
		if err := tr.until(ctx, last); err != nil {
			return fmt.Errorf("one more message of each aggregate: %w", err)
		}
	}
	var ids []string
	for _, l := range tr.settled {
		if l.aggregate == "" {
			ids = append(ids, l.record.ID.String())
		}
	}
	for _, l := range last {
		ids = append(ids, l.record.ID.String())
	}
	missing, err := tr.inbox.await(ids, tr.spec.Patience)
	if err != nil {
		return err
	}
	arrivals := tr.inbox.all()
	for _, a := range arrivals {
		d := Delivery{ID: a.msg.UUID, AggregateType: a.topic, Stream: a.topic, At: time.Now()}
		if l, ok := tr.letters[a.msg.UUID]; ok {
			d.AggregateID = l.aggregate
			if l.aggregate == "" {
				d.AggregateType = ""
				if l.topic != a.topic {
					err = errors.Join(err, fmt.Errorf("%s arrived in topic %s instead of %s", l, a.topic, l.topic))
				}
			}
		}
		tr.checker.Delivered(d)
	}
	return errors.Join(err, tr.verdict(missing))
}

// verdict is what the checker has found, without duplicates.
func (tr *trial) verdict(missing []string) error {
	r := tr.checker.Report()
	var errs []error
	for _, kind := range []Kind{Lost, Invented, Inverted, Inconsistent} {
		if r.Found[kind] == 0 {
			continue
		}
		errs = append(errs, fmt.Errorf("%d %s of %d messages", r.Found[kind], kind, r.Intended))
		for _, f := range r.Examples[kind] {
			errs = append(errs, errors.New(f.String()))
		}
	}
	if errs == nil && len(missing) > 0 {
		errs = append(errs, fmt.Errorf("%d messages have not arrived after %s", len(missing), tr.spec.Patience))
	}
	return errors.Join(errs...)
}

// unchanged compares all that arrived with what was published.
func (tr *trial) unchanged() error {
	for _, a := range tr.inbox.all() {
		l, ok := tr.letters[a.msg.UUID]
		if !ok {
			continue // told already
		}
		if !bytes.Equal(a.msg.Payload, l.original) {
			return fmt.Errorf("%s: the payload has changed: %s instead of %s", l, head(a.msg.Payload), head(l.original))
		}
		want, err := watermilladapter.ToMessage(l.record)
		if err != nil {
			return err
		}
		for name, value := range want.Metadata {
			if got, ok := a.msg.Metadata[name]; !ok || got != value {
				return fmt.Errorf("%s: the metadata has %q for %s instead of %q", l, got, name, value)
			}
		}
	}
	for _, l := range tr.letters {
		if !bytes.Equal(l.record.Payload, l.original) {
			return fmt.Errorf("%s: the publisher has changed its payload in place, to %s", l, head(l.record.Payload))
		}
	}
	return nil
}

// head is the beginning of a payload, to be printed.
func head(b []byte) string {
	const most = 40
	if len(b) > most {
		return fmt.Sprintf("%q… (%d bytes)", b[:most], len(b))
	}
	return fmt.Sprintf("%q", b)
}
