package relaytest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// specOf is for a fake publisher. Without batches its PublishBatch is hidden, and with it what it knows about errors.
func specOf(f fault, batches bool) PublisherSpec {
	m := newMemory()
	return PublisherSpec{
		New: func(testing.TB) (message.Publisher, message.Subscriber) {
			p := &fake{memory: m, fault: f}
			if batches {
				return p, m
			}
			return struct{ message.Publisher }{p}, m
		},
		Refuse: func(msg *message.Message) { msg.Payload = make([]byte, tooLarge+1) },
		Fail:   m.fail,
	}
}

// runCase runs one case with a clock of its own, so that the suite's patience costs nothing.
func runCase(t *testing.T, f fault, batches bool, c publisherCase) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		err = specOf(f, batches).run(t, c)
		time.Sleep(1000 * time.Hour) // calls that hang return
	})
	return err
}

func caseOf(t *testing.T, name string) publisherCase {
	t.Helper()
	for _, c := range publisherCases() {
		if c.name == name {
			return c
		}
	}
	require.Fail(t, "there is no case "+name)
	return publisherCase{}
}

func TestARightPublisherPasses(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{none, sendsTwice} {
		for _, batches := range []bool{true, false} {
			var skipped []string
			for _, c := range publisherCases() {
				err := runCase(t, f, batches, c)
				if errors.As(err, new(*missingError)) {
					skipped = append(skipped, c.name)
					continue
				}
				assert.NoError(t, err, "%s: %s", f, c.name)
			}
			if batches {
				assert.Empty(t, skipped)
			} else {
				assert.Equal(t, []string{"Errors", "Empty", "Classes", "Cancelled"}, skipped)
			}
		}
	}
}

// planted is a fault, one case that must notice it, and what it must say.
type planted struct {
	fault fault
	where string
	says  string
}

func TestEachCaseNoticesWhatItIsFor(t *testing.T) {
	t.Parallel()
	noticed := map[string]bool{}
	for _, p := range []planted{
		{reverses, "Order", "inverted"},
		{loses, "Order", "lost"},
		{losesFree, "Order", "lost"},
		{panics, "Order", "panicked"},
		{closesWithError, "Order", "closing the publisher"},
		{newUUID, "Order", "invented"},
		{keepsBack, "OrderOverBatches", "inverted"},
		{firstTopic, "Topics", "another aggregate"},
		{noMetadata, "Content", `the metadata has ""`},
		{asciiMetadata, "Content", "the metadata has"},
		{emptyMetadata, "Content", `the metadata has "" for nothing`},
		{emptyPayload, "Content", "the payload has changed"},
		{cutPayload, "Content", "the payload has changed"},
		{inPlace, "Content", "in place"},
		{newUUID, "Content", "invented"},
		{onlyFailures, "Errors", "errors for"},
		{oneErrorAtEnd, "Errors", "1 errors for 2 messages"},
		{panicsOnNone, "Empty", "panicked"},
		{errorForNone, "Empty", "1 errors for 0 messages"},
		{hangsOnNone, "Empty", "it has not returned"},
		{goesOnAndSaysSo, "Refused", "behind the refused one"},
		{goesOnInSilence, "Refused", "inverted"},
		{failsAggregate, "Refused", "before the refused one"},
		{failsBatch, "Refused", "before the refused one"},
		{swallowsRefusal, "Refused", "was to be refused"},
		{shiftsErrors, "Refused", "before the refused one"},
		{hangsBehindRefusals, "Refused", "it has not returned"},
		{failsAggregate, "Others", "failed because of another one"},
		{failsBatch, "Others", "failed because of another one"},
		{failsFree, "Others", "failed because of another one"},
		{swallowsRefusal, "Others", "was to be refused"},
		{goesOnInSilence, "Others", "inverted"},
		{allPermanent, "Classes", "IsPermanent is true"},
		{nonePermanent, "Classes", "IsPermanent is false"},
		{refusedIsOutage, "Classes", "IsOutage is true"},
		{endIsPermanent, "Classes", "IsPermanent is true"},
		{ignoresContext, "Cancelled", "although its context has ended"},
		{brokenByCancel, "Cancelled", "after a call whose context had ended"},
		{publishedAtEnd, "Cancelled", "lost"},
		{lateAndWrong, "Cancelled", "inverted"},
		{oneAtATime, "Concurrent", "busy"},
		{mixesCalls, "Concurrent", "lost"},
		{fullQueue, "Large", "busy"},
		{fullQueueLoses, "Large", "lost"},
		{goesOnInOutage, "Outage", "inverted"},
		{losesInOutage, "Outage", "said to be published while the broker fails"},
		{neverBack, "Outage", "still fail"},
		{outageIsPermanent, "Outage", "IsPermanent is true"},
		{outageIsNone, "Outage", "IsOutage is false"},
		{hangsInOutage, "Outage", "although its context has ended"},
	} {
		noticed[p.where] = true
		assert.ErrorContains(t, runCase(t, p.fault, true, caseOf(t, p.where)), p.says, "%s: %s", p.where, p.fault)
	}
	for _, c := range publisherCases() {
		assert.True(t, noticed[c.name], "no fault is planted for %s", c.name)
	}
}

func TestFaultsOfPublishersWithoutBatches(t *testing.T) {
	t.Parallel()
	for _, p := range []planted{
		{background, "Order", "inverted"},
		{background, "OrderOverBatches", "inverted"},
		{loses, "Order", "lost"},
		{panics, "Order", "panicked"},
		{noMetadata, "Content", `the metadata has ""`},
		{swallowsRefusal, "Refused", "was to be refused"},
		{hangsBehindRefusals, "Refused", "it has not returned within 1m0s"},
		{swallowsRefusal, "Others", "was to be refused"},
		{oneAtATime, "Concurrent", "busy"},
		{losesInOutage, "Outage", "said to be published while the broker fails"},
		{neverBack, "Outage", "still fail"},
		{hangsInOutage, "Outage", "it has not returned within 1m0s"},
	} {
		assert.ErrorContains(t, runCase(t, p.fault, false, caseOf(t, p.where)), p.says, "%s: %s", p.where, p.fault)
	}
}

// TestASubscriptionThatEnds is told at once.
func TestASubscriptionThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spec := specOf(none, true)
		right := spec.New
		spec.New = func(t testing.TB) (message.Publisher, message.Subscriber) {
			p, s := right(t)
			return p, ending{s}
		}
		require.ErrorContains(t, spec.run(t, caseOf(t, "Order")), "has ended by itself")
	})
}

func TestWhatTheSpecLacks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spec := specOf(none, true)
		spec.Refuse, spec.Fail = nil, nil
		var skipped []string
		for _, c := range publisherCases() {
			if err := spec.run(t, c); errors.As(err, new(*missingError)) {
				skipped = append(skipped, c.name)
			} else {
				require.NoError(t, err, c.name)
			}
		}
		assert.Equal(t, []string{"Refused", "Others", "Outage"}, skipped)
	})
}

func TestMistakesInASpec(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, PublisherSpec{}.check(), "PublisherSpec.New")
	bad := specOf(none, true)
	require.NoError(t, bad.check())
	bad.Patience = -1
	require.ErrorContains(t, bad.check(), "PublisherSpec.Patience")
}

// ending is a subscriber whose channels are closed from the beginning.
type ending struct{ message.Subscriber }

func (ending) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	ch := make(chan *message.Message)
	close(ch)
	return ch, nil
}
