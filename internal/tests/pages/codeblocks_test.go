package pages_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	gotypes "go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// Every code block of the pages and manuals compiles. What a page's blocks use without declaring it is in
// testdata/codeblocks, by page, and for all pages in common.txt.
func TestCodeBlocks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "README.md", "CONTRIBUTING.md")
	manuals, err := filepath.Glob("*/doc.go")
	if err != nil || len(manuals) < 20 || len(pages) < 10 {
		t.Fatal(manuals, pages, err)
	}
	check := newBlockChecker(t)
	for _, page := range pages {
		check.page(t, page, fenced(t, page))
	}
	for _, manual := range append(manuals, "doc.go") {
		blocks := indented(t, manual)
		if len(blocks) == 0 && manual != "doc.go" {
			t.Errorf("%s shows no code", manual)
		}
		check.page(t, manual, blocks)
	}
}

// goBlock is Go code of a page, and the line on which it begins.
type goBlock struct {
	line int
	text string
}

// fenced returns the blocks of a page that say they are Go.
func fenced(t *testing.T, page string) (blocks []goBlock) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var indent string
	open := false
	for i, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case !open && trimmed == "```go":
			open, indent = true, line[:strings.Index(line, "`")]
			blocks = append(blocks, goBlock{line: i + 2})
		case open && trimmed == "```":
			open = false
		case open:
			blocks[len(blocks)-1].text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	return blocks
}

// goLike tells the Go code of a manual from its documents, tables and commands.
var goLike = regexp.MustCompile(`(?m):=|^(\w+, )*\w+ = |^func |^type |^\w+(\.\w+)+\(.*\)(\s*//.*)?$`)

// indented returns the indented blocks of a manual that are Go.
func indented(t *testing.T, manual string) (blocks []goBlock) {
	t.Helper()
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	var all []goBlock
	inside, blank := false, 0
	for i, line := range strings.Split(string(text), "\n") {
		code, ok := strings.CutPrefix(line, "//\t")
		switch {
		case ok && !inside:
			inside, blank = true, 0
			all = append(all, goBlock{i + 1, code + "\n"})
		case ok:
			all[len(all)-1].text += strings.Repeat("\n", blank) + code + "\n"
			blank = 0
		case inside && line == "//":
			blank++
		default:
			inside = false
		}
	}
	for _, b := range all {
		for { // without the documents before it
			document, code, more := strings.Cut(b.text, "\n\n")
			if !more || goLike.MatchString(document) {
				break
			}
			b.line, b.text = b.line+strings.Count(document, "\n")+2, code
		}
		if goLike.MatchString(b.text) {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// blockChecker type-checks the blocks of pages against what the go command has compiled.
type blockChecker struct {
	fset     *token.FileSet
	importer gotypes.Importer
	paths    map[string]string // import paths by the name of the package
	version  string
	common   string
}

func newBlockChecker(t *testing.T) *blockChecker {
	t.Helper()
	paths := map[string]string{"mongopatterns": testkit.Module, "http": "net/http", "slog": "log/slog", "json": "encoding/json", "url": "net/url",
		"bson": "go.mongodb.org/mongo-driver/v2/bson", "mongo": "go.mongodb.org/mongo-driver/v2/mongo",
		"options": "go.mongodb.org/mongo-driver/v2/mongo/options"}
	for _, name := range []string{"context", "errors", "fmt", "io", "iter", "log", "os", "slices", "strings", "testing", "time"} {
		paths[name] = name
	}
	for _, dir := range append(testkit.Patterns(t), "mongotest", "timeseries") {
		paths[dir] = testkit.Module + "/" + dir
	}
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}
	for _, path := range paths {
		args = append(args, path)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("go list: %s", failed.Stderr)
		}
		t.Fatal(err)
	}
	compiled := map[string]string{}
	for _, line := range strings.Fields(string(out)) {
		path, file, _ := strings.Cut(line, "=")
		compiled[path] = file
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	common, err := os.ReadFile("internal/tests/pages/testdata/codeblocks/common.txt")
	if err != nil {
		t.Fatal(err)
	}
	c := &blockChecker{fset: token.NewFileSet(), paths: paths, common: string(common),
		version: "go" + string(regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)[1])}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
	return c
}

// page checks all blocks of a page: those that are whole files as one package, the others one inside the other, so
// that each can use what the ones before it declare, and declare it again.
func (c *blockChecker) page(t *testing.T, page string, blocks []goBlock) {
	t.Helper()
	name := strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(page, "/doc.go"), ".md"), "/", "_")
	prelude, err := os.ReadFile("internal/tests/pages/testdata/codeblocks/" + name + ".txt")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var declared, statements strings.Builder
	var files []string
	inside := 0
	for _, b := range blocks {
		text := withoutGaps(b.text)
		if strings.HasPrefix(text, "package ") {
			files = append(files, fmt.Sprintf("//line %s:%d\n%s", page, b.line, text))
			continue
		}
		inside++
		for _, part := range parts(text) {
			to := &statements
			if part.declares {
				to = &declared
			}
			fmt.Fprintf(to, "//line %s:%d\n%s", page, b.line+part.line, part.text)
		}
		statements.WriteString("{\n")
	}
	if len(files) > 0 {
		c.check(t, files...)
	}
	if inside == 0 {
		return
	}
	code := declared.String() + "//line prelude:1\n" + c.common + string(prelude) + "func _() error {\n" + statements.String() +
		strings.Repeat("}\n", inside) + "panic(0)\n}\n"
	imports := ""
	for name, path := range c.paths {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(code) {
			imports += fmt.Sprintf("import %q\n", path)
		}
	}
	c.check(t, "package page\n"+imports+code)
}

