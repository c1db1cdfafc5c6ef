package pages_test

import (
	"encoding/csv"
	"errors"
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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
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

// The list by hand of the README shows as many articles as the page says, and the other one each article once, with as many
// finds a page.
func TestByHand(t *testing.T) {
	db := mongotest.Database(t) // skips under -short
	blocks := fenced(t, "README.md")
	text, err := os.ReadFile("README.md")
	testkit.OK(t, err)
	says := regexp.MustCompile(`returned ([\d,]+) articles from a collection of ([\d,]+)`).FindStringSubmatch(string(text))
	const finds = "A page costs one find, however deep, after a draft up to four, after a deletion one more:"
	if len(blocks) != 2 || says == nil || !strings.Contains(strings.Join(strings.Fields(string(text)), " "), finds) {
		t.Fatalf("%d blocks, %q, and README.md should say %q", len(blocks), says, finds)
	}
	frame, err := os.ReadFile("internal/tests/pages/testdata/byhand.txt")
	testkit.OK(t, err)
	first, each, _ := strings.Cut(blocks[1].text, "\n\n")
	code := strings.NewReplacer("DATABASE", db.Name(), "BY_HAND", blocks[0].text, "FIRST", first, "EACH", each).Replace(string(frame))
	dir := testkit.Consumer(t, map[string]string{"main.go": code})
	got := testkit.Command(t, dir, []string{"MONGODB_URI=" + mongotest.URI(t)}, "go", "run", ".")
	if want := strings.ReplaceAll(says[1]+" "+says[2]+" 1 4\n", ",", ""); got != want {
		t.Errorf("README.md says %s, and it shows %s", want, got)
	}
}

// The service of docs/first-service.md builds in a module of its own, and answers and sends as much as the page says.
func TestFirstService(t *testing.T) {
	const page = "docs/first-service.md"
	db := mongotest.Database(t) // skips under -short
	code, _ := programOf(t, page, "shop", db.Name())
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files := program.FindAllSubmatch(text, -1)
	if lines := len(regexp.MustCompile(`(?m)^.+$`).FindAllString(code, -1)); len(files) != 2 || lines > 60 {
		t.Fatalf("%d files, the first of %d lines", len(files), lines)
	}
	counted, err := os.ReadFile("internal/tests/pages/testdata/counted.txt")
	testkit.OK(t, err)
	dir := testkit.Consumer(t, map[string]string{
		"main.go": strings.NewReplacer(`"localhost:8080"`, `os.Getenv("ADDRESS")`,
			`ApplyURI(os.Getenv("MONGODB_URI"))`, `ApplyURI(os.Getenv("MONGODB_URI")).SetMonitor(counter)`).Replace(code),
		"http.go":    string(files[1][1]),
		"counted.go": string(counted),
	})
	testkit.Command(t, dir, nil, "go", "build", "-o", "service", ".")
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
	sent := func() string { // since the last time
		response, err := http.Get("http://" + address + "/commands")
		testkit.OK(t, err)
		body, err := io.ReadAll(response.Body)
		testkit.OK(t, errors.Join(err, response.Body.Close()))
		return string(body)
	}
	trips := map[string][]string{}
	sent()
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
		method, path := "GET ", a[2]
		if form != "" {
			method = "POST "
		}
		if n := sent(); response.StatusCode == http.StatusOK {
			path, _, _ = strings.Cut(path, "?")
			trips[method+path] = append(trips[method+path], n)
		}
	}
	for request, want := range map[string]string{"POST /products/bat/reviews": "[4 3 3 3]", "GET /products/bat": "[1]", "GET /products/bat/reviews": "[1 1]"} {
		if got := fmt.Sprint(trips[request]); got != want {
			t.Errorf("%s: %s round trips, want %s", request, got, want)
		}
	}
	for _, row := range []string{"| a review is added | 3; the first of a product 4 |", "| the product is shown | 1 |", "| a page of reviews | 1 |"} {
		if !strings.Contains(string(text), row) {
			t.Errorf("%s does not say %s", page, row)
		}
	}
}

