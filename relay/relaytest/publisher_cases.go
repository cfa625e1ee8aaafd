package relaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gormoutbox/outbox/gormoutbox"
)

func publisherCases() []publisherCase {
	return []publisherCase{
		{"Order", "the messages of an aggregate must arrive in their order", orderInABatch},
		{"OrderOverBatches", "the messages of an aggregate must arrive in the order of the calls", orderOverBatches},
		{"Topics", "each message must arrive in its topic", manyTopics},
		{"Content", "id, payload and metadata must arrive as they were", content},
		{"Errors", "there must be one error for each message", oneErrorEach},
		{"Empty", "an empty batch must be no mistake", emptyBatch},
		{"Refused", "only what stands before a refused message may be published, and all of that", refusedMessage},
		{"Others", "a refused message must not harm other aggregates", otherAggregates},
		{"Classes", "only what the broker refuses for good is permanent", classes},
		{"Cancelled", "a call must return when its context ends, and the next one must work", cancelled},
		{"Concurrent", "calls at the same time must not disturb each other", concurrentCalls},
		{"Large", "a batch may have 10,000 messages", largeBatch},
		{"Outage", "an outage must lose nothing and keep the order", outage},
	}
}

func (tr *trial) needsBatch() error {
	if tr.batch == nil {
		return &missingError{"PublishBatch"}
	}
	return nil
}

func (tr *trial) needsRefuse() error {
	if tr.spec.Refuse == nil {
		return &missingError{"PublisherSpec.Refuse"}
	}
	return nil
}

func orderInABatch(ctx context.Context, tr *trial) error {
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	if err := tr.must(ctx, tr.interleaved(topic, 300, "hot")); err != nil {
		return err
	}
	if err := tr.must(ctx, tr.interleaved(topic, 25, append(names(20), "")...)); err != nil {
		return err
	}
	return tr.arrived(ctx)
}

func orderOverBatches(ctx context.Context, tr *trial) error {
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	for _, size := range []int{1, 1, 1, 40, 1, 10, 10, 2, 1, 100, 1} {
		if err := tr.must(ctx, tr.interleaved(topic, size, names(5)...)); err != nil {
			return err
		}
	}
	return tr.arrived(ctx)
}

func manyTopics(ctx context.Context, tr *trial) error {
	var topics []string
	for range 3 {
		topic, err := tr.topic(ctx)
		if err != nil {
			return err
		}
		topics = append(topics, topic)
	}
	for range 2 {
		var letters []*letter
		for range 10 {
			for _, aggregate := range append(names(4), "") {
				for _, topic := range topics {
					letters = append(letters, tr.write(topic, aggregate))
				}
			}
		}
		if err := tr.must(ctx, letters); err != nil {
			return err
		}
	}
	return tr.arrived(ctx)
}

func content(ctx context.Context, tr *trial) error {
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	var every [256]byte
	for i := range every {
		every[i] = byte(i)
	}
	var letters []*letter
	for _, payload := range [][]byte{
		nil, {}, {0}, every[:], []byte("gr\u00fc\u00dfe \u4e16\u754c \U0001F642"), []byte(" \r\n\t "), []byte(`{"a":"\u0000"}`), bytes.Repeat(every[:], 64<<10/len(every)),
	} {
		for _, aggregate := range []string{"content", ""} {
			letters = append(letters, tr.write(topic, aggregate, func(r *gormoutbox.Record) {
				r.Payload = bytes.Clone(payload)
				r.Headers = map[string]string{
					gormoutbox.HeaderTraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", gormoutbox.HeaderChanged: "status,amount",
					"greeting": "gr\u00fc\u00dfe, \u4e16\u754c \U0001F642", "marks": `a=b;c, "d": {e}\f%20`, "nothing": "", "long": strings.Repeat("x", 1000),
				}
			}))
		}
	}
	if err := tr.must(ctx, letters); err != nil {
		return err
	}
	return errors.Join(tr.arrived(ctx), tr.unchanged())
}

