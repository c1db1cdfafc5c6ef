package mongopatterns_test

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// consumer makes a module outside the repository that imports the library, with
// these files, and returns its folder.
func consumer(t *testing.T, files map[string]string) string {
	t.Helper()
	return moduleOf(t, "example.com/consumer", files)
}

// moduleOf is consumer with a given module path.
func moduleOf(t *testing.T, path string, files map[string]string) string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, text)
	}
	write("go.mod", "module "+path+"\n\ngo 1.25.0\n\n"+
		"require github.com/mongopatterns/mongopatterns v0.0.0\n\n"+
		"replace github.com/mongopatterns/mongopatterns => "+root+"\n")
	command(t, dir, nil, "go", "mod", "tidy")
	return dir
}

// command runs a command and returns what it prints.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off"), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

var (
	program   = regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n(?:\nThe first time it prints `(.*?)`)?")
	codeBlock = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	localLink = regexp.MustCompile(`\]\(([^):#]+)\)`)
)

// programOf returns the program of a page, on another database than the one that it names, and the line that
// the page says it prints.
func programOf(t *testing.T, page, names, db string) (code, prints string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := program.FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no program", page)
	}
	code = strings.Replace(string(found[1]), `Database("`+names+`")`, fmt.Sprintf("Database(%q)", db), 1)
	if code == string(found[1]) {
		t.Fatalf("%s uses no database %s", page, names)
	}
	return code, string(found[2])
}

// The example of the README runs, in a module of its own, and prints what it says.
func TestQuickStart(t *testing.T) {
	db := mongotest.Database(t) // skips under -short
	code, prints := programOf(t, "README.md", "magazine", db.Name())
	dir := consumer(t, map[string]string{"main.go": code})
	got := command(t, dir, []string{"MONGODB_URI=" + mongotest.URI(t)}, "go", "run", ".")
	if diff := cmp.Diff(prints+"\n", got); diff != "" {
		t.Errorf("output (-README +got):\n%s", diff)
	}
}

