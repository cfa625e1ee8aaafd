package gormoutbox_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Patient is its own payload.
type Patient struct {
	_ gormoutbox.Emit `outbox:"aggregate=patient,on=none"`
	gormoutbox.Recorder
	ID     uuid.UUID `gorm:"type:char(36);primaryKey"`
	Name   string
	File   string    `outbox:"-"`
	Family []Patient `gorm:"-"`
	Doctor *Patient  `gorm:"-" json:",omitempty"`
}

type shutValue struct {
	Secret string `outbox:"-"`
}

// MarshalJSON implements json.Marshaler.
func (s shutValue) MarshalJSON() ([]byte, error) { return json.Marshal(s.Secret) }

// Whoever gives the model as a payload does not mean to publish what never leaves the database.
func TestPayloadThatIsAModelKeepsItsExclusions(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Patient{})
	p := Patient{ID: uuid.Must(uuid.NewV7()), Name: "p", File: "secret", Family: []Patient{{Name: "q", File: "secret"}}}
	appendOne := func(payload any) string {
		require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
		require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{Type: "t", Payload: payload}))
		all := events(t, g)
		require.Len(t, all, 1)
		return string(all[0].Payload)
	}
	const q = `{"ID":"00000000-0000-0000-0000-000000000000","Name":"q","Family":null}`
	want := `{"ID":"` + p.ID.String() + `","Name":"p","Family":[` + q + `]}`
	assert.JSONEq(t, want, appendOne(&p))
	assert.JSONEq(t, want, appendOne(p))
	assert.JSONEq(t, "["+want+"]", appendOne([]*Patient{&p}))
	assert.JSONEq(t, `{"Of":`+want+`,"At":1}`, appendOne(struct {
		Of *Patient
		At int
	}{&p, 1}))
	assert.JSONEq(t, "null", appendOne((*Patient)(nil)))

	require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
	p.tell("admitted")
	require.NoError(t, g.Create(&p).Error)
	assert.JSONEq(t, want, string(events(t, g)[0].Payload))

	p.Doctor = &p
	for payload, want := range map[any]string{
		&p:                                   "it may contain itself",
		&shutValue{"x"}:                      "marshals itself",
		&map[string]shutValue{"a": {"x"}}:    "reached through map",
		&struct{ Any []shutValue }{Any: nil}: "marshals itself",
	} {
		var invalid *gormoutbox.EventError
		err := gormoutbox.Append(g, gormoutbox.Event{Type: "t", Payload: payload})
		require.ErrorAs(t, err, &invalid)
		assert.Equal(t, "Payload", invalid.Field)
		assert.ErrorContains(t, err, want)
	}
}

// tell records with the patient itself as the payload.
func (p *Patient) tell(what string) {
	p.Record(gormoutbox.Event{Type: "patient." + what, Payload: p})
}
