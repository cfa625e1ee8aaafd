package gormoutbox_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestCreateUpdateDelete(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Order{})
		o := Order{ID: uuid.New(), Status: "placed", Amount: 1, Card: "card-4111"}
		require.NoError(t, g.Create(&o).Error)
		require.NoError(t, g.Model(&o).Update("status", "paid").Error)
		require.NoError(t, g.Delete(&o).Error)

		all := events(t, g)
		require.Equal(t, []string{"order.created", "order.updated", "order.deleted"}, types(all))
		for _, e := range all {
			assert.Equal(t, "order", e.AggregateType)
			assert.Equal(t, o.ID.String(), e.AggregateID)
			assert.NotContains(t, string(e.Payload), "card-4111")
			assert.NotContains(t, string(e.Payload), "Card")
		}
		assert.JSONEq(t, `{"ID":"`+o.ID.String()+`","Status":"placed","Amount":1}`, string(all[0].Payload))
		assert.JSONEq(t, `{"ID":"`+o.ID.String()+`","Status":"paid","Amount":1}`, string(all[1].Payload))
		assert.JSONEq(t, string(all[1].Payload), string(all[2].Payload))
		assert.Equal(t, "status", all[1].headers(t)[gormoutbox.HeaderChanged])
		assert.Zero(t, count(t, g, &Order{}))
	})
}
