package main

import (
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/watermilladapter"
)

// buses are Watermill's own, on a publisher that writes to the outbox.
type buses struct {
	commands *cqrs.CommandBus
	events   *cqrs.EventBus
}

// newBuses returns buses that take part in the transaction of their context: that of the
// message under dedup, or one from gormoutbox.WithTx. Without one they refuse.
func newBuses(db *gorm.DB, m marshaler) (buses, error) {
	outbox, err := watermilladapter.NewPublisher(db, watermilladapter.PublisherConfig{})
	if err != nil {
		return buses{}, err
	}
	commands, err := cqrs.NewCommandBusWithConfig(outbox, cqrs.CommandBusConfig{
		GeneratePublishTopic: func(p cqrs.CommandBusGeneratePublishTopicParams) (string, error) {
			return commandTopic(p.CommandName), nil
		},
		Marshaler: m,
	})
	if err != nil {
		return buses{}, err
	}
	events, err := cqrs.NewEventBusWithConfig(outbox, cqrs.EventBusConfig{
		GeneratePublishTopic: func(cqrs.GenerateEventPublishTopicParams) (string, error) { return topicOrders, nil },
		Marshaler:            m,
	})
	return buses{commands: commands, events: events}, err
}

// commandTopic is where a command goes, and where its handler looks for it.
func commandTopic(name string) string { return "commands." + name }