// The service of docs/first-service.md builds in a module of its own, and answers as the page says.
func TestFirstService(t *testing.T) {
	const page = "docs/first-service.md"
	db := mongotest.Database(t) // skips under -short
	code, _ := programOf(t, page, "shop", db.Name())
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files := program.FindAllSubmatch(text, -1)
	if lines := len(regexp.MustCompile(`(?m)^.+$`).FindAllString(code, -1)); len(files) != 2 || lines > 60 { // as the README says
		t.Fatalf("%d files, the first of %d lines", len(files), lines)
	}
	dir := consumer(t, map[string]string{
		"main.go": strings.Replace(code, `"localhost:8080"`, `os.Getenv("ADDRESS")`, 1),
		"http.go": string(files[1][1]),
	})
	command(t, dir, nil, "go", "build", "-o", "service", ".")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	service := exec.CommandContext(t.Context(), filepath.Join(dir, "service")) // killed with the context, at the end
	service.Env = append(os.Environ(), "MONGODB_URI="+mongotest.URI(t), "ADDRESS="+address)
	service.Stderr = os.Stderr
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = service.Process.Kill()
		_ = service.Wait() // killed
	})
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			break
		} else if time.Since(began) > 2*time.Minute {
			t.Fatal(err)
		}
	}
	asked := regexp.MustCompile(`(?m)^\$ curl (?:-d '(.*?)' )?'?localhost:8080(\S+?)'?\n(.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(asked) < 10 {
		t.Fatalf("%d requests on the page", len(asked))
	}
	token := regexp.MustCompile(`"(next|prev)":"(.*?)"`)
	next := ""
	for _, a := range asked {
		form, url, want := a[1], "http://"+address+strings.Replace(a[2], "…", next, 1), a[3]
		get := func() (*http.Response, error) { return http.Get(url) }
		if form != "" {
			get = func() (*http.Response, error) {
				return http.Post(url, "application/x-www-form-urlencoded", strings.NewReader(form))
			}
		}
		response, err := get()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if found := token.FindSubmatch(body); found != nil && string(found[1]) == "next" {
			next = string(found[2])
		}
		if got := strings.TrimSpace(token.ReplaceAllString(string(body), `"$1":"…"`)); got != want {
			t.Errorf("%s %s: %s, want %s", form, a[2], got, want)
		}
	}
}

// programs reads the files of a folder.
func programs(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = string(text)
	}
	return files
}

// Every shape of the reference scenarios is reached by configuration alone, in a
// module of its own: the program compares whole documents and the indexes used.
func TestScenarios(t *testing.T) {
	db := mongotest.Database(t) // skips under -short
	dir := consumer(t, programs(t, "testdata/scenarios"))
	got := command(t, dir, []string{"MONGODB_URI=" + mongotest.URI(t)}, "go", "run", ".", db.Name())
	want := ""
	for _, heading := range strings.Fields("tree bucket paging attribute outlier subset extref relation versioning schemaversion computed approx prealloc polymorphic") {
		want += "ok " + heading + "\n"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
}

// The packages work in a module of its own.
func TestConsumer(t *testing.T) {
	db := mongotest.Database(t) // skips under -short
	dir := consumer(t, programs(t, "testdata/consumer"))
	got := command(t, dir, []string{"MONGODB_URI=" + mongotest.URI(t)}, "go", "run", ".", db.Name())
	want := "/house/attic/cellar/shelf\nShelf Cellar false true\nAttic true false\n180 90 34.5 59 11:59:00\n" +
		"1 1\nmended bought \n3 true\n2 2 1 Ann Summers\n2 ann Ann Summers; 1 clerk Ann; \n1 1 chair\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

var onceElements = flag.Int("exactly.once", 600, "how many elements TestExactlyOnce adds")

// A program that goes by OutcomeOf alone, in a module of its own, adds elements exactly once.
func TestExactlyOnce(t *testing.T) {
	uri := mongotest.URI(t) // skips under -short
	dir := moduleOf(t, "github.com/mongopatterns/mongopatterns/exactlyonce", programs(t, "testdata/exactlyonce"))
	t.Log(command(t, dir, []string{"MONGODB_URI=" + uri}, "go", "test", "-count=1", "-v", "-timeout=2h", ".",
		"-args", fmt.Sprintf("-exactly.once=%d", *onceElements)))
}

// A module that imports the packages neither requires, builds nor vendors the modules that only mongotest and
// the tests here need. (A test in mongotest checks that the packages do not import them.)
func TestConsumerGetsTheDriverOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("go mod tidy may need the network; not run with -short")
	}
	dir := consumer(t, programs(t, "testdata/consumer"))
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	built := command(t, dir, nil, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	command(t, dir, nil, "go", "mod", "vendor")
	vendored, err := os.ReadFile(filepath.Join(dir, "vendor", "modules.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for what, list := range map[string]string{"required": string(mod), "built": built, "vendored": string(vendored)} {
		if !strings.Contains(list, "go.mongodb.org/mongo-driver/v2") {
			t.Errorf("the driver is not %s:\n%s", what, list)
		}
		for _, never := range []string{"testcontainers", "docker", "moby", "gofrs", "opentelemetry"} {
			if strings.Contains(list, never) {
				t.Errorf("%s is %s by a consumer:\n%s", never, what, list)
			}
		}
	}
}

// The links in the documents are not broken, and each pattern package is listed.
func TestDocuments(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, link := range localLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), link[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		if page != "README.md" {
			continue
		}
		for _, pattern := range append(patterns(t), "mongotest") {
			if !strings.Contains(string(text), "| ["+pattern+"]("+pattern+"/doc.go) |") {
				t.Errorf("%s does not list %s", page, pattern)
			}
		}
	}
}

// The README says what go.mod, LICENSE and the table of servers say, and leads to the pages in the order in
// which a newcomer needs them.
func TestFrontDoor(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	readme := read("README.md")
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read("go.mod"))[1]
	for _, s := range []struct{ name, says string }{
		{"README.md", "Apache-2.0 · v0: [what may change](#compatibility) · Go " + version + " or later · MongoDB 6.0 or later ([run on 6.0.5 only](docs/compatibility.md): a replica set, elections, two shards behind a router of ours)"},
		{"LICENSE", "Version 2.0, January 2004"},
		{"docs/compatibility.md", "| mongod 6.0.5, replica sets of one and of three | everything: results, commands, plans, fail points, elections |"},
		{"docs/compatibility.md", "| sharded clusters: two shards of mongod 6.0.5"},
		{"docs/compatibility.md", "- **MongoDB 6.0 and later**"},
	} {
		if !strings.Contains(read(s.name), s.says) {
			t.Errorf("%s does not say %q", s.name, s.says)
		}
	}
	at := 0
	for _, page := range strings.Fields("choosing first-service adopting failures scaling compatibility") {
		_, list, _ := strings.Cut(readme, "## Where to begin")
		found := strings.Index(list, "(docs/"+page+".md)")
		if found < at {
			t.Errorf("docs/%s.md is at %d, after %d", page, found, at)
		}
		at = found
	}
}

// Every package shows calls in an example that runs.
func TestExamples(t *testing.T) {
	for _, dir := range append(patterns(t), ".", "mongotest", "timeseries") {
		names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		for _, name := range names {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		if !slices.ContainsFunc(doc.Examples(files...), func(e *doc.Example) bool { return e.Output != "" }) {
			t.Errorf("%s has no example with its output", dir)
		}
	}
}

// The manual of each pattern in the table of shards leads to it.
func TestManualsLeadToTheShards(t *testing.T) {
	page, err := os.ReadFile("docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, dir := range patterns(t) {
		manual, err := os.ReadFile(filepath.Join(dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n| "+dir+" | ") {
			continue
		}
		found++
		if !strings.Contains(string(manual), "docs/compatibility.md lists for each call the shards it asks") {
			t.Errorf("%s does not lead to the table", dir)
		}
	}
	if found < 17 {
		t.Errorf("the table has %d patterns", found)
	}
}
