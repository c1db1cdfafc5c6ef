package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) {
	testkit.AtRoot()
	testkit.Main(m)
}

// The packages work in a module of its own.
func TestConsumer(t *testing.T) {
	db := mongotest.Database(t) // skips under -short
	dir := testkit.Consumer(t, testkit.Programs(t, "internal/tests/consumer"))
	got := testkit.Command(t, dir, []string{"MONGODB_URI=" + mongotest.URI(t)}, "go", "run", ".", db.Name())
	want := "/house/attic/cellar/shelf\nShelf Cellar false true\nAttic true false\n180 90 34.5 59 11:59:00\n" +
		"1 1\nmended bought \n3 true\n2 2 1 Ann Summers\n2 ann Ann Summers; 1 clerk Ann; \n1 1 chair\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// A module that imports the packages neither requires, builds nor vendors the modules that only mongotest and
// the tests here need. (A test in mongotest checks that the packages do not import them.)
func TestConsumerGetsTheDriverOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("go mod tidy may need the network; not run with -short")
	}
	dir := testkit.Consumer(t, testkit.Programs(t, "internal/tests/consumer"))
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	built := testkit.Command(t, dir, nil, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	testkit.Command(t, dir, nil, "go", "mod", "vendor")
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
