package doctest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// snippet is a fenced Go block of a document.
type snippet struct {
	file string
	line int
	text string
}

func snippets(t *testing.T, file string) (out []snippet) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var block *snippet
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case block == nil && strings.TrimSpace(line) == "```go":
			block = &snippet{file: file, line: i + 2}
		case block != nil && strings.TrimSpace(line) == "```":
			out = append(out, *block)
			block = nil
		case block != nil:
			block.text += line + "\n"
		}
	}
	require.Nil(t, block, "%s: a block is not closed", file)
	return out
}

// imports are the packages that snippets may use without saying so.
var imports = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "json": "encoding/json", "slog": "log/slog", "os": "os", "signal": "os/signal",
	"time": "time", "http": "net/http",
	"uuid": "github.com/google/uuid", "gorm": "gorm.io/gorm", "clause": "gorm.io/gorm/clause", "postgres": "gorm.io/driver/postgres",
	"sqlite":  "github.com/libtnb/sqlite",
	"message": "github.com/ThreeDotsLabs/watermill/message", "watermill": "github.com/ThreeDotsLabs/watermill",
	"middleware": "github.com/ThreeDotsLabs/watermill/message/router/middleware",
	"gormoutbox": "github.com/gormoutbox/outbox/gormoutbox", "relay": "github.com/gormoutbox/outbox/relay",
	"dedup": "github.com/gormoutbox/outbox/dedup", "watermilladapter": "github.com/gormoutbox/outbox/watermilladapter",
	"kafka":  "github.com/gormoutbox/outbox/watermilladapter/kafka",
	"chain":  "github.com/gormoutbox/outbox/dedup/chain",
	"pgwake": "github.com/gormoutbox/outbox/relay/pgwake", "errgroup": "golang.org/x/sync/errgroup",
}

// given are what a snippet may use as if it had it: variables, as parameters, and models.
const given = "ctx context.Context, db *gorm.DB, tx *gorm.DB, publisher, kafkaPublisher message.Publisher, sub message.Subscriber, router *message.Router, order Order"

var models = map[string]string{
	"Order":       "type Order struct {\n_ gormoutbox.Emit `outbox:\"aggregate=order\"`\nID uuid.UUID\nStatus string\nCard string `outbox:\"-\"`\n}\n",
	"Reservation": "type Reservation struct {\nID uint\nOrderID uuid.UUID\n}\n",
	"Shipped":     "type Shipped struct {\nCarrier string\n}\n",
}

var (
	qualifier = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	ends      = regexp.MustCompile(`(?m)^return .`)
	declared  = regexp.MustCompile(`(?m)^([a-z]\w*(?:, [a-z]\w*)*) :=`)
)

// program is a Go file around the snippet: the snippet itself if it is one, else a function that contains it.
func program(s snippet, n int) string {
	if strings.HasPrefix(strings.TrimSpace(s.text), "package ") {
		return s.text
	}
	var body strings.Builder
	fmt.Fprintf(&body, "//line %s:%d\n%s", filepath.Base(s.file), s.line, s.text)
	for _, m := range declared.FindAllStringSubmatch(s.text, -1) {
		if ends.MatchString(s.text) {
			break // nothing may stand behind a return, and such a snippet uses what it declares
		}
		for name := range strings.SplitSeq(m[1], ", ") {
			body.WriteString("_ = " + name + "\n")
		}
	}
	var types strings.Builder
	for name, text := range models {
		if !strings.Contains(s.text, "type "+name+" struct") {
			types.WriteString(text)
		}
	}
	if strings.Contains(s.text, "type Order struct") {
		types.WriteString(models["Order"]) // of the parameter, the snippet has its own
	}
	returns := ""
	if ends.MatchString(s.text) {
		returns = "error"
	}
	code := fmt.Sprintf("%s\nfunc Snippet%d(%s) %s {\n%s}\n", types.String(), n, given, returns, body.String())
	used := map[string]bool{}
	for _, m := range qualifier.FindAllStringSubmatch(code, -1) {
		used[m[1]] = imports[m[1]] != ""
	}
	var names []string
	for name, ok := range used {
		if ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var head strings.Builder
	head.WriteString("package snippet\n\nimport (\n")
	for _, name := range names {
		fmt.Fprintf(&head, "%s %q\n", name, imports[name])
	}
	head.WriteString(")\n\n")
	return head.String() + code
}

// TestSnippetsCompile builds each block by an overlay, as a package of this module.
func TestSnippetsCompile(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	files = append(files, filepath.Join(root, "README.md"))
	readmes, err := filepath.Glob(filepath.Join(root, "examples", "*", "README.md"))
	require.NoError(t, err)
	files = append(files, readmes...)

	overlay := map[string]string{}
	dir := t.TempDir()
	var packages []string
	n := 0
	for _, file := range files {
		for _, s := range snippets(t, file) {
			n++
			folder := fmt.Sprintf("internal/doctest/snippet%d", n)
			source := filepath.Join(dir, fmt.Sprintf("snippet%d.go", n))
			require.NoError(t, os.WriteFile(source, []byte(program(s, n)), 0o600))
			overlay[filepath.Join(root, folder, "snippet.go")] = source
			packages = append(packages, "./"+folder)
		}
	}
	require.NotEmpty(t, packages)
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", path, "-o", os.DevNull}, packages...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Logf("%d snippets of %d documents", n, len(files))
}