// oneErrorEach: publish compares the numbers.
func oneErrorEach(ctx context.Context, tr *trial) error {
	if err := tr.needsBatch(); err != nil {
		return err
	}
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	for _, size := range []int{1, 2, 3, 100} {
		if err := tr.must(ctx, tr.interleaved(topic, size, "a", "")); err != nil {
			return err
		}
		if tr.spec.Refuse != nil {
			letters := tr.interleaved(topic, size, fmt.Sprintf("refused in %d", size), "b")
			letters[0].refused = true
			if _, err := tr.publish(ctx, letters); err != nil {
				return fmt.Errorf("with a refused message: %w", err)
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := tr.publish(ended, tr.interleaved(topic, size, fmt.Sprintf("ended %d", size))); err != nil {
			return fmt.Errorf("with a context that has ended: %w", err)
		}
	}
	return nil
}

func emptyBatch(ctx context.Context, tr *trial) error {
	if err := tr.needsBatch(); err != nil {
		return err
	}
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	for range 2 { // also as the first thing that the publisher is asked for
		for _, none := range [][]*letter{nil, {}} {
			if _, err := tr.publish(ctx, none); err != nil {
				return err
			}
		}
		if err := tr.must(ctx, tr.interleaved(topic, 3, "a")); err != nil {
			return err
		}
	}
	return tr.arrived(ctx)
}

func refusedMessage(ctx context.Context, tr *trial) error {
	if err := tr.needsRefuse(); err != nil {
		return err
	}
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	for _, test := range []struct{ size, at int }{{20, 10}, {20, 0}, {20, 19}, {300, 150}, {1, 0}} {
		letters := tr.interleaved(topic, test.size, fmt.Sprintf("refused %d of %d", test.at, test.size))
		letters[test.at].refused = true
		errs, err := tr.publish(ctx, letters)
		if err != nil {
			return err
		}
		for i, err := range errs {
			switch {
			case i < test.at && err != nil:
				return fmt.Errorf("%s failed, which stands before the refused one: %w", letters[i], err)
			case i == test.at && err == nil:
				return fmt.Errorf("%s was to be refused and is said to be published", letters[i])
			case i > test.at && err == nil:
				return fmt.Errorf("%s is said to be published, behind the refused one", letters[i])
			}
		}
		// It was mended. What was sent of those behind it would have arrived before it.
		letters[test.at].refused = false
		if err := tr.until(ctx, letters[test.at:]); err != nil {
			return err
		}
	}
	return tr.arrived(ctx)
}

func otherAggregates(ctx context.Context, tr *trial) error {
	if err := tr.needsRefuse(); err != nil {
		return err
	}
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	letters := tr.interleaved(topic, 20, append(names(10), "bad", "", "bad from the first")...)
	for _, l := range letters {
		l.refused = l.aggregate == "bad" && l.at == 10 || l.aggregate == "bad from the first" && l.at == 1
	}
	alone := tr.write(topic, "")
	alone.refused = true
	letters = append(letters, alone, tr.write(topic, ""))
	errs, err := tr.publish(ctx, letters)
	if err != nil {
		return err
	}
	rest, _ := unsettled(letters, errs)
	for i, err := range errs {
		switch l := letters[i]; {
		case l.refused && err == nil:
			return fmt.Errorf("%s was to be refused and is said to be published", l)
		case !l.refused && err != nil && (!strings.HasPrefix(l.aggregate, "bad") || l.aggregate == "bad" && l.at < 10):
			return fmt.Errorf("%s failed because of another one: %w", l, err)
		}
	}
	for _, l := range letters {
		l.refused = false
	}
	if err := tr.until(ctx, rest); err != nil {
		return err
	}
	return tr.arrived(ctx)
}

func classes(ctx context.Context, tr *trial) error {
	if tr.classifier == nil {
		return &missingError{"ErrorClassifier"}
	}
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, fmt.Errorf("wrapped: %w", context.Canceled), errors.New("unheard of")} {
		if tr.classifier.IsPermanent(err) {
			return fmt.Errorf("IsPermanent is true for an error that is not its own: %w", err)
		}
	}
	if tr.batch != nil {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		late, cancelLate := context.WithDeadline(ctx, time.Unix(0, 0))
		defer cancelLate()
		if err := errors.Join(tr.endIsNotPermanent(ended, topic), tr.endIsNotPermanent(late, topic)); err != nil {
			return err
		}
	}
	if tr.spec.Refuse == nil {
		return nil
	}
	for _, aggregate := range []string{"refused", ""} {
		l := tr.write(topic, aggregate)
		l.refused = true
		errs, err := tr.publish(ctx, []*letter{l})
		switch {
		case err != nil:
			return err
		case errs[0] == nil:
			return fmt.Errorf("%s was to be refused and is said to be published", l)
		case !tr.classifier.IsPermanent(errs[0]):
			return fmt.Errorf("IsPermanent is false for a refused message: %w", errs[0])
		case tr.classifier.IsOutage(errs[0]):
			return fmt.Errorf("IsOutage is true for a refused message: %w", errs[0])
		}
	}
	return nil
}

// endIsNotPermanent publishes when ctx has ended.
func (tr *trial) endIsNotPermanent(ctx context.Context, topic string) error {
	errs, err := tr.publish(ctx, tr.interleaved(topic, 3, "ended"))
	if err != nil {
		return err
	}
	if err := errs[0]; err != nil && tr.classifier.IsPermanent(err) {
		return fmt.Errorf("IsPermanent is true when the context has ended: %w", err)
	}
	return nil
}

func cancelled(ctx context.Context, tr *trial) error {
	if err := tr.needsBatch(); err != nil {
		return err
	}
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	for _, size := range []int{1, 100, 100, 100} {
		limited, cancel := context.WithCancel(ctx)
		if size == 1 {
			cancel() // before the call; later on while it is under way
		}
		letters := tr.interleaved(topic, size, names(20)...)
		n, returned := len(tr.inbox.all()), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer cancel()
			tr.inbox.beyond(n+1, returned)
		})
		errs, err := tr.publish(limited, letters)
		close(returned)
		wg.Wait()
		if err != nil {
			return err
		}
		rest, _ := unsettled(letters, errs)
		if err := tr.until(ctx, rest); err != nil {
			return fmt.Errorf("after a call whose context had ended: %w", err)
		}
	}
	return tr.arrived(ctx)
}

