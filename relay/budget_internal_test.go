package relay

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABudgetEndsARead(t *testing.T) {
	t.Parallel()
	it := item{}
	it.Payload = make([]byte, 1000)
	b := (&store{pageBytes: 2*it.bytes() - 1}).budget()
	require.NoError(t, b.take(&it))
	err := b.take(&it)
	require.ErrorIs(t, err, errEnough)
	assert.True(t, b.cut(&err))
	require.NoError(t, err)

	other := errors.New("other")
	b = (&store{pageBytes: 1}).budget()
	_ = b.take(&it)
	err = other
	assert.True(t, b.cut(&err))
	require.ErrorIs(t, err, other, "an error of the database stays")
}

func TestPagesAreAsLargeAsThereIsRoom(t *testing.T) {
	t.Parallel()
	pages := func(n, payload int) (p page) {
		for range n {
			it := item{}
			it.Payload = make([]byte, payload)
			p.items = append(p.items, it)
		}
		return p
	}
	s := pageSize{500, 500}
	s.saw(pages(500, 100), 8<<20)
	assert.Equal(t, 500, s.now)
	s.saw(pages(9, 1<<20), 8<<20)
	assert.Equal(t, 8, s.now, "as many as there was room for")
	s.saw(pages(8, 600_000), 8<<20)
	assert.Equal(t, 8, s.now, "twice as many would be too many")
	s.saw(pages(3, 100), 8<<20)
	assert.Equal(t, 8, s.now, "there were no more")
	for range 10 {
		s.saw(pages(s.now, 100), 8<<20)
	}
	assert.Equal(t, 500, s.now)
	s.saw(pages(1, 9<<20), 8<<20)
	assert.Equal(t, 1, s.now)
}
