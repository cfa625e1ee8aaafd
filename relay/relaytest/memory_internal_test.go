package relaytest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
)

var (
	errAway     = errors.New("the broker is away")
	errTooLarge = errors.New("too large")
	errBehind   = errors.New("behind another")
	errBusy     = errors.New("busy")
)

// tooLarge is more than the memory takes.
const tooLarge = 100_000

// memory is a broker that keeps the order of each topic, and can be away.
type memory struct {
	mu      sync.Mutex
	topics  map[string][]*message.Message
	changed chan struct{} // closed at the next message and made anew
	away    bool
}

func newMemory() *memory {
	return &memory{topics: map[string][]*message.Message{}, changed: make(chan struct{})}
}

func (m *memory) fail(testing.TB) (mend func()) {
	m.set(true)
	return func() { m.set(false) }
}

func (m *memory) set(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

func (m *memory) isAway() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.away
}

func (m *memory) put(topic string, msg *message.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errAway
	}
	if len(msg.Payload) > tooLarge {
		return errTooLarge
	}
	own := msg.Copy()
	own.Payload = slices.Clone(own.Payload)
	m.topics[topic] = append(m.topics[topic], own)
	close(m.changed)
	m.changed = make(chan struct{})
	return nil
}

func (m *memory) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for next := 0; ; {
			m.mu.Lock()
			list, changed := m.topics[topic][next:], m.changed
			m.mu.Unlock()
			for _, msg := range list {
				sent := msg.Copy()
				select {
				case out <- sent:
				case <-ctx.Done():
					return
				}
				select {
				case <-sent.Acked():
				case <-ctx.Done():
					return
				}
			}
			next += len(list)
			if len(list) > 0 {
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (m *memory) Close() error { return nil }

// fake is a publisher to a memory, which is right if it has no fault.
type fake struct {
	*memory

	fault fault

	// The following are for faults.
	mu     sync.Mutex
	kept   []watermilladapter.Outgoing
	broken bool
	calls  int
	shared []watermilladapter.Outgoing
}

var (
	_ watermilladapter.BatchPublisher  = (*fake)(nil)
	_ watermilladapter.ErrorClassifier = (*fake)(nil)
)

// fault is what is wrong with a fake, in words.
type fault string

const (
	none                fault = "none"
	sendsTwice          fault = "none: it sends everything twice"
	reverses            fault = "it reverses a batch"
	keepsBack           fault = "it sends the last message of a call after those of the next call"
	loses               fault = "it loses a message without an error"
	losesFree           fault = "it loses messages without an aggregate"
	firstTopic          fault = "it takes the topic of the first message for all"
	noMetadata          fault = "it drops a header"
	asciiMetadata       fault = "it takes what is not ASCII out of the metadata"
	emptyMetadata       fault = "it drops headers without a value"
	emptyPayload        fault = "it publishes null instead of nothing"
	cutPayload          fault = "it cuts the payload at a NUL"
	newUUID             fault = "it gives messages another UUID"
	inPlace             fault = "it writes into the payload"
	onlyFailures        fault = "it returns the errors of those that failed only"
	oneErrorAtEnd       fault = "it returns one error if the context has ended"
	panicsOnNone        fault = "it panics if there is nothing"
	errorForNone        fault = "it returns an error for nothing"
	hangsOnNone         fault = "it waits for ever for the outcomes of nothing"
	goesOnAndSaysSo     fault = "it goes on behind a refused message"
	goesOnInSilence     fault = "it goes on behind a refused message and says that it did not"
	failsAggregate      fault = "it fails the whole aggregate of a refused message"
	swallowsRefusal     fault = "it says that a refused message is published"
	shiftsErrors        fault = "its errors are at the wrong index"
	failsBatch          fault = "it fails the whole batch because of a refused message"
	failsFree           fault = "it takes all messages without an aggregate for one aggregate"
	allPermanent        fault = "it takes all errors for permanent"
	nonePermanent       fault = "it takes no error for permanent"
	refusedIsOutage     fault = "it takes a refused message for an outage"
	endIsPermanent      fault = "it takes the end of a context for permanent"
	ignoresContext      fault = "it ignores its context"
	brokenByCancel      fault = "it does not work any more after a context has ended"
	publishedAtEnd      fault = "it says that all is published if the context has ended"
	lateAndWrong        fault = "it sends the rest in the background when the context has ended, and the last first"
	oneAtATime          fault = "it can't be called at the same time"
	mixesCalls          fault = "it mixes up the messages of two calls"
	fullQueue           fault = "it fails what does not fit into its queue"
	fullQueueLoses      fault = "it loses what does not fit into its queue"
	goesOnInOutage      fault = "it goes on behind a message that failed in an outage"
	losesInOutage       fault = "it loses what it gets in an outage"
	neverBack           fault = "it does not work any more after an outage"
	outageIsPermanent   fault = "it takes an outage for permanent"
	outageIsNone        fault = "it does not know an outage"
	hangsInOutage       fault = "it waits for the broker, whatever its context says"
	background          fault = "it publishes in the background"
	panics              fault = "it panics"
	closesWithError     fault = "it can't be closed"
	hangsBehindRefusals fault = "it hangs after it has been refused something"
)

func aggregateOf(o watermilladapter.Outgoing) string {
	return o.Message.Metadata.Get(gormoutbox.HeaderAggregateID)
}

// step is how long a message takes, on the bubble's clock.
const step = 100 * time.Microsecond

func (p *fake) PublishBatch(ctx context.Context, batch []watermilladapter.Outgoing) []error {
	defer p.enter()()
	if done, errs := p.before(ctx, batch); done {
		return errs
	}
	order := make([]int, len(batch))
	for i := range order {
		order[i] = i
	}
	if p.fault == reverses {
		slices.Reverse(order)
	}
	p.mu.Lock()
	p.shared = batch
	late, kept := p.kept, []watermilladapter.Outgoing(nil)
	p.mu.Unlock()
	errs := make([]error, len(batch))
	failed := map[string]bool{}
	for n, i := range order {
		time.Sleep(step)
		o := batch[i]
		if p.fault == mixesCalls {
			p.mu.Lock()
			if i < len(p.shared) {
				o = p.shared[i]
			}
			p.mu.Unlock()
		}
		if p.fault == firstTopic {
			o.Topic = batch[0].Topic
		}
		a := aggregateOf(o)
		switch {
		case ctx.Err() != nil && p.fault != ignoresContext:
			return p.cancelled(ctx, batch, errs, i)
		case failed[a]:
			errs[i] = errBehind
			if p.fault == goesOnInSilence {
				_ = p.put(o.Topic, o.Message)
			}
			continue
		case n >= 4096 && p.fault == fullQueue:
			errs[i] = errBusy
		case n >= 4096 && p.fault == fullQueueLoses, p.fault == loses && n == 17, p.fault == losesFree && a == "":
		case p.fault == keepsBack && n == len(order)-1:
			kept = append(kept, o)
		default:
			errs[i] = p.send(o)
		}
		goesOn := p.fault == goesOnAndSaysSo && errors.Is(errs[i], errTooLarge) || p.fault == goesOnInOutage && errors.Is(errs[i], errAway)
		if errs[i] != nil && (a != "" || p.fault == failsFree) && !goesOn {
			failed[a] = true
		}
	}
	for _, o := range late {
		_ = p.put(o.Topic, o.Message)
	}
	p.mu.Lock()
	p.kept = kept
	p.mu.Unlock()
	return p.after(errs)
}

// enter counts calls.
func (p *fake) enter() (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls--
	}
}

// before has faults that show before anything is sent.
func (p *fake) before(ctx context.Context, batch []watermilladapter.Outgoing) (done bool, errs []error) {
	n := len(batch)
	refused := slices.ContainsFunc(batch, func(o watermilladapter.Outgoing) bool { return len(o.Message.Payload) > tooLarge })
	p.mu.Lock()
	calls, broken := p.calls, p.broken
	p.mu.Unlock()
	switch {
	case n == 0 && p.fault == panicsOnNone, n > 0 && p.fault == panics:
		_ = batch[len(batch)].Topic
	case n == 0 && p.fault == errorForNone:
		return true, []error{nil}
	case n == 0 && p.fault == hangsOnNone:
		time.Sleep(time.Hour)
	case broken && p.fault == hangsBehindRefusals:
		time.Sleep(time.Hour)
	case ctx.Err() != nil && p.fault == oneErrorAtEnd:
		return true, []error{ctx.Err()}
	case ctx.Err() != nil && p.fault == ignoresContext:
		time.Sleep(time.Hour)
	case refused && p.fault == failsBatch:
		return true, repeated(n, errTooLarge)
	case broken:
		return true, repeated(n, errBusy)
	case calls > 1 && p.fault == oneAtATime:
		return true, repeated(n, errBusy)
	case p.isAway() && p.fault == hangsInOutage:
		time.Sleep(time.Hour)
	case p.fault == failsAggregate && refused:
		bad := map[string]bool{}
		for _, o := range batch {
			if len(o.Message.Payload) > tooLarge {
				bad[aggregateOf(o)] = true
			}
		}
		errs = make([]error, n)
		for i, o := range batch {
			if bad[aggregateOf(o)] {
				errs[i] = errTooLarge
			} else {
				errs[i] = p.put(o.Topic, o.Message)
			}
		}
		return true, errs
	}
	return false, nil
}

// repeated is one error for each of n messages.
func repeated(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (p *fake) cancelled(ctx context.Context, batch []watermilladapter.Outgoing, errs []error, from int) []error {
	p.mu.Lock()
	p.broken = p.fault == brokenByCancel
	p.mu.Unlock()
	for i := from; i < len(batch); i++ {
		if p.fault != publishedAtEnd {
			errs[i] = ctx.Err()
		}
	}
	if p.fault == lateAndWrong {
		for _, o := range slices.Backward(batch[from:]) {
			_ = p.put(o.Topic, o.Message)
		}
	}
	return errs
}

func (p *fake) send(o watermilladapter.Outgoing) error {
	msg := o.Message.Copy()
	switch p.fault {
	case noMetadata:
		delete(msg.Metadata, gormoutbox.HeaderChanged)
	case asciiMetadata:
		for name, value := range msg.Metadata {
			msg.Metadata[name] = string(slices.DeleteFunc([]byte(value), func(b byte) bool { return b > 127 }))
		}
	case emptyMetadata:
		for name, value := range msg.Metadata {
			if value == "" {
				delete(msg.Metadata, name)
			}
		}
	case emptyPayload:
		if len(msg.Payload) == 0 {
			msg.Payload = []byte("null")
		}
	case cutPayload:
		if at := slices.Index(msg.Payload, 0); at >= 0 {
			msg.Payload = msg.Payload[:at]
		}
	case newUUID:
		msg.UUID = uuid.NewString()
	case inPlace:
		defer func() {
			if len(msg.Payload) > 0 {
				msg.Payload[0] ^= 1
			}
		}()
	}
	err := p.put(o.Topic, msg)
	if err == nil && p.fault == sendsTwice {
		err = p.put(o.Topic, msg)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, errTooLarge) && p.fault == swallowsRefusal, errors.Is(err, errAway) && p.fault == losesInOutage:
		return nil
	case errors.Is(err, errAway) && p.fault == neverBack, errors.Is(err, errTooLarge) && p.fault == hangsBehindRefusals:
		p.broken = true
	}
	return err
}

// after has faults that show in what is returned.
func (p *fake) after(errs []error) []error {
	switch p.fault {
	case onlyFailures:
		return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	case shiftsErrors:
		if len(errs) > 1 {
			return append(errs[1:], errs[0])
		}
	}
	return errs
}

// Publish implements message.Publisher.
func (p *fake) Publish(topic string, messages ...*message.Message) error {
	defer p.enter()()
	for _, msg := range messages {
		o := watermilladapter.Outgoing{Topic: topic, Message: msg}
		if p.fault == background {
			p.mu.Lock()
			p.kept = append(p.kept, o)
			delay := time.Millisecond + time.Duration(-len(p.kept)%7)*step*3
			p.mu.Unlock()
			time.AfterFunc(delay, func() { _ = p.put(topic, msg) })
			continue
		}
		if done, errs := p.before(context.Background(), []watermilladapter.Outgoing{o}); done {
			return errs[0]
		}
		time.Sleep(step)
		if p.fault == loses && string(msg.Payload) == `{"aggregate":"hot","number":17}` {
			continue
		}
		if err := p.send(o); err != nil {
			return err
		}
	}
	return nil
}

func (p *fake) Close() error {
	if p.fault == closesWithError {
		return errBusy
	}
	return nil
}

func (p *fake) IsPermanent(err error) bool {
	switch p.fault {
	case allPermanent:
		return true
	case nonePermanent:
		return false
	case endIsPermanent:
		return errors.Is(err, errTooLarge) || errors.Is(err, context.DeadlineExceeded)
	case outageIsPermanent:
		return errors.Is(err, errTooLarge) || errors.Is(err, errAway)
	default:
		return errors.Is(err, errTooLarge)
	}
}

func (p *fake) IsOutage(err error) bool {
	switch p.fault {
	case refusedIsOutage:
		return true
	case outageIsNone:
		return false
	default:
		return errors.Is(err, errAway) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
}