// check type-checks the files of a package. It is no error that a variable or an import is not used, or that a page declares
// what its prelude does, too: then the page's is meant.
func (c *blockChecker) check(t *testing.T, sources ...string) {
	t.Helper()
	var files []*ast.File
	for _, source := range sources {
		file, err := parser.ParseFile(c.fset, "block.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		files = append(files, file)
	}
	config := gotypes.Config{Importer: c.importer, GoVersion: c.version, Error: func(err error) {
		text := err.Error()
		for _, fine := range []string{"declared and not used", "imported and not used", "other declaration of"} {
			if strings.Contains(text, fine) {
				return
			}
		}
		if !strings.HasPrefix(text, "prelude:") || !strings.Contains(text, "redeclared") {
			t.Error(text)
		}
	}}
	_, _ = config.Check(files[0].Name.Name, c.fset, files, nil) // calls Error
}

// blockPart is a part of a block, from a line of it on.
type blockPart struct {
	line     int
	text     string
	declares bool // functions or types: they stand outside of functions
}

// parts cuts a block into declarations and statements.
func parts(text string) (all []blockPart) {
	decl := regexp.MustCompile(`^(func [A-Za-z(]|type )`)
	open := false // a declaration of several lines
	for i, line := range strings.SplitAfter(text, "\n") {
		starts := !open && decl.MatchString(line)
		if declares := open || starts; len(all) == 0 || starts || all[len(all)-1].declares != declares {
			all = append(all, blockPart{line: i, declares: declares})
		}
		last := &all[len(all)-1]
		last.text += line
		if starts {
			open = strings.Count(line, "{")+strings.Count(line, "(") != strings.Count(line, "}")+strings.Count(line, ")")
		} else if open && (strings.HasPrefix(line, "}") || strings.HasPrefix(line, ")")) {
			open = false
		}
	}
	return all
}

// withoutGaps replaces the dots that stand for something left out: a body, the fields of a literal, a value,
// lines.
func withoutGaps(text string) string {
	var out bytes.Buffer
	quote := byte(0) // of the string that is open; '/' in a comment
	for i := 0; i < len(text); i++ {
		b, rest := text[i], text[i:]
		switch {
		case quote == '/':
			if b == '\n' {
				quote = 0
			}
		case quote != 0:
			if b == '\\' && quote != '`' {
				out.WriteByte(b)
				i++
				b = text[i]
			} else if b == quote {
				quote = 0
			}
		case slices.Contains([]byte("\"'`"), b):
			quote = b
		case strings.HasPrefix(rest, "//"):
			quote = '/'
		default:
			size := 0
			for _, dots := range []string{"…", "..."} {
				if strings.HasPrefix(rest, dots) {
					size = len(dots)
				}
			}
			if size == 0 {
				break
			}
			before, after := out.String(), rest[size:]
			line := before[strings.LastIndex(before, "\n")+1:]
			next, _, _ := strings.Cut(after, "\n")
			next, _, _ = strings.Cut(next, "//")
			switch {
			case strings.HasSuffix(before, "{") && strings.HasPrefix(after, "}"), strings.TrimSpace(line+next) == "":
			case strings.HasSuffix(before, "{ ") && strings.HasPrefix(after, " }"):
				out.WriteString("panic(0)")
			case strings.HasSuffix(before, ": ") && regexp.MustCompile(`^(;| })`).MatchString(after): // of a case
			case regexp.MustCompile(`[:,(=] *$`).MatchString(line) && regexp.MustCompile(`^[,)};]`).MatchString(after):
				out.WriteString("elided")
			default:
				out.WriteString(rest[:size])
			}
			i += size - 1
			continue
		}
		out.WriteByte(b)
	}
	return out.String()
}

// The code and documents of docs/shapes.md are parts of the program in internal/tests/scenarios, which runs them.
func TestShapes(t *testing.T) {
	const page = "docs/shapes.md"
	space := regexp.MustCompile(`\s+`)
	var program string
	for _, source := range testkit.Programs(t, "internal/tests/scenarios") {
		program += space.ReplaceAllString(strings.ReplaceAll(source, "w.coll(", "db.Collection("), "")
	}
	stored := func(text string) { // dots are left out
		for part := range strings.SplitSeq(space.ReplaceAllString(text, ""), "…") {
			if !strings.Contains(program, part) {
				t.Errorf("%s: not in internal/tests/scenarios: %s", page, part)
			}
		}
	}
	for _, b := range fenced(t, page) {
		stored(b.text)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	documents := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	cells := regexp.MustCompile("`((?:extref\\.[TO]\\w+)?\\{\"?.*?\\})`(?: \\||;)").FindAllStringSubmatch(string(text), -1)
	if len(documents) < 14 || len(cells) < 15 {
		t.Fatalf("%d blocks of documents, %d cells", len(documents), len(cells))
	}
	for _, d := range documents {
		for line := range strings.Lines(d[1]) {
			stored(line)
		}
	}
	for _, c := range cells {
		stored(c[1])
	}
	for _, heading := range []string{"Tree", "Bucket", "Paging", "Attribute", "Outlier", "Subset", "Extended reference", "Relation",
		"Versioning", "Schema versions", "Computed", "Approximation", "Preallocation", "Polymorphic"} {
		if !strings.Contains(string(text), "\n## "+heading+": ") {
			t.Errorf("%s has no section %s", page, heading)
		}
	}
}
