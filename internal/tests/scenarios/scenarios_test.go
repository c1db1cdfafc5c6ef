package main

import (
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

// Every shape of the reference scenarios is reached by configuration alone, in a
// module of its own: the program compares whole documents and the indexes used.
func TestScenarios(t *testing.T) {
	db := mongotest.Database(t) // skips under -short
	dir := testkit.Consumer(t, testkit.Programs(t, "internal/tests/scenarios"))
	got := testkit.Command(t, dir, []string{"MONGODB_URI=" + mongotest.URI(t), "ADMIN_URI=" + mongotest.AdminURI(t)}, "go", "run", ".", db.Name())
	want := ""
	for _, heading := range strings.Fields("tree bucket paging attribute outlier subset extref relation versioning schemaversion computed approx prealloc polymorphic") {
		want += "ok " + heading + "\n"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
}
