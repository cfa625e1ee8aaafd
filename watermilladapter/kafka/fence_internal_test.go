package kafka

import (
	"net"
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// producer is one of sarama whose outcomes the test makes.
type producer struct {
	sarama.AsyncProducer
	successes chan *sarama.ProducerMessage
	errs      chan *sarama.ProducerError
}

func (p *producer) Successes() <-chan *sarama.ProducerMessage { return p.successes }
func (p *producer) Errors() <-chan *sarama.ProducerError      { return p.errs }

type pipe struct{ conn net.Conn }

func (p pipe) Dial(string, string) (net.Conn, error) { return p.conn, nil }

// sarama hands over a failure and sends the next message at once.
func TestNoWriteOvertakesAFailure(t *testing.T) {
	t.Parallel()
	for range 1000 {
		near, far := net.Pipe()
		f := newFence(sarama.NewConfig())
		f.dialer = pipe{near}
		p := &producer{successes: make(chan *sarama.ProducerMessage), errs: make(chan *sarama.ProducerError)}
		g := &generation{fence: f, strict: true, producer: p, barrier: make(chan struct{})}
		f.gate = g.settled
		g.reading.Store(true)
		conn, err := g.Dial("tcp", "")
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() { defer close(ended); g.read() }()
		arrived := make(chan int)
		go func() {
			n, _ := far.Read(make([]byte, 1))
			arrived <- n
		}()

		c := newCall(1)
		p.errs <- &sarama.ProducerError{Msg: &sarama.ProducerMessage{Metadata: ticket{c, 0}}, Err: sarama.ErrMessageSizeTooLarge}
		_, err = conn.Write([]byte("x"))
		require.ErrorIs(t, err, errFenced)
		assert.Zero(t, <-arrived)
		close(p.errs)
		close(p.successes)
		<-ended
		far.Close()
	}
}
