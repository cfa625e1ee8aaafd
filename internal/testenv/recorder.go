package testenv

import (
	"database/sql"
	"database/sql/driver"
	"slices"
	"sync"
)

// Statement is what a client sent to a Recorder.
type Statement struct {
	// SQL is the text, or "BEGIN", "COMMIT" or "ROLLBACK" for what
	// database/sql has methods for.
	SQL  string
	Args []driver.Value
	// Conn tells connections apart: the first is 1. What stands between a
	// BEGIN and a COMMIT of the same connection is in that transaction.
	Conn int
}

// AnswerFunc says what a statement returns: rows, if it is run as a query, or
// else the number of rows that it affected. It is called by several
// goroutines at once if the client has several. BEGIN, COMMIT and ROLLBACK
// are asked too; only the error of their answers counts. The statement is in
// the record before it is answered.
type AnswerFunc func(query string, args []driver.Value) (columns []string, rows [][]driver.Value, affected int64, err error)

// Recorder is a database that notes what it is told, does nothing, and
// answers as an AnswerFunc says. It stands in for a server that tests cannot
// have. It is safe for concurrent use.
type Recorder struct {
	answer AnswerFunc

	mu         sync.Mutex
	statements []Statement
	conns      int
}

// NewRecorder returns a Recorder. Without answer, everything succeeds,
// affects one row and returns none.
func NewRecorder(answer AnswerFunc) *Recorder {
	if answer == nil {
		answer = func(string, []driver.Value) ([]string, [][]driver.Value, int64, error) {
			return nil, nil, 1, nil
		}
	}
	return &Recorder{answer: answer}
}

// Pool opens a connection pool, which the caller closes.
func (r *Recorder) Pool() *sql.DB {
	return sql.OpenDB(recorderConnector{r})
}

// Statements returns what was recorded since the beginning or the last Reset,
// in the order of arrival.
func (r *Recorder) Statements() []Statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.statements)
}

// SQL returns the texts of Statements.
func (r *Recorder) SQL() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for _, statement := range r.statements {
		texts = append(texts, statement.SQL)
	}
	return texts
}

// Reset forgets what was recorded.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = nil
}

func (r *Recorder) newConn() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns++
	return r.conns
}

// record notes a statement and answers it.
func (r *Recorder) record(conn int, query string, args []driver.Value) ([]string, [][]driver.Value, int64, error) {
	r.mu.Lock()
	r.statements = append(r.statements, Statement{SQL: query, Args: args, Conn: conn})
	r.mu.Unlock()
	return r.answer(query, slices.Clone(args))
}