// The links in the documents are not broken, and each pattern package is listed.
func TestDocuments(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	for _, page := range append(pages, "docs/pictures/README.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md") {
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
		for _, pattern := range append(testkit.Patterns(t), "timeseries", "mongotest") {
			if !strings.Contains(string(text), "| ["+pattern+"](https://pkg.go.dev/"+testkit.Module+"/"+pattern+") |") {
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
		{"README.md", "Apache-2.0 · [v0](docs/questions.md#versions) · Go " + version + " or later · MongoDB 6.0 or later\n"},
		{"README.md", "one fails, 13 are skipped"},
		{"CHANGELOG.md", "one of them fails and 13 are\n  skipped"},
		{"LICENSE", "Version 2.0, January 2004"},
		{"docs/compatibility.md", "| mongod 6.0.5, replica sets of one and of three | `.ci/run` for each change: all tests, and three minutes of the "},
		{"docs/compatibility.md", "| mongod 6.0.5, two shards behind mongotest's router |"},
		{"docs/compatibility.md", "- **MongoDB 6.0 and later**"},
	} {
		if !strings.Contains(read(s.name), s.says) {
			t.Errorf("%s does not say %q", s.name, s.says)
		}
	}
	failed, skipped := 0, 0
	for _, row := range testkit.Value[[][]string](t)(csv.NewReader(strings.NewReader(read("docs/runs.csv"))).ReadAll())[1:] {
		failed += testkit.Value[int](t)(strconv.Atoi(row[4]))
		skipped += testkit.Value[int](t)(strconv.Atoi(row[5]))
	}
	if failed != 1 || skipped != 13 {
		t.Errorf("docs/runs.csv counts %d failures and %d skips, README.md and CHANGELOG.md 1 and 13", failed, skipped)
	}
	at := 0
	for _, page := range strings.Fields("first-service choosing adopting failures scaling questions compatibility") {
		_, list, _ := strings.Cut(readme, "## Begin")
		found := strings.Index(list, "(docs/"+page+".md)")
		if found < at {
			t.Errorf("docs/%s.md is at %d, after %d", page, found, at)
		}
		at = found
	}
}

// Every package shows calls in an example that runs.
func TestExamples(t *testing.T) {
	for _, dir := range append(testkit.Patterns(t), ".", "mongotest", "timeseries") {
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

// A link to an example names one that is there, and a manual or page names examples by links alone.
func TestExampleLinks(t *testing.T) {
	link := regexp.MustCompile(`https://pkg\.go\.dev/` + testkit.Module + `/(\w+)#example-([\w.-]+)`)
	plain := regexp.MustCompile(`\b[Tt]he examples? (of )?[A-Z]`)
	files, err := filepath.Glob("docs/*.md")
	testkit.OK(t, err)
	manuals, err := filepath.Glob("*/doc.go")
	testkit.OK(t, err)
	found := 0
	for _, name := range slices.Concat(files, manuals, []string{"README.md", "doc.go"}) {
		text, err := os.ReadFile(name)
		testkit.OK(t, err)
		for _, l := range link.FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(examplesOf(t, l[1]), l[2]) {
				t.Errorf("%s: package %s has no example %s", name, l[1], l[2])
			}
		}
		if said := plain.FindString(strings.Join(strings.Fields(string(text)), " ")); said != "" {
			t.Errorf("%s: %q is no link", name, said)
		}
	}
	if found < 15 {
		t.Errorf("only %d links", found)
	}
}

// examplesOf are the anchors of a package's examples on pkg.go.dev.
func examplesOf(t *testing.T, dir string) (anchors []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "example*_test.go"))
	testkit.OK(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		testkit.OK(t, err)
		for _, e := range regexp.MustCompile(`(?m)^func Example([A-Z]\w*)\(`).FindAllStringSubmatch(string(text), -1) {
			symbol, suffix := strings.Split(e[1], "_"), ""
			if last := symbol[len(symbol)-1]; last != "" && last[0] >= 'a' && last[0] <= 'z' {
				symbol, suffix = symbol[:len(symbol)-1], "-"+strings.ToUpper(last[:1])+last[1:]
			}
			anchors = append(anchors, strings.Join(symbol, ".")+suffix)
		}
	}
	return anchors
}

// The manual of each pattern in the table of shards leads to it.
func TestManualsLeadToTheShards(t *testing.T) {
	page, err := os.ReadFile("docs/shards.csv")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, dir := range testkit.Patterns(t) {
		manual, err := os.ReadFile(filepath.Join(dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n"+dir+",") {
			continue
		}
		found++
		if !strings.Contains(string(manual), "docs/shards.csv lists for each call the shards it asks") {
			t.Errorf("%s does not lead to the table", dir)
		}
	}
	if found < 17 {
		t.Errorf("the table has %d patterns", found)
	}
}
