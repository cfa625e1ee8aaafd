package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/gormoutbox/outbox"

// mainPackages are what every user links.
var mainPackages = []string{"gormoutbox", "watermilladapter", "relay", "dedup"}

// root is the module's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// deps lists the packages outside of the standard library that are linked with these.
func deps(t *testing.T, packages ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}, packages...)...)
	cmd.Dir = root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// TestMainPackagesLinkOnlyGORMAndWatermill holds the promise that a driver, a broker's client
// or a test library is linked only by who imports it himself.
func TestMainPackagesLinkOnlyGORMAndWatermill(t *testing.T) {
	t.Parallel()
	allowed := deps(t, "gorm.io/gorm", "gorm.io/gorm/callbacks", "gorm.io/gorm/migrator", "github.com/ThreeDotsLabs/watermill/message")
	require.NotEmpty(t, allowed)
	allowed = append(allowed, "github.com/google/uuid")
	for _, p := range mainPackages {
		linked := deps(t, "./"+p)
		require.NotEmpty(t, linked)
		for _, dep := range linked {
			if dep == module || strings.HasPrefix(dep, module+"/") {
				continue
			}
			assert.True(t, slices.Contains(allowed, dep), "%s links %s, which neither GORM nor Watermill does", p, dep)
		}
	}
}

// TestImportDirections holds the table of docs/design.md.
func TestImportDirections(t *testing.T) {
	t.Parallel()
	may := map[string][]string{
		"gormoutbox":       {},
		"watermilladapter": {"gormoutbox"},
		"relay":            {"gormoutbox", "watermilladapter"},
		"dedup":            {"gormoutbox", "watermilladapter"},
	}
	for p, allowed := range may {
		for _, dep := range deps(t, "./"+p) {
			own, ok := strings.CutPrefix(dep, module+"/")
			if !ok || own == p || strings.HasPrefix(own, "internal/") || strings.HasPrefix(own, p+"/internal") {
				continue
			}
			assert.Contains(t, allowed, own, "%s may not import %s", p, own)
		}
	}
}

// TestGORMAloneForTheWritingSide: a service that only saves does not link Watermill.
func TestGORMAloneForTheWritingSide(t *testing.T) {
	t.Parallel()
	for _, dep := range deps(t, "./gormoutbox") {
		assert.NotContains(t, dep, "watermill")
	}
}

// TestTopLevel holds the list of what stands at the top of the repository.
func TestTopLevel(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"go.mod", "go.sum", "gormoutbox", "watermilladapter", "dedup", "relay", "examples", "docs", "README.md",
		"internal", "Makefile", "LICENSE", "CHANGELOG.md",
	}
	entries, err := os.ReadDir(root(t))
	require.NoError(t, err)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			assert.Contains(t, allowed, e.Name())
		}
	}
}
