package watermilladapter_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// Order is saved by the plugin, which makes the event order.created of it.
type Order struct {
	_ gormoutbox.Emit `outbox:"aggregate=order,on=created"`

	ID     int64
	Status string
}

type (
	shipOrder    struct{ OrderID int64 }
	orderShipped struct{ OrderID int64 }
	billed       struct {
		ID      int64
		OrderID int64
		Type    string
	}
)

// TestCQRS: the bus and the processors of Watermill's CQRS component, with the plugin's events beside those of the bus. order.created (by the plugin) →
// command shipOrder (by the bus, in the transaction of an event handler) → orderShipped (by the bus, in that of a command handler) → two handlers in a group.
func TestCQRS(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := open(t, env)
		require.NoError(t, db.AutoMigrate(&Order{}, &billed{}))
		require.NoError(t, dedup.Migrate(t.Context(), db))
		broker := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		require.NoError(t, err)
		d, err := dedup.New(db, dedup.Config{})
		require.NoError(t, err)
		router.AddMiddleware(d.Middleware)
		r, err := relay.New(db, broker, relay.Config{})
		require.NoError(t, err)
		router.AddPlugin(r.RouterPlugin)

		names, err := watermilladapter.NameGenerator(nil, watermilladapter.EventType[Order]("order.created"), watermilladapter.EventType[*orderShipped]("order.shipped"))
		require.NoError(t, err)
		marshaler := cqrs.JSONMarshaler{GenerateName: names}
		pub := newPublisher(t, db, watermilladapter.PublisherConfig{})
		commands, err := cqrs.NewCommandBusWithConfig(pub, cqrs.CommandBusConfig{
			GeneratePublishTopic: func(p cqrs.CommandBusGeneratePublishTopicParams) (string, error) {
				return "commands." + p.CommandName, nil
			},
			Marshaler: marshaler,
		})
		require.NoError(t, err)
		events, err := cqrs.NewEventBusWithConfig(pub, cqrs.EventBusConfig{
			GeneratePublishTopic: func(p cqrs.GenerateEventPublishTopicParams) (string, error) { return p.EventName, nil },
			Marshaler:            marshaler,
		})
		require.NoError(t, err)

		var finished sync.WaitGroup
		finished.Add(2)
		bill := func(ctx context.Context, id int64, kind string) error {
			return dedup.Tx(ctx).Create(&billed{OrderID: id, Type: kind}).Error
		}
		eventProcessor, err := cqrs.NewEventProcessorWithConfig(router, cqrs.EventProcessorConfig{
			GenerateSubscribeTopic: func(p cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) { return p.EventName, nil },
			SubscriberConstructor:  func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) { return broker, nil },
			Marshaler:              marshaler,
		})
		require.NoError(t, err)
		require.NoError(t, eventProcessor.AddHandlers(cqrs.NewEventHandler("ship new orders", func(ctx context.Context, o *Order) error {
			if err := bill(ctx, o.ID, "created"); err != nil {
				return err
			}
			return commands.Send(ctx, &shipOrder{o.ID})
		})))
		commandProcessor, err := cqrs.NewCommandProcessorWithConfig(router, cqrs.CommandProcessorConfig{
			GenerateSubscribeTopic: func(p cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) {
				return "commands." + p.CommandName, nil
			},
			SubscriberConstructor: func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) { return broker, nil },
			Marshaler:             marshaler,
		})
		require.NoError(t, err)
		require.NoError(t, commandProcessor.AddHandlers(cqrs.NewCommandHandler("ship", func(ctx context.Context, c *shipOrder) error {
			if err := dedup.Tx(ctx).Table("orders").WithContext(gormoutbox.Ignore(ctx)).Where("id = ?", c.OrderID).Update("status", "shipped").Error; err != nil {
				return err
			}
			return events.Publish(ctx, &orderShipped{c.OrderID})
		})))
		group, err := cqrs.NewEventGroupProcessorWithConfig(router, cqrs.EventGroupProcessorConfig{
			GenerateSubscribeTopic: func(cqrs.EventGroupProcessorGenerateSubscribeTopicParams) (string, error) {
				return "order.shipped", nil
			},
			SubscriberConstructor: func(cqrs.EventGroupProcessorSubscriberConstructorParams) (message.Subscriber, error) {
				return broker, nil
			},
			Marshaler: marshaler,
		})
		require.NoError(t, err)
		for _, kind := range []string{"invoice", "mail"} {
			require.NoError(t, group.AddHandlersGroup(kind, cqrs.NewGroupEventHandler(func(ctx context.Context, e *orderShipped) error {
				defer finished.Done()
				return bill(ctx, e.OrderID, kind)
			})))
		}

		result := make(chan error, 1)
		go func() { result <- router.Run(context.WithoutCancel(t.Context())) }()
		defer func() { assert.NoError(t, router.Close()) }() // once more does nothing
		<-router.Running()
		require.NoError(t, db.Create(&Order{ID: 7, Status: "placed"}).Error)
		finished.Wait()
		require.NoError(t, router.Close())
		require.NoError(t, <-result)
		require.NoError(t, broker.Close())

		var rows []string
		require.NoError(t, db.Model(&billed{}).Order("type").Pluck("type", &rows).Error)
		assert.Equal(t, []string{"created", "invoice", "mail"}, rows)
		var o Order
		require.NoError(t, db.First(&o).Error)
		assert.Equal(t, "shipped", o.Status)
		var types []string
		require.NoError(t, db.Table("outbox_events").Order("seq").Pluck("event_type", &types).Error)
		assert.Equal(t, []string{"order.created", "watermilladapter_test.shipOrder", "order.shipped"}, types)
		assert.Equal(t, dedup.Stats{Committed: 4}, d.Stats())
	})
}

func TestNameGenerator(t *testing.T) {
	t.Parallel()
	names, err := watermilladapter.NameGenerator(nil, watermilladapter.EventType[shipOrder]("order.ship"))
	require.NoError(t, err)
	assert.Equal(t, "order.ship", names(shipOrder{}))
	assert.Equal(t, "order.ship", names(&shipOrder{}))
	for _, other := range []any{orderShipped{}, &orderShipped{}, 3, nil} {
		assert.Equal(t, cqrs.FullyQualifiedStructName(other), names(other))
	}
	names, err = watermilladapter.NameGenerator(func(v any) string { return fmt.Sprint(v) })
	require.NoError(t, err)
	assert.Equal(t, "3", names(3))

	_, err = watermilladapter.NameGenerator(nil,
		watermilladapter.NamedType{}, watermilladapter.EventType[shipOrder](""), watermilladapter.EventType[orderShipped]("a"),
		watermilladapter.EventType[*orderShipped]("b"), watermilladapter.EventType[Order]("a"))
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok)
	var fields []string
	for _, err := range joined.Unwrap() {
		fields = append(fields, err.(*watermilladapter.Error).Field) //nolint:errorlint,forcetypeassert // each is one
	}
	assert.Equal(t, []string{"types[0]", "types[1]", "types[3]", "types[4]"}, fields)
}