func concurrentCalls(ctx context.Context, tr *trial) error {
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	const callers, calls = 8, 5
	var wg sync.WaitGroup
	errs := make([]error, callers)
	for c := range callers {
		var batches [calls][]*letter
		for i := range batches {
			batches[i] = tr.interleaved(topic, 10, fmt.Sprintf("of %d", c), fmt.Sprintf("also of %d", c), "")
		}
		wg.Go(func() {
			for _, letters := range batches {
				if errs[c] = tr.must(ctx, letters); errs[c] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errors.Join(tr.arrived(ctx), tr.unchanged())
}

func largeBatch(ctx context.Context, tr *trial) error {
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	letters := append(tr.interleaved(topic, 80, append(names(99), "")...), tr.interleaved(topic, 2000, "hot")...)
	if err := tr.must(ctx, letters); err != nil {
		return err
	}
	return errors.Join(tr.arrived(ctx), tr.unchanged())
}

func outage(ctx context.Context, tr *trial) error {
	if tr.spec.Fail == nil {
		return &missingError{"PublisherSpec.Fail"}
	}
	topic, err := tr.topic(ctx)
	if err != nil {
		return err
	}
	if err := tr.must(ctx, tr.interleaved(topic, 1, names(20)...)); err != nil {
		return err
	}
	for _, o := range []struct {
		begin  int
		length time.Duration
		ends   bool
	}{{1, 20 * time.Millisecond, false}, {100, 300 * time.Millisecond, false}, {200, tr.spec.Patience, false}, {1, tr.spec.Patience, true}} {
		if err := tr.outageInside(ctx, topic, o.begin, o.length, o.ends); err != nil {
			return err
		}
	}
	if err := tr.longOutage(ctx, topic); err != nil {
		return err
	}
	return tr.arrived(ctx)
}

// outageInside is one in the middle of a call: it begins when some messages have arrived, and ends after a while or with the call. A
// publisher that goes on behind a message that has failed lets the others overtake it. If ends is set the call's context ends meanwhile.
func (tr *trial) outageInside(ctx context.Context, topic string, begin int, length time.Duration, ends bool) error {
	letters := tr.interleaved(topic, 50, append(names(20), "")...)
	n, returned := len(tr.inbox.all()), make(chan struct{})
	limited, cancel := context.WithTimeout(ctx, tr.spec.Patience/2)
	defer cancel()
	var errs []error
	var err error
	go func() {
		defer close(returned)
		errs, err = tr.publish(limited, letters)
	}()
	if tr.inbox.beyond(n+begin, returned) {
		mend := tr.spec.Fail(tr.t)
		if ends {
			cancel()
		}
		timer := time.NewTimer(length)
		select {
		case <-returned:
		case <-timer.C:
		}
		timer.Stop()
		mend()
	}
	<-returned
	if err != nil {
		return err
	}
	rest, _ := unsettled(letters, errs)
	if err := tr.until(ctx, rest); err != nil {
		return fmt.Errorf("after an outage in the middle of a call: %w", err)
	}
	return nil
}

// longOutage lasts for two calls. The context of the first ends soon, that of the second when a publisher may have given up by itself.
func (tr *trial) longOutage(ctx context.Context, topic string) error {
	rest := tr.interleaved(topic, 10, append(names(20), "")...)
	mend := sync.OnceFunc(tr.spec.Fail(tr.t))
	defer mend()
	for _, limit := range []time.Duration{100 * time.Millisecond, tr.spec.Patience / 2} {
		limited, cancel := context.WithTimeout(ctx, limit)
		errs, err := tr.publish(limited, rest)
		ended := limited.Err() != nil
		cancel()
		if err != nil {
			return fmt.Errorf("while the broker fails: %w", err)
		}
		if rest, err = unsettled(rest, errs); err == nil {
			return errors.New("all messages are said to be published while the broker fails")
		}
		if tr.classifier != nil && tr.classifier.IsPermanent(err) {
			return fmt.Errorf("IsPermanent is true while the broker fails: %w", err)
		}
		if tr.classifier != nil && !ended && !tr.classifier.IsOutage(err) {
			return fmt.Errorf("IsOutage is false while the broker fails: %w", err)
		}
	}
	mend()
	if err := tr.until(ctx, rest); err != nil {
		return fmt.Errorf("after an outage: %w", err)
	}
	return nil
}
