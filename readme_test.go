package mongopatterns_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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

// moduleOf is consumer with a path for the module.
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
	goBlock   = regexp.MustCompile("(?s)```go\n(categories, err .*?)```\\s+It prints `(.*?)`")
	codeBlock = regexp.MustCompile("(?s)```.*?```")
	localLink = regexp.MustCompile(`\]\(([^):#]+)\)`)
)

// The program around the example of the README.
const around = `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/tree"
)

func main() {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), client.Database(os.Args[1]).Collection("categories")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, coll *mongo.Collection) error {
`

// The example of the README runs, in a module of its own, and prints what it says.
func TestQuickStart(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := goBlock.FindSubmatch(readme)
	if found == nil {
		t.Fatal("README.md has no example with its output")
	}
	db := mongotest.Database(t) // skips under -short
	dir := consumer(t, map[string]string{"main.go": around + string(found[1]) + "return err\n}\n"})
	got := command(t, dir, []string{"MONGODB_URI=" + mongotest.URI(t)}, "go", "run", ".", db.Name())
	if diff := cmp.Diff(string(found[2])+"\n", got); diff != "" {
		t.Errorf("output (-README +got):\n%s", diff)
	}
}

// programs are the files of a folder.
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
		"1 1\nmended bought \n3 true\n2 2 1 Ann Summers\n2 ann Ann Summers; 1 clerk Ann; \n"
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

// A module that imports a pattern package requires and vendors nothing of what
// only the tests here need. (That the packages import nothing of it either is
// tested in mongotest.)
func TestConsumerGetsTheDriverOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("go mod tidy may need the network; not run with -short")
	}
	dir := consumer(t, map[string]string{"main.go": `package main

import _ "github.com/mongopatterns/mongopatterns/tree"

func main() {}
`})
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{"testcontainers", "docker", "moby", "gofrs"} {
		if strings.Contains(string(mod), never) {
			t.Errorf("go.mod of a consumer requires %s:\n%s", never, mod)
		}
	}
	command(t, dir, nil, "go", "mod", "vendor")
	vendored, err := filepath.Glob(filepath.Join(dir, "vendor", "github.com", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range vendored {
		if name := filepath.Base(path); name == "testcontainers" || name == "docker" || name == "moby" {
			t.Errorf("%s is vendored by a consumer", name)
		}
	}
}

// Links of the documents lead somewhere, and each pattern package is listed.
func TestDocuments(t *testing.T) {
	for _, doc := range []string{"README.md", "CONTRIBUTING.md", "docs/adopting.md", "docs/design.md", "docs/choosing.md", "docs/compatibility.md", "docs/failures.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, link := range localLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), link[1])); err != nil {
				t.Errorf("%s: %v", doc, err)
			}
		}
		if doc != "README.md" {
			continue
		}
		for _, pattern := range append(patterns(t), "mongotest") {
			if !strings.Contains(string(text), "| ["+pattern+"]("+pattern+"/doc.go) |") {
				t.Errorf("%s does not list %s", doc, pattern)
			}
		}
	}
}
