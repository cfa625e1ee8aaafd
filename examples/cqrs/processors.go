package main

import (
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
)

// addHandlers adds the handlers to the router by Watermill's three processors. A
// handler's name is the consumer under which dedup records its messages, so it stays what it is.
func addHandlers(router *message.Router, sub message.Subscriber, m marshaler, h handlers) error {
	events, err := cqrs.NewEventProcessorWithConfig(router, cqrs.EventProcessorConfig{
		GenerateSubscribeTopic: func(cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) { return topicOrders, nil },
		SubscriberConstructor:  func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) { return sub, nil },
		Marshaler:              m,
		AckOnUnknownEvent:      true, // the topic has other events of orders, too
	})
	if err != nil {
		return err
	}
	if err := events.AddHandlers(cqrs.NewEventHandler("ship-new-orders", h.shipNew)); err != nil {
		return err
	}

	commands, err := cqrs.NewCommandProcessorWithConfig(router, cqrs.CommandProcessorConfig{
		GenerateSubscribeTopic: func(p cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) {
			return commandTopic(p.CommandName), nil
		},
		SubscriberConstructor: func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) { return sub, nil },
		Marshaler:             m,
	})
	if err != nil {
		return err
	}
	if err := commands.AddHandlers(cqrs.NewCommandHandler("ship", h.ship)); err != nil {
		return err
	}

	groups, err := cqrs.NewEventGroupProcessorWithConfig(router, cqrs.EventGroupProcessorConfig{
		GenerateSubscribeTopic: func(cqrs.EventGroupProcessorGenerateSubscribeTopicParams) (string, error) { return topicOrders, nil },
		SubscriberConstructor:  func(cqrs.EventGroupProcessorSubscriberConstructorParams) (message.Subscriber, error) { return sub, nil },
		Marshaler:              m,
		AckOnUnknownEvent:      true,
	})
	if err != nil {
		return err
	}
	return groups.AddHandlersGroup("timeline",
		cqrs.NewGroupEventHandler(h.noteCreated),
		cqrs.NewGroupEventHandler(h.notePacked),
		cqrs.NewGroupEventHandler(h.noteShipped),
	)
}
